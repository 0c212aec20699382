"""The annotations of KubeAdmiral's federated objects: its own state, and the overrides of users for one workload."""

from typing import Final

from berthmaster.model.kubeadmiral import ClusterSelectorTerm
from berthmaster.model.meta import Int64, Timestamp, Value

_PREFIX: Final = "kubeadmiral.io/"

SCHEDULING_MODE: Final = f"{_PREFIX}scheduling-mode"
STICKY_CLUSTER: Final = f"{_PREFIX}sticky-cluster"
CLUSTER_SELECTOR: Final = f"{_PREFIX}clusterSelector"
AFFINITY: Final = f"{_PREFIX}affinity"
TOLERATIONS: Final = f"{_PREFIX}tolerations"
PLACEMENTS: Final = f"{_PREFIX}placements"
MAX_CLUSTERS: Final = f"{_PREFIX}maxClusters"
NO_SCHEDULING: Final = f"{_PREFIX}no-scheduling"
FOLLOWS_OBJECT: Final = f"{_PREFIX}follows-object"
DRY_RUN: Final = f"{_PREFIX}dry-run"
MIGRATION_CONFIGURATION: Final = f"{_PREFIX}migration-configuration"
APPLIED_MIGRATION: Final = f"{_PREFIX}applied-migration-configuration"
AUTO_MIGRATION_INFO: Final = f"{_PREFIX}auto-migration-info"


class PreferredTerm(Value, frozen=True):
    """A term that adds its weight to the score of the clusters that match."""

    weight: Int64 = 0
    preference: ClusterSelectorTerm = ClusterSelectorTerm()


class ClusterSelectorTerms(Value, frozen=True):
    """Terms of which one must match. No terms match nothing."""

    cluster_selector_terms: tuple[ClusterSelectorTerm, ...] = ()


class ClusterAffinityOverride(Value, frozen=True):
    """The required and the preferred clusters of a workload."""

    required_during_scheduling_ignored_during_execution: ClusterSelectorTerms | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class AffinityOverride(Value, frozen=True):
    """The annotation ``affinity``."""

    cluster_affinity: ClusterAffinityOverride = ClusterAffinityOverride()


class ClusterReference(Value, frozen=True):
    """The cluster name of an entry of the annotation ``placements``."""

    cluster: str = ""


class AutoMigrationInfo(Value, frozen=True):
    """The annotation ``auto-migration-info``: the observed replicas of a workload, by cluster.

    Attributes:
        estimated_capacity: how many replicas fit a cluster, if fewer than it should have.
        scheduled_replicas: how many replicas are scheduled.
    """

    estimated_capacity: dict[str, Int64] = {}
    scheduled_replicas: dict[str, Int64] = {}


class UnavailableCluster(Value, frozen=True):
    """A cluster that a workload must not use until a point in time."""

    cluster: str
    valid_until: Timestamp


class AppliedMigration(Value, frozen=True):
    """The annotation ``applied-migration-configuration``: a custom migration that KubeAdmiral accepted.

    Attributes:
        limited_capacity: the largest number of replicas for each cluster.
        unavailable_clusters: the clusters that the workload must not use, each until a point in time.
    """

    limited_capacity: dict[str, Int64] = {}
    unavailable_clusters: tuple[UnavailableCluster, ...] = ()


class ReplicasMigration(Value, frozen=True):
    """The largest number of replicas of a cluster."""

    cluster: str = ""
    limited_capacity: Int64 | None = None


class WorkloadMigration(Value, frozen=True):
    """The time until which a workload must not use a cluster."""

    cluster: str = ""
    valid_until: Timestamp | None = None


class MigrationConfiguration(Value, frozen=True):
    """The annotation ``migration-configuration``: a custom migration that a user requests."""

    replicas_migrations: tuple[ReplicasMigration, ...] = ()
    workload_migrations: tuple[WorkloadMigration, ...] = ()
