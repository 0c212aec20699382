"""The time, as an argument: what runs needs ``SystemClock``, what is tested brings its own."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The time of day, in UTC."""

    def monotonic_s(self) -> float:
        """Seconds since some moment; never goes back."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()
