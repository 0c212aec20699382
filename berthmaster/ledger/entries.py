"""The entries of the ledger: decisions and notes, and what they can be found by."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from berthmaster.deciding.decision_recorder import DecisionOutcome, MoveInputs
from berthmaster.ledger.fleet_versions import FleetChange
from berthmaster.model.binding import Binding, holder
from berthmaster.model.decode import decode_json
from berthmaster.model.move import MOVE
from berthmaster.model.note import Note
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits
from berthmaster.scheduling.karmada.trigger import Trigger

FORMAT: Final = 3
"""The version of everything inside a batch. A reader refuses a later one."""
NO_DOCUMENT: Final = -1


class Configuration(msgspec.Struct, frozen=True, rename="camel"):
    """How a process decides. A document; every decision refers to one."""

    version: str
    plugins: tuple[str, ...]
    keep_empty: bool = False
    limits: PlacementLimits = DEFAULT_LIMITS
    failover_after_s: float | None = None
    producer: str = "berthmaster"
    gates: Mapping[str, bool] = {}


class DecisionEntry(msgspec.Struct, frozen=True, array_like=True, tag="decision", gc=False):
    """A decision, with everything that it read. Documents are numbers; ``NO_DOCUMENT`` is none.

    Attributes:
        fleet: how the clusters changed since the decision before.
        at_us: when it was taken, in microseconds since 1970.
        duration_us: from the start of the decision to the last write.
        error: why its assignment was not written; empty if it was.
        binding: the binding as it was read, as JSON, without placement and applied placement, and without the status of
            members unless it has a move.
        placement, applied: the documents of the binding's placement and of the annotation with the applied one.
        configuration: the document with how the process decides.
        unready: the document with the monotonic time since which clusters are not ready.
        peers: the document with the clusters of the workloads in the binding's affinity groups.
        outcome: the decision, without the annotation of the applied placement.
        written: the document with that annotation; ``NO_DOCUMENT`` if it does not change.
    """

    fleet: FleetChange
    sequence: int
    at_us: int
    duration_us: int
    reconcile_id: str
    error: str
    binding: bytes
    placement: int
    applied: int
    configuration: int
    now_s: float
    unready: int
    peers: int
    bounds: dict[str, int] | None
    moves: MoveInputs | None
    version: bytes
    outcome: DecisionOutcome
    written: int


class NoteEntry(msgspec.Struct, frozen=True, array_like=True, tag="note", gc=False):
    """Another fact, with its position in the segment and its time in microseconds since 1970."""

    sequence: int
    at_us: int
    note: Note


Entry = DecisionEntry | NoteEntry


class RecordRow(NamedTuple):
    """What a record can be found by. It is derived from its entry, and the audit derives it again.

    Attributes:
        kind: ``decision`` or the kind of a note.
        reason: the reason of a decision, or ``NotWritten``.
        namespace, resource_kind, name: the workload of a decision, or the object of a note.
    """

    sequence: int
    at_us: int
    kind: str
    trigger: str
    reason: str
    namespace: str
    resource_kind: str
    name: str
    policy: str


def decision_row(entry: DecisionEntry, binding: Binding) -> RecordRow:
    """Return what a decision can be found by."""
    resource, policy = binding.spec.resource, holder(binding.metadata)
    return RecordRow(
        entry.sequence,
        entry.at_us,
        "decision",
        trigger_of(entry),
        "NotWritten" if entry.error else entry.outcome.reason,
        resource.namespace,
        resource.kind,
        resource.name,
        str(policy or ""),
    )


def trigger_of(entry: DecisionEntry) -> str:
    """Return the trigger of a decision; ``Move`` for a step of a move, which has no trigger of its own."""
    trigger = entry.outcome.trigger
    return "Move" if trigger == Trigger.NONE.value and MOVE in entry.outcome.annotations else trigger


def note_row(entry: NoteEntry) -> RecordRow:
    """Return what a note can be found by."""
    note = entry.note
    return RecordRow(
        entry.sequence, entry.at_us, note.kind, "", "", note.namespace, note.resource_kind, note.name, note.policy
    )


def row_of(entry: Entry) -> RecordRow:
    """Return what an entry can be found by, from its bytes alone."""
    return note_row(entry) if isinstance(entry, NoteEntry) else decision_row(entry, decode_json(Binding, entry.binding))


def clusters_of(entry: Entry) -> AbstractSet[str]:
    """Return the clusters that an entry is about, from its bytes alone."""
    if isinstance(entry, NoteEntry):
        return set(entry.note.clusters)
    return concerned_clusters(decode_json(Binding, entry.binding), entry)


def concerned_clusters(binding: Binding, entry: DecisionEntry) -> AbstractSet[str]:
    """Return the clusters whose replicas a decision changes, and those from which its workload is evicted then."""
    changed = _changed_clusters(binding, entry)
    return changed | evicted_from(binding, entry) if changed or entry.outcome.evictions is not None else changed


def evicted_from(binding: Binding, entry: DecisionEntry) -> AbstractSet[str]:
    """Return the clusters from which a workload is evicted: by the decision, or by others before it."""
    return binding.evicted_from.union(task.from_cluster for task in entry.outcome.evictions or ())


def _changed_clusters(binding: Binding, entry: DecisionEntry) -> AbstractSet[str]:
    after = entry.outcome.clusters
    if after is None:
        return frozenset()
    if not binding.spec.clusters:
        return after.keys()
    before = binding.assignment
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
