"""Times as the ledger stores them: in microseconds since 1970."""

from datetime import UTC, datetime, timedelta
from typing import Final

MICROSECONDS: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return round(at.timestamp() * MICROSECONDS)


def time_text(at_us: int) -> str:
    """Return a time in microseconds since 1970 as RFC 3339 text."""
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds")
