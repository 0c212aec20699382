"""Wait for a condition, with a deadline that a loaded machine meets."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

LIMIT_S: Final = 60.0
_FIRST_POLL_S: Final = 0.002
_LAST_POLL_S: Final = 0.05

Value = TypeVar("Value")


def wait_for(
    check: Callable[[], Value], observed: Callable[[], object] = lambda: "", limit_s: float = LIMIT_S
) -> Value:
    """Ask until a check returns something true, and return it.

    Args:
        check: the check. It is asked every few milliseconds, later less often.
        observed: returns what the failure shows.
        limit_s: how long to ask before the test fails.
    """
    deadline_s, poll_s = time.monotonic() + limit_s, _FIRST_POLL_S
    while not (found := check()):
        assert time.monotonic() < deadline_s, observed()
        time.sleep(poll_s)
        poll_s = min(2 * poll_s, _LAST_POLL_S)
    return found
