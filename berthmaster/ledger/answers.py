"""Explain a recorded decision with the fleet as it was."""

from dataclasses import replace
from typing import NamedTuple

import msgspec

from berthmaster.controllers.binding_scheduler.decide import ClusterState, lost_clusters
from berthmaster.controllers.binding_scheduler.failover import FailoverOptions
from berthmaster.controllers.binding_scheduler.writes import effective
from berthmaster.controllers.decision_recorder import DecisionOutcome
from berthmaster.ledger.history import batch_of, latest_decision, previous_decision, row_for
from berthmaster.ledger.past import PastDecision, SegmentReader
from berthmaster.ledger.records import HistoryRow, Query, RecordId
from berthmaster.ledger.replay import Scene, profile_of
from berthmaster.ledger.store import Store
from berthmaster.model.binding import Binding, TargetCluster
from berthmaster.model.claims import holder
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError
from berthmaster.model.unsupported import unsupported_parts
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.report import Explanation, explanation
from berthmaster.simulation.run import WorkloadResult
from berthmaster.simulation.workload import SimulatedWorkload


class Recalled(NamedTuple):
    """A recorded decision and the fleet that it was taken on."""

    past: PastDecision
    clusters: list[Cluster]


class PastExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of a recorded decision.

    Attributes:
        record: the decision as it was recorded.
        explanation: the diagnosis, made now from what the decision read.
        reproduced: whether this version decides the same, byte for byte. If not, the diagnosis is that of this
            version, and can differ from the record.
        notes: what to know about both, one sentence each.
    """

    record: HistoryRow
    explanation: Explanation
    reproduced: bool
    notes: list[str] = []


def recall(store: Store, query: Query) -> Recalled:
    """Return the latest decision that a query finds.

    Raises:
        InputError: there is none, or the ledger is damaged.
        LedgerError: the database cannot be read.
    """
    found = latest_decision(store, query)
    if found is None:
        raise InputError("the ledger has no such decision; `berthmaster history` shows what it has")
    key, batch = found
    return Recalled(*SegmentReader(store, key.segment).decision(batch, key.sequence))


def recall_by_id(store: Store, key: RecordId) -> Recalled:
    """Return a decision by its id; raises as ``recall``."""
    return Recalled(*SegmentReader(store, key.segment).decision(batch_of(store, key), key.sequence))


def recall_previous(store: Store, past: PastDecision) -> Recalled | None:
    """Return the last decision on the same binding before another one; None if the ledger has none.

    A binding that was deleted and created again has another uid; its decisions do not count.
    """
    resource = past.binding.spec.resource
    query = Query(resource.namespace, resource.kind, resource.name)
    found = previous_decision(store, query, RecordId(past.segment, past.entry.sequence))
    if found is None:
        return None
    key, batch = found
    recalled = Recalled(*SegmentReader(store, key.segment).decision(batch, key.sequence))
    same = recalled.past.binding.metadata.uid == past.binding.metadata.uid
    return recalled if same else None


def past_explanation(recalled: Recalled) -> PastExplanation:
    """Explain a recorded decision.

    Raises:
        InputError: a plugin that it used is not installed.
    """
    past, clusters = recalled
    scene = Scene(profile_of(past.configuration), clusters)
    again = scene.decide(past)
    result = _result(scene, past, again)
    reproduced = again == past.outcome
    notes = []
    if not reproduced:
        version = past.configuration.version
        notes.append(f"this version decides differently than {version}, which took the decision; see `replay`")
    if past.entry.error:
        notes.append(f"the assignment was not written: {past.entry.error}")
    if _replaces(scene, past):
        notes.append("failover kept the replicas on ready clusters; the diagnosis is about the lost ones' new places")
    if past.bounds is not None:
        notes.append(f"scheduler estimators limited {len(past.bounds)} clusters")
    explained = explanation(result)
    return PastExplanation(row_for(past.segment, past.entry), explained, reproduced, notes)


def _result(scene: Scene, past: PastDecision, outcome: DecisionOutcome) -> WorkloadResult:
    after = past.binding
    if outcome.clusters is not None:
        targets = tuple(TargetCluster(name, replicas) for name, replicas in outcome.clusters.items())
        spec = msgspec.structs.replace(after.spec, clusters=targets)
        status = msgspec.structs.replace(after.status, scheduler_observing_affinity_name=outcome.group)
        after = msgspec.structs.replace(after, spec=spec, status=status)
    workload = _workload(past, after)
    if unsupported_parts(past.binding.spec.placement):
        return WorkloadResult(workload, Trigger(outcome.trigger))
    request = scene.request(past)
    lost = _replaces(scene, past)
    if lost:
        kept = {name: replicas for name, replicas in request.current.items() if name not in lost}
        request = replace(request, current=kept, evicted_from=request.evicted_from | lost)
    decision = scene.scheduler.schedule(request)
    return WorkloadResult(workload, Trigger(outcome.trigger), decision, explain(scene.scheduler, request, decision))


def _replaces(scene: Scene, past: PastDecision) -> frozenset[str]:
    """Return the clusters that failover replaced."""
    if past.outcome.evictions is None:
        return frozenset()
    options = FailoverOptions(past.configuration.failover_after_s, past.configuration.producer)
    state = ClusterState(scene.scheduler, past.unready_since_s, options)
    lost, _ = lost_clusters(state, effective(past.binding), past.entry.now_s)
    return lost


def _workload(past: PastDecision, binding: Binding) -> SimulatedWorkload:
    held_by = holder(past.binding.metadata)
    return SimulatedWorkload(binding.spec.resource, (), binding, held_by=held_by, present=True)
