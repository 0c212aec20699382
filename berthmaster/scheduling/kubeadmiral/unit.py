"""The scheduling unit: an object, what its policy asks for, and its current clusters. Requests are made from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from berthmaster.model.cluster import Toleration
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral import ClusterSelectorTerm, DesiredPlacement, KubeAdmiralSpec
from berthmaster.model.placement import ClusterAffinity, Placement
from berthmaster.model.quantity import Quantity
from berthmaster.model.validation import PlacementLimits, kubeadmiral_excess, placement_excess
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import requests_of

GPU = "nvidia.com/gpu"


class ReplicasStrategy(Enum):
    """How replicas are divided in Divide mode."""

    SPREAD = "Spread"
    BINPACK = "Binpack"


@dataclass(frozen=True, slots=True)
class Preference:
    """The preferences of a policy for one cluster. None means not set."""

    minimum: int = 0
    maximum: int | None = None
    weight: int | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulingUnit:
    """One object.

    Attributes:
        divide: replicas are divided. Otherwise every cluster gets all of them.
        requests: what a replica requests. KubeAdmiral considers GPUs only.
        required: terms of which one must match. None for no condition.
        preferred: terms with the weight that a match adds to the score.
        candidates: the clusters that may be selected. Empty for all.
        sticky: once scheduled, the assignment stays.
        keep_unschedulable: replicas that cannot be scheduled still count for their cluster.
        scheduled: replicas by cluster that auto-migration observed to be scheduled.
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
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key that breaks ties between clusters: ``namespace/name``, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def stays(self) -> bool:
        """Whether it is sticky and has clusters, so that nothing is decided again."""
        return self.sticky and bool(self.current)

    def preference(self, cluster: str) -> Preference:
        return self.preferences.get(cluster, _NO_PREFERENCE)


_NO_PREFERENCE = Preference()


class UnitPlacement(Placement, frozen=True):
    """The part of a KubeAdmiral policy that determines which clusters fit.

    Tolerations and the list of clusters use the fields ``clusterTolerations`` and ``clusterAffinity.clusterNames``.
    """

    cluster_selector: dict[str, str] = {}
    required: tuple[ClusterSelectorTerm, ...] | None = None


def unit_excess(placement: Placement, limits: PlacementLimits) -> list[FieldError]:
    """Return what exceeds the limits in the placement of a unit. Paths are those of a KubeAdmiral policy's spec."""
    if not isinstance(placement, UnitPlacement):
        return placement_excess(placement, limits)
    affinity = placement.cluster_affinity
    spec = KubeAdmiralSpec(
        cluster_selector=placement.cluster_selector,
        cluster_affinity=placement.required or (),
        tolerations=placement.cluster_tolerations,
        placement=tuple(map(DesiredPlacement, affinity.cluster_names)) if affinity is not None else (),
    )
    return kubeadmiral_excess(spec, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRequest(Request):
    """A request with its unit, which KubeAdmiral's stages read."""

    unit: SchedulingUnit


def request_of(unit: SchedulingUnit) -> UnitRequest:
    """Make the request for a unit.

    A current cluster without a number of replicas has all of them. A sticky unit with clusters has no group to try, so
    that its assignment stays.
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
    """Return the unit of a request.

    Raises:
        TypeError: the request was not made by ``request_of``.
    """
    request = context.request
    if not isinstance(request, UnitRequest):
        raise TypeError(f"a {type(request).__name__} was given to KubeAdmiral's profile; make it with request_of")
    return request.unit


def placed(unit: SchedulingUnit, decision: Decision) -> dict[str, int | None]:
    """Return replicas by cluster as KubeAdmiral writes them: None in a mode that assigns no numbers."""
    if unit.stays:
        return dict(unit.current)
    return {name: count if unit.divide else None for name, count in decision.assignment.items()}


Parts = Mapping[str, Mapping[str, int]]
"""For each field of a Preference, numbers by cluster. Clusters without a number are left out."""

PART_NAMES: Final[Mapping[str, str]] = {
    "minimum": "minReplicas",
    "maximum": "maxReplicas",
    "weight": "weight",
    "priority": "priority",
}
"""The fields of a Preference with their names in a policy."""


def parts_of(placement: Iterable[DesiredPlacement]) -> Parts:
    """Return the preferences by field. If a cluster is listed twice, the last entry counts."""
    parts: dict[str, dict[str, int]] = {name: {} for name in PART_NAMES}
    for entry in placement:
        preferences = entry.preferences
        numbers = {
            "minimum": preferences.min_replicas or 0,
            "maximum": preferences.max_replicas,
            "weight": preferences.weight,
            "priority": preferences.priority,
        }
        for name, number in numbers.items():
            if number is not None:
                parts[name][entry.cluster] = number
    return parts


def preferences_of(parts: Parts) -> dict[str, Preference]:
    """Return the preferences by cluster."""
    clusters = {cluster for numbers in parts.values() for cluster in numbers}
    return {
        cluster: Preference(**{name: numbers[cluster] for name, numbers in parts.items() if cluster in numbers})
        for cluster in clusters
    }
