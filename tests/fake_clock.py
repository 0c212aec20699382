"""A clock that a test controls."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class FakeClock:
    """See ``berthmaster.runtime.clock.Clock``. It stands still unless a test moves it.

    Attributes:
        passed_s: the monotonic time.
        skew_s: the error of the time of day.
        start: the time of day when the monotonic time was 0.
        tick_s: how far each reading of the monotonic time moves the clock.
    """

    passed_s: float = 1000.0
    skew_s: float = 0.0
    start: datetime = START
    tick_s: float = 0.0

    @classmethod
    def at(cls, now: datetime) -> Self:
        return cls(passed_s=0.0, start=now)

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.passed_s + self.skew_s)

    def monotonic_s(self) -> float:
        self.passed_s += self.tick_s
        return self.passed_s

    def pass_by(self, seconds: float) -> None:
        """Move both times forward."""
        self.passed_s += seconds
