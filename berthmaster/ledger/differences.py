"""Questions about recorded decisions, answered with the fleet as it was.

Also: what changed in the inputs between two decisions, and which changes made the difference.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from berthmaster.deciding.decide import ClusterState, lost_clusters
from berthmaster.deciding.decision_recorder import DecisionOutcome, GroupKey
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.writes import effective
from berthmaster.ledger.history import batch_of, latest_decision, row_for
from berthmaster.ledger.past import PastDecision, Recalled, Scene, SegmentReader, profile_of
from berthmaster.ledger.records import ChangeRecord, InputDifference, PastExplanation, Query, RecordId
from berthmaster.ledger.store import Store
from berthmaster.model.binding import Binding, TargetCluster, holder
from berthmaster.model.cluster import Cluster, ResourceSummary
from berthmaster.model.decode import encode_json
from berthmaster.model.errors import InputError, NotRecordedError
from berthmaster.model.meta import with_metadata, with_spec, with_status
from berthmaster.model.unsupported import unsupported_parts
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import free_amount
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
    request = scene.request(past)
    lost = _replaces(scene, past)
    if not lost:
        return request
    kept = {name: replicas for name, replicas in request.current.items() if name not in lost}
    return replace(request, current=kept, evicted_from=request.evicted_from | lost)


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


_MAX_FOR_PAIRS: Final = 40
_MAX_TEXT: Final = 300


class Inputs(NamedTuple):
    """What one decision read, in parts that can be exchanged with those of another decision."""

    clusters: Mapping[str, Cluster]
    binding: Binding
    bounds: Mapping[str, int] | None
    unready_since_s: Mapping[str, float]
    peers: Mapping[GroupKey, Mapping[str, frozenset[str]]]


class InputChange(NamedTuple):
    """A change between the inputs of two decisions. ``aspect`` is what changed, such as ``taints``."""

    subject: str
    aspect: str
    before: str
    after: str
    reverted: Callable[[Inputs], Inputs]


Answer = tuple[tuple[tuple[str, int], ...], str, str]


def input_difference(previous: Recalled, current: Recalled) -> InputDifference:
    """Compare the inputs of two decisions on a binding, and find the changes that made the difference.

    The assignment is no input here: it follows from the earlier decision. The set is found by deciding again with
    changes undone, so it says what this version does.
    """
    before, after = _inputs(previous), _inputs(current)
    changes = list(input_changes(before, after))
    trial = _Trial(current.past, after)
    decisive, smallest = _decisive(trial, changes)
    without = None if not decisive else dict(trial.answer(decisive)[0])
    ordered = [*decisive, *(each for each in changes if each not in decisive)]
    return InputDifference(
        previous.past.id,
        previous.past.entry.at_us,
        [
            ChangeRecord(each.subject, each.aspect, each.before, each.after, index < len(decisive))
            for index, each in enumerate(ordered)
        ],
        without,
        smallest,
        _summary(changes, decisive, smallest=smallest),
    )


def input_changes(before: Inputs, after: Inputs) -> Iterator[InputChange]:
    """Yield the changes between two inputs: of the binding first, then of each cluster by name."""
    yield from _binding_changes(before.binding, after.binding)
    for name in sorted(before.clusters.keys() | after.clusters.keys()):
        yield from _cluster_changes(name, before.clusters.get(name), after.clusters.get(name))
    yield from _other_changes(before, after)


def _inputs(recalled: Recalled) -> Inputs:
    past = recalled.past
    return Inputs(
        {each.name: each for each in recalled.clusters}, past.binding, past.bounds, past.unready_since_s, past.peers
    )


class _Trial:
    def __init__(self, past: PastDecision, inputs: Inputs) -> None:
        self._past = past
        self._inputs = inputs
        self._scene = Scene(profile_of(past.configuration), inputs.clusters.values())
        self.actual = self.answer([])

    def answer(self, undone: Sequence[InputChange]) -> Answer:
        inputs = self._inputs
        for change in undone:
            inputs = change.reverted(inputs)
        touched = {each.subject for each in undone if each.subject in {*self._inputs.clusters, *inputs.clusters}}
        self._put(touched, inputs.clusters)
        past = replace(
            self._past, bounds=inputs.bounds, unready_since_s=inputs.unready_since_s, peers=inputs.peers,
        )  # fmt: skip
        outcome = self._scene.decide(past, inputs.binding)
        self._put(touched, self._inputs.clusters)
        clusters = inputs.binding.assignment if outcome.clusters is None else outcome.clusters
        return tuple(sorted(clusters.items())), outcome.reason, outcome.group

    def flips(self, undone: Sequence[InputChange]) -> bool:
        return self.answer(undone) != self.actual

    def _put(self, names: set[str], clusters: Mapping[str, Cluster]) -> None:
        self._scene.update(
            [clusters[name] for name in names if name in clusters], [name for name in names if name not in clusters]
        )


def _decisive(trial: _Trial, changes: Sequence[InputChange]) -> tuple[list[InputChange], bool]:
    """Return a set of changes without which the answer is another one, and whether no smaller set exists."""
    for change in changes:
        if trial.flips([change]):
            return [change], True
    if len(changes) <= _MAX_FOR_PAIRS:
        for pair in combinations(changes, 2):
            if trial.flips(pair):
                return list(pair), True
    if not trial.flips(changes):
        return [], True
    kept = list(changes)
    size = len(kept) // 2
    while size >= 1:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if fewer and trial.flips(fewer):
                kept = fewer
            else:
                start += size
        size //= 2
    return kept, len(kept) <= 3 and len(changes) <= _MAX_FOR_PAIRS


def _summary(changes: Sequence[InputChange], decisive: Sequence[InputChange], *, smallest: bool) -> str:
    if not changes:
        return "nothing that the decision reads changed, apart from the assignment and the time"
    changed = "1 input changed" if len(changes) == 1 else f"{len(changes)} inputs changed"
    if not decisive:
        return f"{changed}, and none made a difference"
    how = "the smallest set" if smallest else "a set of which none can be left out"
    return f"{changed}; {len(decisive)} made the difference ({how})"


_BINDING_FIELDS: Final = (
    ("replicas", "replicas"), ("replica_requirements", "requests"), ("placement", "placement"),
    ("graceful_eviction_tasks", "evictions"), ("reschedule_triggered_at", "requested rescheduling"),
    ("components", "components"), ("workload_affinity_groups", "affinity groups"), ("failover", "failover"),
)  # fmt: skip


def _binding_changes(before: Binding, after: Binding) -> Iterator[InputChange]:
    for field, aspect in _BINDING_FIELDS:
        then, now = getattr(before.spec, field), getattr(after.spec, field)
        if then != now:
            yield InputChange("binding", aspect, _text(then), _text(now), partial(_with_spec, field, then))
    was, held_by = holder(before.metadata), holder(after.metadata)
    if was != held_by:
        # The holder itself decides nothing: its placement does.
        yield InputChange("binding", "policy", str(was or "none"), str(held_by or "none"), lambda inputs: inputs)


def _with_spec(field: str, value: Any, inputs: Inputs) -> Inputs:  # noqa: ANN401 - the value of any field
    return inputs._replace(binding=with_spec(inputs.binding, **{field: value}))


class _Aspect(NamedTuple):
    """A part of a cluster: its fields, and the text of their values."""

    name: str
    fields: tuple[str, ...]
    text: Callable[..., str]

    def values(self, cluster: Cluster) -> tuple[Any, ...]:
        return tuple(attrgetter(each)(cluster) for each in self.fields)


_WITH: Final = {"metadata": with_metadata, "spec": with_spec, "status": with_status}
_ASPECTS: Final = (
    _Aspect(
        "capacity", ("status.resource_summary", "spec.resource_models"), lambda summary, _models: _capacity(summary)
    ),
    _Aspect("taints", ("spec.taints",), lambda taints: ", ".join(map(str, taints)) or "none"),
    _Aspect(
        "conditions",
        ("status.conditions",),
        lambda conditions: ", ".join(f"{each.type}={each.status}" for each in conditions) or "none",
    ),
    _Aspect(
        "labels",
        ("metadata.labels",),
        lambda labels: ", ".join(f"{key}={text}" for key, text in sorted(labels.items())) or "none",
    ),
    _Aspect(
        "location",
        ("spec.provider", "spec.region", "spec.zone", "spec.zones"),
        lambda *location: "/".join(part for part in location[:3] if part) or "none",
    ),
    _Aspect(
        "served kinds",
        ("status.api_enablements",),
        lambda groups: f"{sum(len(each.resources) for each in groups)} kinds",
    ),
    _Aspect(
        "deletion", ("metadata.deletion_timestamp",), lambda at: "being deleted" if at is not None else "not deleted"
    ),
)


def _cluster_changes(name: str, before: Cluster | None, after: Cluster | None) -> Iterator[InputChange]:
    if before is None or after is None:
        then, now = ("absent", "present") if before is None else ("present", "absent")
        yield InputChange(name, "existence", then, now, partial(_with_cluster, name, before))
        return
    for aspect in _ASPECTS:
        was, values = aspect.values(before), aspect.values(after)
        if was != values:
            then, now = _different(aspect.text(*was), aspect.text(*values))
            yield InputChange(name, aspect.name, then, now, partial(_restored, name, aspect, was))


def _with_cluster(name: str, cluster: Cluster | None, inputs: Inputs) -> Inputs:
    clusters = {**inputs.clusters, name: cluster}
    return inputs._replace(clusters={name: each for name, each in clusters.items() if each is not None})


def _restored(name: str, aspect: _Aspect, values: Sequence[Any], inputs: Inputs) -> Inputs:
    cluster = inputs.clusters.get(name)
    if cluster is None:
        return inputs
    for path, value in zip(aspect.fields, values, strict=True):
        part, _, field = path.partition(".")
        cluster = _WITH[part](cluster, **{field: value})
    return _with_cluster(name, cluster, inputs)


def _other_changes(before: Inputs, after: Inputs) -> Iterator[InputChange]:
    for field, subject, aspect, text in (
        ("bounds", "estimators", "bounds", _text),
        ("peers", "peers", "placement of the affinity groups", _peers_text),
        (
            "unready_since_s",
            "failover",
            "clusters that are not ready",
            lambda since: ", ".join(sorted(since)) or "none",
        ),
    ):
        then, now = getattr(before, field), getattr(after, field)
        if then != now and (field != "unready_since_s" or then.keys() != now.keys()):
            yield InputChange(subject, aspect, text(then), text(now), partial(_with_field, field, then))


def _with_field(field: str, value: Any, inputs: Inputs) -> Inputs:  # noqa: ANN401 - the value of any field
    return inputs._replace(**{field: value})


def _peers_text(peers: Mapping[GroupKey, Mapping[str, frozenset[str]]]) -> str:
    return _cut(
        "; ".join(f"{name}: {', '.join(sorted(where))}" for each in peers.values() for name, where in each.items())
    )


def _capacity(summary: ResourceSummary | None) -> str:
    if summary is None:
        return "not reported"
    free = {name: free_amount(summary, name) for name in sorted(summary.allocatable)}
    return ", ".join(f"{name} {f'{each / 1000:g}' if name == 'cpu' else each} free" for name, each in free.items())


def _different(before: str, after: str) -> tuple[str, str]:
    """Return two lists as texts, without the parts that are the same in both."""
    if before == after:
        return before, f"{after} (differs in details)"
    then, now = before.split(", "), after.split(", ")
    first = [part for part in then if part not in now]
    second = [part for part in now if part not in then]
    return _cut(", ".join(first) or "none"), _cut(", ".join(second) or "none")


def _text(value: Any) -> str:  # noqa: ANN401 - any value of a field
    if value is None:
        return "none"
    return _cut(str(value) if isinstance(value, int) else encode_json(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
