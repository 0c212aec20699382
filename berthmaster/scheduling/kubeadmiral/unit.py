"""What KubeAdmiral schedules: an object with what its policy asks, and where it is now.

A unit in the engine's words: what both ways of scheduling know of a workload, and the unit beside it.

What a list of placements says: which clusters may be chosen, and what each of them is to get.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from berthmaster.model.cluster import Toleration
from berthmaster.model.kubeadmiral import ClusterSelectorTerm, DesiredPlacement
from berthmaster.model.placement import ClusterAffinity, Placement
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import requests_of

GPU = "nvidia.com/gpu"


class ReplicasStrategy(Enum):
    """How replicas are planned in Divide mode."""

    SPREAD = "Spread"
    BINPACK = "Binpack"


@dataclass(frozen=True, slots=True)
class Preference:
    """What one cluster is to get: bounds, a weight and a priority, None where not said."""

    minimum: int = 0
    maximum: int | None = None
    weight: int | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulingUnit:
    """One object.

    Attributes:
        api_version, kind, namespace, name: of the object.
        divide: replicas are divided; otherwise every cluster gets all of them.
        replicas: how many, in Divide mode.
        requests: what a replica requests; KubeAdmiral fills in no more than GPUs.
        current: replicas by cluster, None where the number is not set.
        strategy: how replicas are planned.
        cluster_selector: labels that a cluster must have.
        required: terms of which one must match; None for no condition.
        preferred: terms that earn a cluster their weight.
        tolerations: of taints.
        max_clusters: how many clusters at most; None for any number.
        candidates: the clusters that may be chosen; none for all.
        preferences: what clusters are to get, for those of which something is said.
        sticky: once placed it stays as it is.
        avoid_disruption: replicas that run are moved only as far as it takes.
        keep_unschedulable: replicas that could not be scheduled stay in the number of their cluster.
        estimated_capacity: what a cluster turned out to hold, by auto-migration.
        scheduled: replicas seen to be scheduled, by auto-migration.
        limited_capacity: what a cluster may hold, by custom migration.
        evicted: clusters that custom migration keeps it off, at this moment.
    """

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    divide: bool = False
    replicas: int = 0
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    current: Mapping[str, int | None] = field(default_factory=dict)
    strategy: ReplicasStrategy = ReplicasStrategy.SPREAD
    cluster_selector: Mapping[str, str] = field(default_factory=dict)
    required: tuple[ClusterSelectorTerm, ...] | None = None
    preferred: tuple[tuple[int, ClusterSelectorTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    max_clusters: int | None = None
    candidates: frozenset[str] = frozenset()
    preferences: Mapping[str, Preference] = field(default_factory=dict)
    sticky: bool = False
    avoid_disruption: bool = False
    keep_unschedulable: bool = False
    estimated_capacity: Mapping[str, int] = field(default_factory=dict)
    scheduled: Mapping[str, int] = field(default_factory=dict)
    limited_capacity: Mapping[str, int] = field(default_factory=dict)
    evicted: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """What breaks ties between clusters: ``namespace/name``, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def stays(self) -> bool:
        """Whether it is placed and sticky: nothing is decided anew."""
        return self.sticky and bool(self.current)

    def preference(self, cluster: str) -> Preference:
        """What a cluster is to get."""
        return self.preferences.get(cluster, _NO_PREFERENCE)


_NO_PREFERENCE = Preference()


class UnitPlacement(Placement, frozen=True):
    """What a policy of KubeAdmiral asks of clusters, as far as that says which of them fit.

    Tolerations and the list of clusters are Karmada's: ``clusterTolerations``, ``clusterAffinity.clusterNames``.

    Attributes:
        cluster_selector: labels that a cluster must have.
        required: terms of which one must match; None for no condition.
    """

    cluster_selector: dict[str, str] = {}
    required: tuple[ClusterSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRequest(Request):
    """A request that was made of a unit.

    Attributes:
        unit: what KubeAdmiral's stages are asked about.
    """

    unit: SchedulingUnit


def request_of(unit: SchedulingUnit) -> UnitRequest:
    """What the engine is asked for a unit.

    A cluster whose number of replicas is not set has all of them. A sticky unit that is placed has no group of
    clusters to try, so that nothing moves.
    """
    return UnitRequest(
        name=unit.name,
        namespace=unit.namespace,
        api_version=unit.api_version,
        kind=unit.kind,
        placement=UnitPlacement(
            cluster_affinity=ClusterAffinity(cluster_names=tuple(sorted(unit.candidates))) if unit.candidates else None,
            cluster_affinities=() if unit.stays else None,
            cluster_tolerations=unit.tolerations,
            cluster_selector=dict(unit.cluster_selector),
            required=unit.required,
        ),
        replicas=unit.replicas,
        requests=requests_of(unit.requests),
        current={name: unit.replicas if count is None else count for name, count in unit.current.items()},
        evicted_from=unit.evicted,
        fresh=not unit.avoid_disruption,
        is_workload=unit.divide,
        unit=unit,
    )


def unit_of(context: Context) -> SchedulingUnit:
    """The unit that a turn is about.

    Raises:
        TypeError: the request was not made of a unit; KubeAdmiral's stages are for those.
    """
    request = context.request
    if not isinstance(request, UnitRequest):
        raise TypeError(f"a {type(request).__name__} was given to KubeAdmiral's profile; make it with request_of")
    return request.unit


def placed(unit: SchedulingUnit, decision: Decision) -> dict[str, int | None]:
    """Replicas by cluster as KubeAdmiral writes them: None where the mode assigns none."""
    if unit.stays:
        return dict(unit.current)
    return {name: count if unit.divide else None for name, count in decision.assignment.items()}


Parts = Mapping[str, Mapping[str, int]]
"""Numbers by cluster, for each field of a Preference; clusters of which nothing is said are left out."""

PART_NAMES: Final[Mapping[str, str]] = {
    "minimum": "minReplicas",
    "maximum": "maxReplicas",
    "weight": "weight",
    "priority": "priority",
}
"""The fields of a Preference with their names in a policy."""


def candidates_of(placement: Iterable[DesiredPlacement]) -> frozenset[str]:
    """The clusters that are listed."""
    return frozenset(each.cluster for each in placement)


def parts_of(placement: Iterable[DesiredPlacement]) -> Parts:
    """What is said of the clusters. Of a cluster that is listed twice, what is said last counts."""
    parts: dict[str, dict[str, int]] = {name: {} for name in PART_NAMES}
    for entry in placement:
        wanted = entry.preferences
        said = {
            "minimum": wanted.min_replicas or 0,
            "maximum": wanted.max_replicas,
            "weight": wanted.weight,
            "priority": wanted.priority,
        }
        for name, number in said.items():
            if number is not None:
                parts[name][entry.cluster] = number
    return parts


def preferences_of(parts: Parts) -> dict[str, Preference]:
    """The same by cluster."""
    clusters = {cluster for numbers in parts.values() for cluster in numbers}
    return {
        cluster: Preference(**{name: numbers[cluster] for name, numbers in parts.items() if cluster in numbers})
        for cluster in clusters
    }
