"""A clock that is told what time it is."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class FakeClock:
    """Stands still unless told.

    Attributes:
        passed_s: how long it runs.
        skew_s: by how much its time of day is wrong.
    """

    passed_s: float = 1000.0
    skew_s: float = 0.0

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.passed_s + self.skew_s)

    def monotonic_s(self) -> float:
        return self.passed_s

    def pass_by(self, seconds: float) -> None:
        self.passed_s += seconds
