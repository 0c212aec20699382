"""The circuit breaker of an estimator: when it is no longer asked, and when it is tried again."""

from enum import Enum
from typing import Final

from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.clock import Clock

FAILURES_UNTIL_BROKEN: Final = 3
"""The number of consecutive failures that decisions wait for."""
FIRST_TRIAL_WAIT_S: Final = 5.0
LONGEST_TRIAL_WAIT_S: Final = 60.0
_TRIAL_LIMIT_S: Final = 120.0  # longer than any trial takes, so that only one runs at a time


class EstimatorHealth(Enum):
    """The state of a circuit breaker."""

    HEALTHY = "healthy"
    FAILING = "failing"
    """The last request failed. The next one may succeed."""
    BROKEN = "broken"
    """Decisions do not wait for the estimator until a trial in the background succeeds."""


class CircuitBreaker:
    """Counts consecutive failures, and schedules trials of a broken estimator.

    Trials run in the background, so decisions never wait for a broken estimator.
    """

    def __init__(self, clock: Clock, trial_backoff: Backoff | None = None) -> None:
        self.health = EstimatorHealth.HEALTHY
        self._clock = clock
        self._trial_backoff = trial_backoff or Backoff(FIRST_TRIAL_WAIT_S, LONGEST_TRIAL_WAIT_S)
        self._failures = 0
        self._due_s = 0.0

    @property
    def closed(self) -> bool:
        """Whether decisions wait for the estimator."""
        return self.health is not EstimatorHealth.BROKEN

    def begin_trial(self) -> bool:
        """Whether a trial is due. The caller that gets True runs it, and reports its result."""
        now_s = self._clock.monotonic_s()
        if self.closed or now_s < self._due_s:
            return False
        self._due_s = now_s + _TRIAL_LIMIT_S
        return True

    def succeeded(self) -> None:
        self.health, self._failures = EstimatorHealth.HEALTHY, 0
        self._trial_backoff.reset()

    def failed(self) -> None:
        """Report a failed request of a decision. It does not delay the next trial."""
        self._failures += 1
        if self.health is EstimatorHealth.BROKEN:
            return
        self.health = EstimatorHealth.FAILING
        if self._failures >= FAILURES_UNTIL_BROKEN:
            self.open()

    def open(self) -> None:
        """Report that there is no connection, or that a trial failed: the next trial waits, longer each time."""
        self.health = EstimatorHealth.BROKEN
        self._due_s = self._clock.monotonic_s() + self._trial_backoff.next_s()
