"""``MicroTime``: points in time as leases and events write them."""

from datetime import UTC, datetime


def micro_time(moment: datetime) -> str:
    """A moment as the API server wants it: UTC, with six digits of a second always."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
