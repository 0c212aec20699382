"""What KubeAdmiral keeps in the annotations of a federated object, and what users say there about one workload."""

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
SCHEDULING_TRIGGERS: Final = f"{_PREFIX}scheduling-triggers"
DEFERRED_REASONS: Final = f"{_PREFIX}scheduling-deferred-reasons"


class PreferredTerm(Value, frozen=True):
    """A term that earns a cluster its weight."""

    weight: Int64 = 0
    preference: ClusterSelectorTerm = ClusterSelectorTerm()


class ClusterSelectorTerms(Value, frozen=True):
    """Terms of which one must match; none at all match nothing."""

    cluster_selector_terms: tuple[ClusterSelectorTerm, ...] = ()


class ClusterAffinityOverride(Value, frozen=True):
    """Which clusters a workload may run on, and which it had better."""

    required_during_scheduling_ignored_during_execution: ClusterSelectorTerms | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class AffinityOverride(Value, frozen=True):
    """The annotation ``affinity``."""

    cluster_affinity: ClusterAffinityOverride = ClusterAffinityOverride()


class ClusterReference(Value, frozen=True):
    """An entry of the annotation ``placements`` as far as it names a cluster."""

    cluster: str = ""


class AutoMigrationInfo(Value, frozen=True):
    """The annotation ``auto-migration-info``: what replicas of a workload turned out to do, by cluster.

    Attributes:
        estimated_capacity: how many a cluster holds, where that is fewer than it is to have.
        scheduled_replicas: how many were scheduled.
    """

    estimated_capacity: dict[str, Int64] = {}
    scheduled_replicas: dict[str, Int64] = {}


class UnavailableCluster(Value, frozen=True):
    """A cluster that a workload is kept off until a point in time."""

    cluster: str
    valid_until: Timestamp


class AppliedMigration(Value, frozen=True):
    """The annotation ``applied-migration-configuration``: a custom migration as KubeAdmiral accepted it.

    Attributes:
        limited_capacity: how many replicas a cluster may have at most.
        unavailable_clusters: which clusters may have none, each for a time.
    """

    limited_capacity: dict[str, Int64] = {}
    unavailable_clusters: tuple[UnavailableCluster, ...] = ()


class ReplicasMigration(Value, frozen=True):
    """How many replicas a cluster may have at most."""

    cluster: str = ""
    limited_capacity: Int64 | None = None


class WorkloadMigration(Value, frozen=True):
    """Until when a cluster may have none."""

    cluster: str = ""
    valid_until: Timestamp | None = None


class MigrationConfiguration(Value, frozen=True):
    """The annotation ``migration-configuration``: a custom migration as a user asks for it."""

    replicas_migrations: tuple[ReplicasMigration, ...] = ()
    workload_migrations: tuple[WorkloadMigration, ...] = ()
