"""A request to stop, which may come from a signal."""

import time
from typing import Final

_CHECK_INTERVAL_S: Final = 0.1


class Stop:
    """Whether this process should stop. Any thread and any signal handler may set it.

    A signal handler runs in the thread that waits, between two bytecode steps. A ``threading.Event`` fails here in two
    ways. If the waiting thread holds the event's lock, the handler waits for that lock forever. If the signal comes
    after the last check and before the wait, the wait does not end. ``Stop`` therefore takes no lock, and each of its
    sleeps is short.
    """

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        self.asked = True

    def wait(self, timeout_s: float = float("inf")) -> bool:
        """Wait for a request to stop, for at most ``timeout_s`` seconds. Return whether there is one."""
        deadline_s = time.monotonic() + timeout_s
        while not self.asked and (left_s := deadline_s - time.monotonic()) > 0:
            time.sleep(min(_CHECK_INTERVAL_S, left_s))
        return self.asked
