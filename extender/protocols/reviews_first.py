"""Reviews first: long computations of other requests pause while a review is judged."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PAUSE_S: Final = 0.05
"""The longest pause before one step of another computation, so that it goes on slowly beside many reviews."""


class ReviewsFirst:
    """Lets other computations pause while reviews are judged. Safe for several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._active = 0
        self._stored = 0

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Let others pause during the context."""
        with self._changed:
            self._active += 1
        try:
            yield
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    @contextmanager
    def stored(self) -> Iterator[None]:
        """Let dry runs end during the context: a change that would be stored waits for its review."""
        with self._changed:
            self._stored += 1
        try:
            yield
        finally:
            with self._changed:
                self._stored -= 1

    @property
    def stored_wait(self) -> bool:
        """Whether a change that would be stored waits for its review."""
        return self._stored > 0

    def pause(self) -> None:
        """Wait while a review is judged, for at most ``PAUSE_S``. Call it between two steps of a long computation."""
        if not self._active:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._active, PAUSE_S)
