"""Questions about recorded decisions, answered with the fleet as it was."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from berthmaster.deciding.decide import ClusterState, lost_clusters
from berthmaster.deciding.decision_recorder import DecisionOutcome
from berthmaster.deciding.failover import FailoverOptions, remaining
from berthmaster.deciding.writes import effective
from berthmaster.ledger.differences import input_difference
from berthmaster.ledger.history import batch_of, latest_decision, row_for
from berthmaster.ledger.past import PastDecision, Recalled, SegmentReader
from berthmaster.ledger.records import PastExplanation, Query, RecordId
from berthmaster.ledger.replay import Scene, profile_of
from berthmaster.ledger.store import Store
from berthmaster.model.binding import TargetCluster, holder
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError, NotRecordedError
from berthmaster.model.unsupported_placement import unsupported_parts
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.request import Request
from berthmaster.simulation.report import explanation
from berthmaster.simulation.results import WorkloadResult
from berthmaster.simulation.why_not import WhyNot, WhyNotQuestion, why_not
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World


def explain_decision(store: Store, wanted: Query | RecordId, *, difference: bool = False) -> PastExplanation:
    """Explain a recorded decision, or the latest one that a query finds.

    Raises ``InputError`` if the ledger is damaged, or if a plugin that the decision used is not installed.
    """
    recalled = recall(store, wanted)
    explained = past_explanation(recalled)
    previous = recall_previous(store, recalled.past) if difference else None
    if previous is None:
        return explained
    return replace(explained, difference=input_difference(previous, recalled))


def why_not_then(store: Store, wanted: Query | RecordId, cluster: str) -> WhyNot:
    """Return the smallest change under which a recorded decision would have taken a cluster. Raises ``InputError``."""
    past, clusters = recall(store, wanted)
    unsupported = unsupported_parts(past.binding.spec.placement)
    if unsupported:
        raise InputError(f"no scheduler places decision {past.id}: {past.outcome.message}")
    scene = Scene(profile_of(past.configuration), clusters)
    notes = [] if scene.decide(past) == past.outcome else [_differs(past)]
    answer = why_not(_question(scene, past, {each.name: each for each in clusters}), cluster)
    return replace(answer, unknown=[*notes, *answer.unknown])


def _question(scene: Scene, past: PastDecision, clusters: Mapping[str, Cluster]) -> WhyNotQuestion:
    """Return the question about a recorded decision. What it read besides clusters and binding does not change."""
    workload = SimulatedWorkload(past.binding.spec.resource, (), past.binding, present=True)

    def decides(world: World) -> Mapping[str, int]:
        (changed,) = world.workloads
        binding = changed.binding or past.binding
        outcome = scene.decide(past, binding)
        return binding.assignment if outcome.clusters is None else outcome.clusters

    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=past.entry.at_us)
    world = World(clusters, (workload,))
    return WhyNotQuestion(world, scene.scheduler, _request(scene, past), {}, decides, is_settled=False, now=now)


def recall(store: Store, wanted: Query | RecordId) -> Recalled:
    """Return a decision by its id, or the latest one that a query finds; raises as ``explain_decision``."""
    if isinstance(wanted, RecordId):
        return SegmentReader(store, wanted.segment).decision(batch_of(store, wanted), wanted.sequence)
    found = latest_decision(store, wanted)
    if found is None:
        raise NotRecordedError("the ledger has no such decision; `berthmaster history` shows what it has")
    key, batch = found
    return SegmentReader(store, key.segment).decision(batch, key.sequence)


def recall_previous(store: Store, past: PastDecision) -> Recalled | None:
    """Return the last decision on the same binding before another one; None if the ledger has none.

    A binding that was deleted and created again has another uid; its decisions do not count.
    """
    resource = past.binding.spec.resource
    query = Query(resource.namespace, resource.kind, resource.name)
    found = latest_decision(store, query, RecordId(past.segment, past.entry.sequence))
    if found is None:
        return None
    key, batch = found
    recalled = SegmentReader(store, key.segment).decision(batch, key.sequence)
    return recalled if recalled.past.binding.metadata.uid == past.binding.metadata.uid else None


def past_explanation(recalled: Recalled) -> PastExplanation:
    """Explain a recorded decision. Raises ``InputError`` if a plugin that it used is not installed."""
    past, clusters = recalled
    scene = Scene(profile_of(past.configuration), clusters)
    again = scene.decide(past)
    result = _result(scene, past, again)
    reproduced = again == past.outcome
    notes = []
    if not reproduced:
        notes.append(_differs(past))
    if past.entry.error:
        notes.append(f"the assignment was not written: {past.entry.error}")
    if _replaces(scene, past):
        notes.append("failover kept the replicas on ready clusters; the diagnosis is about the lost ones' new places")
    if past.bounds is not None:
        notes.append(f"scheduler estimators limited {len(past.bounds)} clusters")
    # A move under way is explained as its target. What it wrote is where the copies were from then on.
    explained = explanation(result, WorkloadResult(result.workload, result.trigger, as_is=True))
    return PastExplanation(row_for(past.segment, past.entry), explained, reproduced, notes)


def _result(scene: Scene, past: PastDecision, outcome: DecisionOutcome) -> WorkloadResult:
    after = past.binding
    if outcome.clusters is not None:
        targets = tuple(TargetCluster(name, replicas) for name, replicas in sorted(outcome.clusters.items()))
        spec = replace(after.spec, clusters=targets)
        status = replace(after.status, scheduler_observing_affinity_name=outcome.group)
        after = replace(after, spec=spec, status=status)
    held_by = holder(past.binding.metadata)
    workload = SimulatedWorkload(after.spec.resource, (), after, held_by=held_by, present=True)
    if unsupported_parts(past.binding.spec.placement):
        return WorkloadResult(workload, Trigger(outcome.trigger))
    request = _request(scene, past)
    decision = scene.scheduler.schedule(request)
    return WorkloadResult(workload, Trigger(outcome.trigger), decision, explain(scene.scheduler, request, decision))


def _request(scene: Scene, past: PastDecision) -> Request:
    """Return the request that a decision answered. Failover asks for new places of what the lost clusters had."""
    request, lost = scene.request(past), _replaces(scene, past)
    return remaining(request, lost) if lost else request


def _differs(past: PastDecision) -> str:
    version = past.configuration.version
    return f"this version decides differently than {version}, which took the decision; see `replay`"


def _replaces(scene: Scene, past: PastDecision) -> frozenset[str]:
    if past.outcome.evictions is None:
        return frozenset()
    options = FailoverOptions(past.configuration.failover_after_s, past.configuration.producer)
    state = ClusterState(scene.scheduler, past.unready_since_s, options)
    lost, _ = lost_clusters(state, effective(past.binding), past.entry.now_s)
    return lost
