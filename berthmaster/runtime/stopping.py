"""Being told to stop, by a signal too."""

import time
from typing import Final

_LOOK_EVERY_S: Final = 0.1


class Stop:
    """Whether a process has been told to stop; any thread and any signal handler may tell.

    A handler interrupts the very thread that waits, between any two steps. The lock of a ``threading.Event`` that this
    thread has just taken would never be given back to it; and a signal that comes after the last look for signals, but
    before the wait, ends no wait. So nothing is locked here, and no wait is long.

    Attributes:
        asked: whether it has been told.
    """

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        """Tell."""
        self.asked = True

    def wait(self, timeout_s: float = float("inf")) -> bool:
        """Wait until told, or for some seconds; whether it has been told."""
        deadline_s = time.monotonic() + timeout_s
        while not self.asked and (left_s := deadline_s - time.monotonic()) > 0:
            time.sleep(min(_LOOK_EVERY_S, left_s))
        return self.asked
