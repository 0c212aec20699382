"""KubeAdmiral's federated objects: the workload, where it is placed, and annotations.

The annotations hold KubeAdmiral's own state, and the overrides of users for one workload.
"""

from collections.abc import Mapping
from typing import Any, Final

from berthmaster.model.kubeadmiral.policies import ClusterSelectorTerm
from berthmaster.model.meta import Int64, ObjectMeta, Timestamp, Value

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
"""KubeAdmiral's record of the inputs of the last scheduling."""
GLOBAL_SCHEDULER: Final = f"{_PREFIX}global-scheduler"
"""The controller name of the scheduler's own placement and overrides."""


class PreferredTerm(Value, frozen=True):
    weight: Int64 = 0
    preference: ClusterSelectorTerm = ClusterSelectorTerm()


class ClusterSelectorTerms(Value, frozen=True):
    cluster_selector_terms: tuple[ClusterSelectorTerm, ...] = ()


class ClusterAffinityOverride(Value, frozen=True):
    required_during_scheduling_ignored_during_execution: ClusterSelectorTerms | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class AffinityOverride(Value, frozen=True):
    cluster_affinity: ClusterAffinityOverride = ClusterAffinityOverride()


class ClusterReference(Value, frozen=True):
    cluster: str = ""


class ControllerPlacement(Value, frozen=True):
    """The clusters that one controller places an object on. The object goes to the clusters of all controllers."""

    controller: str
    placement: tuple[ClusterReference, ...] = ()


class OverridePatch(Value, frozen=True):
    """One change of the template for one cluster. An empty operation means ``replace``."""

    path: str
    op: str = ""
    value: Any = None


class ClusterPatches(Value, frozen=True):
    cluster: str
    patches: tuple[OverridePatch, ...] = ()


class ControllerOverride(Value, frozen=True):
    controller: str
    clusters: tuple[ClusterPatches, ...] = ()


class FederatedObjectSpec(Value, frozen=True):
    template: dict[str, Any]
    placements: tuple[ControllerPlacement, ...] = ()
    overrides: tuple[ControllerOverride, ...] = ()


class FederatedObject(Value, frozen=True):
    """A FederatedObject or ClusterFederatedObject: a workload as KubeAdmiral propagates it."""

    metadata: ObjectMeta
    spec: FederatedObjectSpec
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "FederatedObject"

    def assignment(self, replicas_path: str) -> Mapping[str, int | None]:
        """Return the replicas by cluster that the scheduler assigned; None where the template's number applies."""
        pointer = f"/{replicas_path.replace('.', '/')}" if replicas_path else ""
        numbers = {
            entry.cluster: patch.value
            for override in self.spec.overrides
            if override.controller == GLOBAL_SCHEDULER
            for entry in override.clusters
            for patch in entry.patches
            if pointer and patch.path == pointer and patch.op in {"", "replace"}
        }
        return {
            each.cluster: number if isinstance(number := numbers.get(each.cluster), int) else None
            for placement in self.spec.placements
            if placement.controller == GLOBAL_SCHEDULER
            for each in placement.placement
        }

    def placed_by_others(self) -> tuple[str, ...]:
        """Return the clusters that other controllers than the scheduler place the object on, sorted."""
        return tuple(
            sorted(
                {
                    each.cluster
                    for placement in self.spec.placements
                    if placement.controller != GLOBAL_SCHEDULER
                    for each in placement.placement
                }
            )
        )


class AutoMigrationInfo(Value, frozen=True):
    """The annotation ``auto-migration-info``: replicas by cluster, and how many fit where fewer than wanted do."""

    estimated_capacity: dict[str, Int64] = {}
    scheduled_replicas: dict[str, Int64] = {}


class UnavailableCluster(Value, frozen=True):
    cluster: str
    valid_until: Timestamp


class AppliedMigration(Value, frozen=True):
    """The annotation ``applied-migration-configuration``: a custom migration that KubeAdmiral accepted."""

    limited_capacity: dict[str, Int64] = {}
    unavailable_clusters: tuple[UnavailableCluster, ...] = ()


class ReplicasMigration(Value, frozen=True):
    cluster: str = ""
    limited_capacity: Int64 | None = None


class WorkloadMigration(Value, frozen=True):
    cluster: str = ""
    valid_until: Timestamp | None = None


class MigrationConfiguration(Value, frozen=True):
    """The annotation ``migration-configuration``: a custom migration that a user requests."""

    replicas_migrations: tuple[ReplicasMigration, ...] = ()
    workload_migrations: tuple[WorkloadMigration, ...] = ()
