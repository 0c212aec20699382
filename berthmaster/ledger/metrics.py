"""The metrics of a process that writes to the ledger."""

from typing import Final

from prometheus_client import Counter, Gauge

RECORDS: Final = Counter("berthmaster_ledger_records", "Records, by what became of them: written or lost.", ("result",))
BYTES: Final = Counter("berthmaster_ledger_written_bytes", "Bytes of compressed records that were written.")
FAILING: Final = Gauge(
    "berthmaster_ledger_failing",
    "1 while the database of the ledger cannot be written, else 0.",
    multiprocess_mode="livemax",
)
WAITING: Final = Gauge(
    "berthmaster_ledger_waiting_records", "Records that are not written yet.", multiprocess_mode="livesum"
)
SIZE: Final = Gauge(
    "berthmaster_ledger_size_bytes", "What the database of the ledger stores.", multiprocess_mode="livemax"
)


class LedgerMetrics:
    """Counts what a recorder does."""

    def __init__(self) -> None:
        for result in ("written", "lost"):
            RECORDS.labels(result)
        FAILING.set(0)

    def written(self, records: int, size_bytes: int) -> None:
        RECORDS.labels("written").inc(records)
        BYTES.inc(size_bytes)

    def lost(self, records: int) -> None:
        """Count records that will never be written."""
        RECORDS.labels("lost").inc(records)

    def failing(self, failing: bool) -> None:  # noqa: FBT001 - the value of a gauge
        FAILING.set(failing)

    def waiting(self, records: int) -> None:
        """Set how many records are not written yet."""
        WAITING.set(records)

    def size(self, size_bytes: int) -> None:
        SIZE.set(size_bytes)
