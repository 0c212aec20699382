"""The decisions of a range of time with their bindings, as each found and as each left them. Read in parts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from sqlalchemy import func, select

from berthmaster.ledger.entries import DecisionEntry, Entry
from berthmaster.ledger.history import decision_row_for
from berthmaster.ledger.outcomes import DecidedBinding, outcome_of_record
from berthmaster.ledger.past import SegmentReader, content_of
from berthmaster.ledger.schema import batches, segments
from berthmaster.ledger.store import Store

_WITHOUT_DECISIONS: Final = "webhook"
"""The role of the processes that record no decisions."""


class DecidedPart(NamedTuple):
    """The decisions of one batch.

    Attributes:
        read: how many records of the segment are read up to its end.
        missing: what its records say about records that are missing, with their times.
    """

    segment: int
    read: int
    decisions: list[DecidedBinding]
    missing: list[tuple[int, str]]


def first_us(store: Store) -> int | None:
    """Return the time from which on the ledger has decisions, in microseconds since 1970; None without any."""
    found = store.values(select(func.min(segments.c.opened_us)).where(segments.c.role != _WITHOUT_DECISIONS))
    return None if found[0] is None else int(found[0])


def decided(store: Store, since_us: int, known: Mapping[int, int]) -> Iterator[DecidedPart]:
    """Yield the decisions from a time on, by segment and in the order in which they were written.

    ``known`` is how many records of a segment the caller has read; absent for none.
    """
    opened = select(segments.c.segment, segments.c.records).where(
        segments.c.last_us >= since_us, segments.c.role != _WITHOUT_DECISIONS
    )
    for row in store.rows(opened.order_by(segments.c.segment)):
        first = known.get(row.segment, 0)
        if row.records > first:
            yield from _of_segment(store, row.segment, first, since_us)


def _of_segment(store: Store, segment: int, first: int, since_us: int) -> Iterator[DecidedPart]:
    columns = batches.c
    new = select(columns.number).where(
        columns.segment == segment, columns.first_record + columns.records > first, columns.last_us >= since_us
    )
    reader = SegmentReader(store, segment)
    for number in store.values(new.order_by(columns.number)):
        content = content_of(store, segment, number)
        if content is None:  # the retention removed it since
            return
        entries = [each for each in content.entries if each.sequence >= first and each.at_us >= since_us]
        decisions = [_decision(reader, segment, each) for each in entries if isinstance(each, DecisionEntry)]
        yield DecidedPart(segment, content.entries[-1].sequence + 1, decisions, [*_missing(entries)])


def _decision(reader: SegmentReader, segment: int, entry: DecisionEntry) -> DecidedBinding:
    before, after = reader.bindings(entry)
    return DecidedBinding(entry.at_us, before, after, outcome_of_record(decision_row_for(segment, entry, before)))


def _missing(entries: Iterable[Entry]) -> Iterator[tuple[int, str]]:
    for each in entries:
        if not isinstance(each, DecisionEntry) and each.note.kind == "gap":
            yield each.at_us, each.note.message
