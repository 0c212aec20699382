"""What changed in the inputs between two decisions, and which changes made the difference."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from berthmaster.deciding.decision_recorder import GroupKey
from berthmaster.ledger.past import PastDecision, Recalled
from berthmaster.ledger.records import ChangeRecord, InputDifference
from berthmaster.ledger.replay import Scene, profile_of
from berthmaster.model.binding import Binding, holder
from berthmaster.model.cluster import Cluster, ResourceSummary
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import object_name, with_metadata, with_spec, with_status
from berthmaster.scheduling.resources import free_amount

_MAX_FOR_PAIRS: Final = 40
_MAX_TEXT: Final = 300
_BINDING_FIELDS: Final = (
    ("replicas", "replicas"), ("replica_requirements", "requests"), ("placement", "placement"),
    ("graceful_eviction_tasks", "evictions"), ("reschedule_triggered_at", "requested rescheduling"),
    ("components", "components"), ("workload_affinity_groups", "affinity groups"), ("failover", "failover"),
)  # fmt: skip
_WITH: Final = {"metadata": with_metadata, "spec": with_spec, "status": with_status}


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
        lambda *location: object_name(*location[:3]) or "none",
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
