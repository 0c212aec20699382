"""What the ledger keeps, by age and size."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from berthmaster.ledger.schema import records, segments
from berthmaster.ledger.store import Store
from berthmaster.ledger.times import MICROSECONDS
from berthmaster.model.note import Note

STEP_BATCHES: Final = 50
_SILENT: Final = timedelta(days=2)


@dataclass(slots=True)
class Retention:
    """What to keep, by age and size. Segments go in their order, in small steps, so that the chain stays whole.

    A note in the chain says what was removed.

    Attributes:
        age: remove segments whose last record is older.
        size_bytes: remove the oldest segments while the database stores more.
        removing: the last segment of those that are being removed; None for none.
    """

    age: timedelta = timedelta(days=30)
    size_bytes: int = 5 * 2**30
    removing: int | None = field(default=None, init=False)

    @property
    def busy(self) -> bool:
        return self.removing is not None

    def step(self, store: Store, own: int, now: datetime) -> Note | None:
        """Remove some batches of the oldest segment that need not be kept; in PostgreSQL, the oldest partition.

        The caller writes segment ``own``, which is kept, and the note for the chain if this starts to remove a segment.
        """
        if self.removing is not None:
            if not store.remove_step(self.removing, STEP_BATCHES):
                self.removing = None
            return None
        end = store.removed_together()
        if end is None or end >= own:
            return None
        oldest = store.rows(sa.select(segments).where(segments.c.segment <= end).order_by(segments.c.segment))
        if not oldest or not all(self._ended(store, each, now) for each in oldest):
            return None
        last, last_us = oldest[-1], max(each.last_us for each in oldest)
        old = last_us < (now - self.age).timestamp() * MICROSECONDS
        if not old and store.size_bytes() <= self.size_bytes:
            return None
        self.removing = last.segment
        reason = f"older than {self.age.days} days" if old else f"the ledger exceeds {self.size_bytes} bytes"
        removed = sum(each.records for each in oldest)
        which = f"segments {oldest[0].segment} to {last.segment}" if len(oldest) > 1 else f"segment {last.segment}"
        return Note(
            "retention",
            f"{removed} records of {which} are removed: {reason}",
            details={
                "segment": last.segment, "opening": last.opening.hex(), "digest": last.digest.hex(),
                "records": removed, "lastUs": last_us,
            },
        )  # fmt: skip

    def _ended(self, store: Store, segment: sa.Row[Any], now: datetime) -> bool:
        """Return whether no process writes a segment any more: it ended, or it is silent for long."""
        if segment.last_us < (now - _SILENT).timestamp() * MICROSECONDS:
            return True
        own = records.c.segment == segment.segment, records.c.sequence == segment.records - 1
        return bool(store.value(sa.select(records.c.kind).where(*own)) == "stop")
