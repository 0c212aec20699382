"""KubeAdmiral's PropagationPolicy and ClusterPropagationPolicy (``core.kubeadmiral.io/v1alpha1``).

Enumerations are text as it was written, and nothing is defaulted here: the scheduler takes a policy as the API server
stored it, and whoever validates one wants to name every wrong value, not the first.
"""

import msgspec

from berthmaster.model.base import Int64, Value
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.selector import SelectorRequirement
from berthmaster.model.taint import Toleration


class ClusterSelectorTerm(Value, frozen=True):
    """Expressions over a cluster's labels and fields; all must hold."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class Preferences(Value, frozen=True):
    """What a cluster of the placement is to get. None means that the policy does not say."""

    min_replicas: Int64 | None = None
    max_replicas: Int64 | None = None
    weight: Int64 | None = None
    priority: Int64 | None = None


class DesiredPlacement(Value, frozen=True):
    """A cluster that may be chosen."""

    cluster: str = ""
    preferences: Preferences = Preferences()


class MigrationTrigger(Value, frozen=True):
    """When replicas move by themselves: a Go duration."""

    pod_unschedulable_for: str = ""


class AutoMigration(Value, frozen=True):
    """Whether replicas that cannot be scheduled move to other clusters."""

    when: MigrationTrigger | None = None
    keep_unschedulable_replicas: bool = False


class RescheduleWhen(Value, frozen=True):
    """Which changes are a reason to schedule again. None is false to the scheduler; the CRD makes the first true."""

    policy_content_changed: bool | None = None
    cluster_joined: bool | None = None
    cluster_labels_changed: bool | None = None
    cluster_api_resources_changed: bool | None = msgspec.field(default=None, name="clusterAPIResourcesChanged")


class ReplicaRescheduling(Value, frozen=True):
    """How replicas that already run are treated."""

    avoid_disruption: bool | None = None


class ReschedulePolicy(Value, frozen=True):
    """When and how objects are scheduled again."""

    disable_rescheduling: bool = False
    reschedule_when: RescheduleWhen | None = None
    replica_rescheduling: ReplicaRescheduling | None = None


class KubeAdmiralSpec(Value, frozen=True):
    """The spec of both kinds."""

    scheduling_profile: str = ""
    scheduling_mode: str = ""
    replicas_strategy: str = ""
    cluster_selector: dict[str, str] = {}
    cluster_affinity: tuple[ClusterSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    max_clusters: Int64 | None = None
    placement: tuple[DesiredPlacement, ...] = ()
    disable_follower_scheduling: bool = False
    auto_migration: AutoMigration | None = None
    reschedule_policy: ReschedulePolicy | None = None


class KubeAdmiralPolicy(Value, frozen=True):
    """A PropagationPolicy for objects of its namespace, or a ClusterPropagationPolicy."""

    spec: KubeAdmiralSpec
    metadata: ObjectMeta = ObjectMeta()
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "PropagationPolicy"
