"""Wait for a condition, with a deadline that a loaded machine meets."""

import time
from collections.abc import Callable


def wait_for(holds: Callable[[], object], limit_s: float = 30) -> None:
    """Ask until a condition holds; fail after a time."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
