"""Find records: what moved when, from where to where, why, and by which policy."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Select, Table, and_, exists, func, or_, select, true

from berthmaster.ledger.entries import DecisionEntry, Entry, concerned_clusters, evicted_from, trigger_of
from berthmaster.ledger.outcomes import DECISION
from berthmaster.ledger.past import content_of
from berthmaster.ledger.records import HistoryRow, Page, Query, RecordId
from berthmaster.ledger.schema import batches, records, segments, touched
from berthmaster.ledger.store import Store
from berthmaster.ledger.times import time_text
from berthmaster.model.binding import Binding, holder
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import DamagedLedgerError, InputError, NotRecordedError
from berthmaster.model.meta import CLUSTER_SCOPED

_CHUNK: Final = 256
_RARE_BATCHES: Final = 500
_RECENT_SEGMENTS: Final = 64
_MOST_WRITTEN: Final = 4096
_MOST_SKIPPED: Final = 2048
"""The most records that a page reads and leaves out."""
_EARLIER_US: Final = 24 * 3600 * 1_000_000
"""By how much a record can be earlier than the opening of its segment: queues wait, and clocks step back."""


def page(store: Store, query: Query, limit: int, after: RecordId | None = None) -> Page:
    """Return records, the latest first."""
    rows: list[HistoryRow] = []
    last, skipped = "", 0
    for row in _rows(store, query, _found(store, query, after)):
        if len(rows) >= limit or skipped >= _MOST_SKIPPED:
            return Page(rows, RecordId.parse(last))
        last = row.id
        if query.accepts(row):
            rows.append(row)
        else:
            skipped += 1
    return Page(rows, None)


def written(store: Store) -> dict[int, int]:
    """Return how many records each recent segment has."""
    recent = select(segments.c.segment, segments.c.records).order_by(segments.c.segment.desc()).limit(_RECENT_SEGMENTS)
    return {row.segment: row.records for row in store.rows(recent)}


def written_since(store: Store, query: Query, known: Mapping[int, int]) -> tuple[list[HistoryRow], dict[int, int]]:
    """Return the records that were written since, by their times, and how many each recent segment has up to them.

    ``known`` is the result of ``written``, or of the last call. Many records take several calls.
    """
    rows: list[HistoryRow] = []
    counts = written(store)
    for segment, count in counts.items():
        first = known.get(segment, 0 if segment > max(known, default=0) else count)
        counts[segment] = min(count, first + _MOST_WRITTEN)
        if first < counts[segment]:
            found = _rows(store, query, _range(store, query, segment, first, counts[segment]))
            rows += [row for row in found if query.accepts(row)]
    return sorted(rows, key=lambda row: row.time), counts


def latest_decision(store: Store, query: Query, before: RecordId | None = None) -> tuple[RecordId, int] | None:
    """Return the id and the batch of the latest decision, or of the last before a record; None if there is none."""
    return next(_found(store, query._replace(decisions_only=True), before), None)


def batch_of(store: Store, key: RecordId) -> int:
    """Return the batch of a record."""
    batch = store.value(_one(records.c.batch, key))
    if batch is None:
        raise NotRecordedError(f"the ledger has no record {key}")
    return int(batch)


def row_for(segment: int, entry: Entry) -> HistoryRow:
    """Return an entry for people."""
    if not isinstance(entry, DecisionEntry):
        note = entry.note
        return HistoryRow(
            str(RecordId(segment, entry.sequence)), time_text(entry.at_us), note.kind, note.namespace,
            note.resource_kind, note.name, message=note.message, policy=note.policy, details=dict(note.details),
        )  # fmt: skip
    return decision_row_for(segment, entry, decode_json(Binding, entry.binding))


def decision_row_for(segment: int, entry: DecisionEntry, binding: Binding) -> HistoryRow:
    """Return a decision for people. ``binding`` is the one that it read; its placement and its status do not matter."""
    outcome, resource, meta = entry.outcome, binding.spec.resource, binding.metadata
    before = binding.assignment
    return HistoryRow(
        str(RecordId(segment, entry.sequence)),
        time_text(entry.at_us),
        DECISION,
        resource.namespace,
        resource.kind,
        resource.name,
        trigger=trigger_of(entry),
        reason="NotWritten" if entry.error else outcome.reason,
        message=entry.error or outcome.event or outcome.message,
        policy=str(holder(meta) or ""),
        group=outcome.group,
        before=before,
        after=before if outcome.clusters is None or entry.error else dict(sorted(outcome.clusters.items())),
        uid=meta.uid,
        generation=meta.generation,
        reconcile_id=entry.reconcile_id,
        duration_ms=entry.duration_us / 1000,
        fleet=entry.version.hex(),
        evicted_from=sorted(evicted_from(binding, entry)),
    )


def _concerns(entry: Entry, cluster: str) -> bool:
    if isinstance(entry, DecisionEntry):
        outcome = entry.outcome
        named = (*(outcome.clusters or ()), *(task.from_cluster for task in outcome.evictions or ()))
        if cluster not in named and encode_json(cluster) not in entry.binding:
            return False  # found without decoding the binding: most records of a batch are about other clusters
        return cluster in concerned_clusters(decode_json(Binding, entry.binding), entry)
    return cluster in entry.note.clusters


def _one(column: Column[Any], key: RecordId) -> Select[Any]:
    return select(column).where(records.c.segment == key.segment, records.c.sequence == key.sequence)


def _found(store: Store, query: Query, after: RecordId | None) -> Iterator[tuple[RecordId, int]]:
    position = _position(store, after) if after is not None else None
    within = _segments_within(store, query)
    rare = bool(query.cluster) and _is_rare(store, query.cluster, within)
    while True:
        found = store.rows(_statement(query, position, within, rare=rare).limit(_CHUNK))
        for row in found:
            yield RecordId(row.segment, row.sequence), row.batch
        if len(found) < _CHUNK:
            return
        position = found[-1].at_us, found[-1].segment, found[-1].sequence


def _rows(store: Store, query: Query, found: Iterable[tuple[RecordId, int]]) -> Iterator[HistoryRow]:
    """Yield records that a statement found, with their batches, unless they do not concern the cluster of the query."""
    decoded: dict[tuple[int, int], dict[int, Entry]] = {}
    for key, batch in found:
        if (key.segment, batch) not in decoded:
            if len(decoded) >= _CHUNK:
                decoded.clear()
            content = content_of(store, key.segment, batch)
            decoded[key.segment, batch] = {} if content is None else {each.sequence: each for each in content.entries}
        entry = decoded[key.segment, batch].get(key.sequence)
        if entry is None:
            raise DamagedLedgerError(f"the ledger lacks record {key}")
        if not query.cluster or _concerns(entry, query.cluster):
            yield row_for(key.segment, entry)


def _range(store: Store, query: Query, segment: int, first: int, end: int) -> list[tuple[RecordId, int]]:
    own = records.c.segment == segment, records.c.sequence >= first, records.c.sequence < end
    statement = _statement(query, None, None, rare=False).where(*own).order_by(None).order_by(records.c.sequence)
    return [(RecordId(row.segment, row.sequence), row.batch) for row in store.rows(statement)]


def _position(store: Store, after: RecordId) -> tuple[int, int, int]:
    at_us = store.value(_one(records.c.at_us, after))
    if at_us is None:
        raise InputError(f"the ledger has no record {after}; start again without it")
    return int(at_us), after.segment, after.sequence


def _segments_within(store: Store, query: Query) -> tuple[int, int] | None:
    """Return the first and the last segment that can have records of the time range. None if it bounds nothing.

    PostgreSQL plans a query for the partitions that its bounds leave. An index on times needs no such bounds in SQLite.
    """
    if store.is_sqlite or (query.since_us, query.until_us) == (Query().since_us, Query().until_us):
        return None
    ends = select(func.min(segments.c.segment), func.max(segments.c.segment)).where(
        segments.c.last_us >= query.since_us, segments.c.opened_us <= query.until_us + _EARLIER_US
    )
    [(first, last)] = store.rows(ends)
    return first or 0, last or 0


def _inside(table: Table, within: tuple[int, int] | None) -> ColumnElement[bool]:
    return true() if within is None else table.c.segment.between(*within)


def _is_rare(store: Store, cluster: str, within: tuple[int, int] | None) -> bool:
    named = select(touched.c.batch).where(touched.c.cluster == cluster, _inside(touched, within))
    counted = select(func.count()).select_from(named.limit(_RARE_BATCHES).subquery())
    return bool(store.value(counted) < _RARE_BATCHES)


def _statement(
    query: Query, position: tuple[int, int, int] | None, within: tuple[int, int] | None, *, rare: bool
) -> Select[Any]:
    columns = records.c
    statement = select(columns.segment, columns.sequence, columns.batch, columns.at_us).where(
        columns.at_us >= query.since_us, columns.at_us <= query.until_us, _inside(records, within)
    )
    for column, value in ((columns.name, query.name), (columns.namespace, query.namespace)):
        if value:
            statement = statement.where(column == value)
    if query.resource_kind:
        statement = statement.where(func.lower(columns.resource_kind) == query.resource_kind.lower())
    if query.policy:
        full = [query.policy, f"PropagationPolicy {query.policy}", f"ClusterPropagationPolicy {query.policy}"]
        statement = statement.where(
            or_(columns.policy.in_(full), columns.policy.endswith(f"/{query.policy}", autoescape=True))
        )
    if query.trigger:
        statement = statement.where(or_(columns.trigger == query.trigger, columns.kind == query.trigger))
    if query.decisions_only or query.moves_only:
        statement = statement.where(columns.kind == DECISION)
    if query.cluster_scoped:
        statement = statement.where(columns.namespace == "")
    if query.namespaces is not None:
        seen = ["" if each == CLUSTER_SCOPED else each for each in sorted(query.namespaces)]
        statement = statement.where(columns.namespace.in_(seen))
    if query.user:
        statement = statement.where(columns.kind != DECISION)
    if query.cluster:
        statement = _of_batches(statement, query.cluster, within, rare=rare)
    if position is not None:
        at_us, segment, sequence = position
        statement = statement.where(
            columns.at_us <= at_us,
            or_(
                columns.at_us < at_us,
                columns.segment < segment,
                and_(columns.segment == segment, columns.sequence < sequence),
            ),
        )
    return statement.order_by(columns.at_us.desc(), columns.segment.desc(), columns.sequence.desc())


def _of_batches(statement: Select[Any], cluster: str, within: tuple[int, int] | None, *, rare: bool) -> Select[Any]:
    """Select the records of batches that concern a cluster.

    If few batches do, the statement starts from them. Otherwise it reads records in the order of time and skips those
    of other batches, so that the first page does not sort all records of the cluster.
    """
    columns = records.c
    if not rare:
        batch = and_(
            touched.c.cluster == cluster, touched.c.segment == columns.segment, touched.c.batch == columns.batch,
            _inside(touched, within),
        )  # fmt: skip
        return statement.where(exists().where(batch))
    own = and_(touched.c.segment == batches.c.segment, touched.c.batch == batches.c.number)
    range_ = and_(
        batches.c.segment == columns.segment,
        columns.sequence >= batches.c.first_record,
        columns.sequence < batches.c.first_record + batches.c.records,
    )
    found = statement.join(batches, range_).join(touched, own)
    return found.where(touched.c.cluster == cluster, _inside(touched, within), _inside(batches, within))
