"""A circuit breaker: stops requests to a service that keeps failing, and tries it again from time to time."""

import threading
from typing import Final

from berthmaster.runtime.clock import Clock
from webhook.admission.impact import NotComputed, Unanswered

FAILURES: Final = 3
"""The failures in a row after which the breaker opens. Slow answers to one question are one failure."""
OPEN_S: Final = 5.0
"""The time between two tries while the breaker is open."""


class Breaker:
    """Closed: every request passes. Open: none passes, except one try after each ``OPEN_S``.

    The first success closes the breaker. Safe for several threads.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._slow: set[str] = set()
        self._try_at_s = 0.0
        self._last = NotComputed(Unanswered.BREAKER, "")

    @property
    def is_open(self) -> bool:
        return self._failures >= FAILURES

    def refusal(self) -> NotComputed | None:
        """Return why a request must not be sent; None if it may. Then the caller reports how it went."""
        with self._lock:
            if not self.is_open:
                return None
            left_s = self._try_at_s - self._clock.monotonic_s()
            if left_s <= 0:
                self._try_at_s = self._clock.monotonic_s() + OPEN_S  # one request tries; the others wait for it
                return None
            cause = f"the extender failed {self._failures} times in a row ({self._last.reason})"
            return NotComputed(Unanswered.BREAKER, f"{cause}; retry in {left_s:.0f} s", self._last.unreachable)

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0
            self._slow.clear()

    def failed(self, answer: NotComputed, slow: str = "") -> None:
        """Count a failure. A failed try keeps the breaker open.

        Args:
            slow: the question, if the extender was too slow for it. The same question counts once.
        """
        with self._lock:
            if slow and slow in self._slow and not self.is_open:
                return
            if slow:
                self._slow.add(slow)
            self._failures += 1
            self._last = answer
            if self.is_open:
                self._try_at_s = self._clock.monotonic_s() + OPEN_S
                self._slow.clear()
