"""The clock as an argument: production code passes ``SystemClock``, tests pass a fake clock."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time of day in UTC."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary start. The value never decreases."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()
