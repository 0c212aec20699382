"""What a record did to a workload: one answer for badges, tables and figures. A pure function of the record."""

from enum import Enum
from typing import Final, NamedTuple

from berthmaster.ledger.records import HistoryRow
from berthmaster.model.binding import Binding
from berthmaster.scheduling.karmada.trigger import Trigger

DECISION: Final = "decision"
"""The kind of a record that is a decision."""
MOVED: Final = "Move"
"""What the ledger records in place of a trigger for a step of a move."""
_GOOD: Final = frozenset({"", "Success"})


class RecordOutcome(Enum):
    """What a record did to a workload."""

    NOTE = "note"
    """It is no decision."""
    FAILED = "failed"
    LOST = "lost"
    """The workload lost all clusters."""
    SCALED_DOWN = "scaled-down"
    FEWER = "fewer"
    """It got fewer replicas, without a request for fewer."""
    EVICTED = "evicted"
    STEP = "step"
    """A step of a move."""
    CONFIRMED = "confirmed"
    """Nothing changed."""
    PLACED = "placed"


def outcome_of_record(record: HistoryRow) -> RecordOutcome:
    """Return what a record did. A loss of replicas or of all clusters is a loss, whatever caused it."""
    before, after = record.before or {}, record.after or {}
    if record.kind != DECISION:
        return RecordOutcome.NOTE
    if record.reason not in _GOOD:
        return RecordOutcome.FAILED
    if before and not after:
        return RecordOutcome.LOST
    if record.trigger == MOVED:
        return RecordOutcome.STEP
    if sum(after.values()) < sum(before.values()):
        return RecordOutcome.SCALED_DOWN if record.trigger == Trigger.SCALE.value else RecordOutcome.FEWER
    if record.evicted_from:
        return RecordOutcome.EVICTED
    return RecordOutcome.CONFIRMED if before == after else RecordOutcome.PLACED


class DecidedBinding(NamedTuple):
    """A decision: when it was taken, the binding before and after it, and what it did."""

    at_us: int
    before: Binding
    after: Binding
    outcome: RecordOutcome
