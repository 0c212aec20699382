"""One decision: its input besides the fleet, what its plugins can read, and its result as data.

Of a workload of several pod templates, complete sets of their pods are placed (karmada ``MaxAvailableComponentSets``).
A set has all pods of all templates. Such a workload is never divided: one cluster gets the whole set.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec
import numpy as np

from berthmaster.model.binding import Binding, BindingSpec
from berthmaster.model.cluster import Cluster
from berthmaster.model.policy import Placement
from berthmaster.scheduling.columns import Column, IntArray, Work
from berthmaster.scheduling.fleet import MAX_CLUSTERS, CompiledPlacement, Fleet, Group
from berthmaster.scheduling.resources import (
    PODS,
    UNLIMITED,
    Estimate,
    NodeGrade,
    Requests,
    Resources,
    counts_for_nodes,
    requests_of,
)

MAX_SETS: Final = 1000
"""The most sets that are placed on model nodes. A cluster that fits more counts as one that fits this many."""
MAX_NODES: Final = 2**13
"""The most nodes of a cluster that sets are placed on."""


class SetTemplate(NamedTuple):
    """One pod template of a workload."""

    replicas: int
    requests: Requests | None


ComponentSet = tuple[SetTemplate, ...]


def demand_of(templates: ComponentSet) -> Requests:
    """Return what one set requests, pods included, without zero amounts."""
    total = {PODS: sum(each.replicas for each in templates)}
    for each in templates:
        for name, amount in each.requests or ():
            total[name] = total.get(name, 0) + each.replicas * amount
    return tuple(sorted((name, amount) for name, amount in total.items() if amount))


def sets_column(resources: Resources, templates: ComponentSet) -> "ComponentSetsColumn":
    """Return the column of how many sets fit each row."""
    return resources.shared(templates, lambda: ComponentSetsColumn(resources, templates))


class ComponentSetsColumn(Column[np.int64]):
    """How many sets fit each row.

    The free amounts of the summary limit them, and so do the model nodes of a cluster that has some. A workload whose
    templates have no pods is limited by free pod slots.
    """

    __slots__ = ("_demand", "_resources", "_templates")

    def __init__(self, resources: Resources, templates: ComponentSet) -> None:
        super().__init__(resources.journal)
        self._resources = resources
        self._templates = templates
        self._demand = demand_of(templates)

    def compute(self) -> IntArray:
        resources = self._resources
        bound = resources.allowed_pods.copy()
        pods = dict(self._demand).get(PODS, 0)
        if not pods:
            return np.minimum(bound, UNLIMITED)
        bound //= pods
        for name, amount in self._demand:
            if name != PODS:
                np.minimum(bound, resources.free(name) // amount, out=bound)
        np.clip(bound, 0, UNLIMITED, out=bound)
        for row in np.flatnonzero(bound).tolist():
            nodes = resources.model_nodes(row)
            if nodes is not None:
                bound[row] = sets_on_nodes(nodes, self._templates, int(bound[row]))
        return bound

    def compute_row(self, row: int) -> int:
        return self.estimate_row(row).replicas

    def estimate_row(self, row: int) -> Estimate:
        """Return how many sets fit one row, and what limits them."""
        resources = self._resources
        free_pods = int(resources.allowed_pods[row])
        pods = dict(self._demand).get(PODS, 0)
        if not pods:
            return Estimate(min(free_pods, UNLIMITED), PODS)
        bounds = [Estimate(free_pods // pods, PODS)]
        bounds += [
            Estimate(max(0, int(resources.free(name)[row])) // amount, name)
            for name, amount in self._demand
            if name != PODS
        ]
        tightest = min(bounds, key=lambda each: each.replicas)
        nodes = resources.model_nodes(row) if tightest.replicas else None
        if nodes is not None:
            placed = sets_on_nodes(nodes, self._templates, tightest.replicas)
            if placed < tightest.replicas:
                return Estimate(placed, "the nodes of its resource models")
        return tightest if tightest.replicas < UNLIMITED else Estimate(UNLIMITED, tightest.bound_by)


def sets_on_nodes(grades: Sequence[NodeGrade], templates: ComponentSet, limit: int) -> int:
    """Return how many sets fit nodes, placed one after the other by first fit (karmada ``SchedulingSimulator``).

    The pods of a template go to the first node that fits one, as many as it holds, and the rest to the nodes after it.
    A set that does not fit ends the count. What it took is not given back. ``limit``: the most sets to place. Above
    ``MAX_SETS``, the result is the limit if ``MAX_SETS`` sets fit.
    """
    named = sorted({name for each in templates for name, _ in filter(counts_for_nodes, each.requests or ())} | {PODS})
    asked = [_asked(each, named) for each in templates]
    nodes = list(_nodes(grades, named))
    # Free amounts only shrink: a node that is too full for a template stays so.
    first = [0] * len(templates)
    for placed in range(min(limit, MAX_SETS)):
        for index, (replicas, amounts) in enumerate(asked):
            remaining = replicas
            while remaining:
                if first[index] == len(nodes):
                    return placed
                free = nodes[first[index]]
                taken = min(remaining, *(free[column] // amount for column, amount in amounts))
                if not taken:
                    first[index] += 1
                    continue
                for column, amount in amounts:
                    free[column] -= taken * amount
                remaining -= taken
    return limit


def _asked(template: SetTemplate, named: Sequence[str]) -> tuple[int, list[tuple[int, int]]]:
    amounts = {**dict(filter(counts_for_nodes, template.requests or ())), PODS: 1}
    return template.replicas, [(named.index(name), amount) for name, amount in amounts.items()]


def _nodes(grades: Sequence[NodeGrade], named: Sequence[str]) -> Iterable[list[int]]:
    """Yield the free amounts of each node, by column."""
    most = MAX_NODES // max(1, len(grades))
    for capacity, count in grades:
        for _ in range(min(count, most)):
            yield [capacity.get(name, 0) for name in named]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, its placement and its current assignment. Fields that only some profiles use have a default.

    Attributes:
        name: the name of the workload's binding. It distinguishes the workload from its peers.
        requests: what one replica requests. None without replica requirements, which differs from an empty request.
        current: replicas by cluster, in the order of the binding. Clusters with 0 replicas count as current, too.
        fresh: a rescheduling was requested. The current assignment has no preference.
        minimal: it moves as few replicas as possible. ``karmada.minimal`` decides it.
        is_workload: it has replicas, requirements or components.
        components: how many pod templates it has, 0 if unknown.
        affinity_group, anti_affinity_group: the groups ``key=value`` of workloads to be with, or apart from.
        bounds: how many more replicas clusters can take, by name, as reported by estimators. Never negative. They
            apply in addition to the fleet's own numbers. None if no estimator was asked.
    """

    name: str
    namespace: str
    api_version: str
    kind: str
    uid: str = ""
    placement: Placement
    replicas: int
    requests: Requests | None
    current: dict[str, int]
    evicted_from: frozenset[str] = frozenset()
    fresh: bool = False
    minimal: bool = False
    observed_group: str = ""
    is_workload: bool
    components: int = 0
    component_set: ComponentSet = ()
    affinity_group: str = ""
    anti_affinity_group: str = ""
    bounds: Mapping[str, int] | None = None

    @classmethod
    def of(cls, binding: Binding) -> "Request":
        """Return the request of a binding. Without a placement every cluster is suitable."""
        spec = binding.spec
        resource, requirements, groups = spec.resource, spec.replica_requirements, spec.workload_affinity_groups
        fresh = binding.reschedule_requested
        return cls(
            name=binding.metadata.name,
            namespace=resource.namespace,
            api_version=resource.api_version,
            kind=resource.kind,
            uid=resource.uid,
            placement=spec.placement or _ANYWHERE,
            replicas=spec.replicas,
            requests=None if requirements is None else requests_of(requirements.resource_request),
            current={target.name: target.replicas for target in spec.clusters},
            evicted_from=frozenset(task.from_cluster for task in spec.graceful_eviction_tasks)
            if spec.graceful_eviction_tasks
            else _NOWHERE,
            fresh=fresh,
            minimal=fresh and binding.keeps_replicas,
            observed_group=binding.status.scheduler_observing_affinity_name,
            is_workload=spec.is_workload,
            components=len(spec.components),
            component_set=_component_set(spec) if spec.components else (),
            affinity_group=groups.affinity_group if groups else "",
            anti_affinity_group=groups.anti_affinity_group if groups else "",
        )

    @property
    def divides_replicas(self) -> bool:
        """Whether replicas are assigned. If not, every selected cluster gets the workload."""
        return (self.replicas > 0 or self.requests is not None) and self.components <= 1

    @property
    def set_templates(self) -> ComponentSet:
        """The pods of a set, if a cluster gets the workload as a whole; empty for a workload with replicas."""
        return () if self.divides_replicas else self.component_set

    def occupied(self, clusters: Mapping[str, int]) -> Mapping[str, int]:
        """Return how much of a workload an assignment runs by cluster: its replicas, or its sets of pods.

        Empty if it runs no pods, as far as is known. ``clusters``: replicas by cluster; 0 for a workload of several
        templates, of which each cluster has one set.
        """
        if self.divides_replicas:
            return clusters
        return dict.fromkeys(clusters, 1) if self.component_set else {}


def _component_set(spec: BindingSpec) -> ComponentSet:
    return tuple(
        SetTemplate(
            each.replicas,
            None if each.replica_requirements is None else requests_of(each.replica_requirements.resource_request),
        )
        for each in spec.components
    )


_ANYWHERE = Placement()
_NOWHERE: frozenset[str] = frozenset()
_NO_ROWS: Final[IntArray] = np.zeros(0, dtype=np.int64)


_NAME_BITS: Final = (MAX_CLUSTERS - 1).bit_length()
_AVAILABLE_BITS: Final = 33  # the sum of two int32: available and assigned replicas
_MAX_KEY_SCORE: Final = 2 ** (62 - _NAME_BITS - _AVAILABLE_BITS) - 1
# Below this many clusters a whole sort costs less than finding the first ones.
_SORT_WHOLE_BELOW: Final = 64


class Candidates:
    """Some clusters that fit, as parallel arrays, with their scores and available replicas.

    Candidates that ``at`` returned are in selection order. All others are in no particular order.

    The selection order is: overflow order ascending, score descending, available replicas descending, name ascending.
    Karmada uses all of it. KubeAdmiral's candidates have no overflow order and no available replicas. Most decisions
    need only the first few clusters, so the order is computed only as far as a stage asks for it.

    Attributes:
        scores: the sum of all score plugins. None if all are 0.
        tiers: the overflow order. None if all are 0.
    """

    __slots__ = ("_fleet", "_picked", "allocatable", "assigned", "rows", "scores", "tiers")

    def __init__(
        self,
        fleet: Fleet,
        rows: IntArray,
        allocatable: IntArray,
        assigned: IntArray | None = None,
        scores: IntArray | None = None,
        tiers: IntArray | None = None,
    ) -> None:
        self._fleet = fleet
        self._picked = False
        self.rows = rows
        self.allocatable = allocatable
        self.assigned = assigned
        self.scores = scores
        self.tiers = tiers

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def available(self) -> IntArray:
        """Replicas that fit, including those that are already assigned."""
        return self.allocatable if self.assigned is None else self.allocatable + self.assigned

    def names(self) -> list[str]:
        return self._fleet.names(self.rows)

    def clusters(self) -> list[Cluster]:
        every = self._fleet.clusters
        return [cluster for row in self.rows.tolist() if (cluster := every[row]) is not None]

    def names_at(self, positions: IntArray) -> list[str]:
        return self._fleet.names(self.rows[positions])

    def name_rank(self) -> IntArray:
        return self._fleet.name_rank()[self.rows]

    def regions(self) -> list[str]:
        regions = self._fleet.regions.values
        return [regions[code] for code in self._fleet.region_code[self.rows].tolist()]

    def at(self, positions: IntArray) -> "Candidates":
        picked = Candidates(
            self._fleet,
            self.rows[positions],
            self.allocatable[positions],
            None if self.assigned is None else self.assigned[positions],
            None if self.scores is None else self.scores[positions],
            None if self.tiers is None else self.tiers[positions],
        )
        picked._picked = True
        return picked

    def ordered(self) -> "Candidates":
        """Return all candidates in selection order, or best first if none were picked yet."""
        return self if self._picked else self.at(self.best(len(self)))

    def positions(self) -> IntArray:
        """Return the positions of all candidates in the order of ``ordered``."""
        return np.arange(len(self)) if self._picked else self.best(len(self))

    def ordered_by(self, weights: IntArray) -> bool:
        """Return whether ``best`` orders by these weights first, largest first."""
        return weights is self.allocatable and not (
            self._picked or self.assigned is not None or self.scores is not None or self.tiers is not None
        )

    def with_scores(self, scores: IntArray) -> "Candidates":
        """Return the same candidates with other scores, in no particular order."""
        return Candidates(self._fleet, self.rows, self.allocatable, self.assigned, scores, self.tiers)

    def best(self, count: int) -> IntArray:
        """Return the positions of the first ``count`` candidates in the order, best first."""
        if self.tiers is not None or (self.scores is not None and _overflows(self.scores)):
            return self._lexical_order()[:count]
        # One distinct integer per cluster. A larger one is better.
        key = (self.available << _NAME_BITS) - self.name_rank()
        if self.scores is not None:
            key += self.scores << (_NAME_BITS + _AVAILABLE_BITS)
        return largest(key, count)

    def _lexical_order(self) -> IntArray:
        keys = [self.name_rank(), -self.available]
        if self.scores is not None:
            keys.append(-self.scores)
        if self.tiers is not None:
            keys.append(self.tiers)
        return np.lexsort(keys)


def _overflows(scores: IntArray) -> bool:
    """Return whether a score is too large for a key, or negative, which is large when read without a sign."""
    return bool(np.maximum.reduce(scores.view(np.uint64), initial=0) > _MAX_KEY_SCORE)


def largest(keys: IntArray, count: int) -> IntArray:
    """Return the positions of the ``count`` largest of some distinct keys, largest first."""
    if count < 1:
        return np.zeros(0, dtype=np.int64)
    if len(keys) <= _SORT_WHOLE_BELOW or 4 * count >= len(keys):
        return keys.argsort()[: -count - 1 : -1]
    top = keys.argpartition(-count)[-count:]
    return top[keys[top].argsort()[::-1]]


AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"


class Peers:
    """The clusters of the workloads in each workload affinity group."""

    def __init__(self) -> None:
        self._clusters: dict[tuple[str, str, str], dict[str, frozenset[str]]] = {}
        self._counts: dict[tuple[str, str, str], Counter[str]] = {}
        self._groups_of: dict[tuple[str, str], list[tuple[str, str, str]]] = {}

    def place(self, request: Request, clusters: Iterable[str]) -> None:
        """Replace the recorded clusters of a workload. Without clusters, remove the workload."""
        self.remove(request.namespace, request.name)
        assigned = frozenset(clusters)
        if not assigned:
            return
        for kind, group in ((AFFINITY, request.affinity_group), (ANTI_AFFINITY, request.anti_affinity_group)):
            if group:
                key = kind, request.namespace, group
                self._clusters.setdefault(key, {})[request.name] = assigned
                self._counts.setdefault(key, Counter()).update(assigned)
                self._groups_of.setdefault((request.namespace, request.name), []).append(key)

    def of(self, kind: str, namespace: str, group: str, *, except_for: str) -> Mapping[str, frozenset[str]]:
        """Return the clusters of each scheduled workload of a group, by the name of its binding."""
        members = self._clusters.get((kind, namespace, group), {})
        return {name: clusters for name, clusters in members.items() if name != except_for}

    def counts(self, kind: str, namespace: str, group: str, *, except_for: str) -> tuple[int, Mapping[str, int]]:
        """Return how many scheduled workloads a group has, and how many of them each cluster has.

        The time depends on the number of clusters, and not on the number of workloads.
        """
        key = kind, namespace, group
        members, counts = self._clusters.get(key, {}), self._counts.get(key, Counter())
        own = members.get(except_for)
        return (len(members), counts) if own is None else (len(members) - 1, counts - Counter(own))

    def remove(self, namespace: str, name: str) -> None:
        for key in self._groups_of.pop((namespace, name), ()):
            members, counts = self._clusters[key], self._counts[key]
            for cluster in members.pop(name):
                counts[cluster] -= 1
                if not counts[cluster]:
                    del counts[cluster]
            if not members:
                del self._clusters[key], self._counts[key]


class Context(msgspec.Struct, frozen=True):
    """One attempt: a request, and the group of clusters that is being tried.

    ``work``: counts the steps of the decision. A stage adds steps that grow faster than the number of clusters.
    """

    fleet: Fleet
    request: Request
    compiled: CompiledPlacement
    group: Group
    peers: Peers
    work: Work = msgspec.field(default_factory=Work)


class FailureKind(Enum):
    """The stage at which a group failed, under the name that the batch interface shows."""

    NO_FIT = "NoFit"
    """No cluster passed the filters. Karmada then removes the current assignment."""
    SELECT_FAILED = "SelectFailed"
    """The spread constraints cannot be satisfied. The current assignment stays."""
    INSUFFICIENT = "Insufficient"
    """The selected clusters do not hold all replicas. The current assignment stays, and scheduling is retried."""
    TOO_LARGE = "TooLarge"
    """The placement exceeds a limit. The current assignment stays, and only a change of the input helps."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a group failed, or why there is no assignment.

    ``upstream``: the error of karmada-scheduler for it, with which conditions and events begin; empty for none.
    """

    kind: FailureKind
    message: str
    upstream: str = ""

    def __str__(self) -> str:
        return self.message


class Mode(Enum):
    """How a decision treats replicas that are already assigned."""

    STEADY = "Steady"
    """They stay. Only the difference is added or removed."""
    FRESH = "Fresh"
    """All replicas are assigned again, because the request asks for a rescheduling."""


class Attempt(msgspec.Struct):
    """One group that was tried, with what a diagnosis needs.

    Attributes:
        candidates: the same clusters with scores and available replicas. None if scoring was not reached or failed.
        assignment: replicas by cluster. None if assignment was not reached or failed.
    """

    group: Group
    rows: IntArray
    candidates: Candidates | None = None
    selected: Candidates | None = None
    assignment: dict[str, int] | None = None
    failure: Failure | None = None


class Decision(msgspec.Struct, frozen=True):
    """Where a workload goes.

    Attributes:
        group: the name of the group that won. None without groups, or if all groups failed.
        assignment: replicas by cluster, 0 for a workload without replicas. Empty if all groups failed.
        failure: the failure of the first group that was tried. None if a group won.
    """

    group: str | None
    assignment: dict[str, int]
    failure: Failure | None
    mode: Mode
    attempts: list[Attempt] = []

    def release(self, *, keeps_rows: bool = False) -> None:
        """Drop the candidates of all attempts, which can be all clusters. No diagnosis is possible afterwards.

        ``keeps_rows``: whether the rows of the clusters that fit are kept.
        """
        for each in self.attempts:
            each.candidates = each.selected = None
            if not keeps_rows:
                each.rows = _NO_ROWS

    @property
    def clears_assignment(self) -> bool:
        """Return whether the current assignment must be removed although there is no new one."""
        return self.failure is not None and self.failure.kind is FailureKind.NO_FIT
