"""What KubeAdmiral schedules: an object with what its policy asks, and where it is now."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from berthmaster.model.cluster import Toleration
from berthmaster.model.kubeadmiral import ClusterSelectorTerm
from berthmaster.model.quantity import Quantity

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
