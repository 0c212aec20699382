"""Whether an estimator is worth waiting for: a circuit breaker for one cluster."""

from enum import Enum
from typing import Final

from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.clock import Clock

FAILURES_UNTIL_BROKEN: Final = 3
"""How many failures in a row decisions wait for."""

FIRST_REST_S: Final = 5.0
LONGEST_REST_S: Final = 60.0
_TRIAL_LIMIT_S: Final = 120.0  # longer than a trial can take: one at a time


class Health(Enum):
    """How an estimator did last."""

    WELL = "well"
    """It answers."""

    FAILING = "failing"
    """It failed, but may well answer the next time."""

    BROKEN = "broken"
    """It keeps failing: decisions do without it, until a trial in the background goes well."""


class Breaker:
    """Counts failures in a row, and says when a broken one is due for a trial.

    A trial is made beside decisions, never in their way: an estimator that is dead costs them nothing.

    Attributes:
        health: how it did last.
    """

    def __init__(self, clock: Clock, rest: Backoff | None = None) -> None:
        self.health = Health.WELL
        self._clock = clock
        self._rest = rest or Backoff(FIRST_REST_S, LONGEST_REST_S)
        self._failures = 0
        self._due_s = 0.0

    @property
    def waited_for(self) -> bool:
        """Whether a decision should wait for it."""
        return self.health is not Health.BROKEN

    def begin_trial(self) -> bool:
        """Whether a trial is due; whoever gets True makes it, and tells how it went."""
        now_s = self._clock.monotonic_s()
        if self.waited_for or now_s < self._due_s:
            return False
        self._due_s = now_s + _TRIAL_LIMIT_S
        return True

    def succeeded(self) -> None:
        """It answered."""
        self.health, self._failures = Health.WELL, 0
        self._rest.reset()

    def failed(self) -> None:
        """It did not answer a decision. One that is broken already gets no later for that."""
        self._failures += 1
        if self.health is Health.BROKEN:
            return
        self.health = Health.FAILING
        if self._failures >= FAILURES_UNTIL_BROKEN:
            self.broke()

    def broke(self) -> None:
        """It cannot answer, or the trial failed: leave it alone for a while, longer each time."""
        self.health = Health.BROKEN
        self._due_s = self._clock.monotonic_s() + self._rest.next_s()
