"""KubeAdmiral's policies, profiles and clusters (``core.kubeadmiral.io/v1alpha1``)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.model.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Condition,
    ResourceSummary,
    Taint,
    Toleration,
)
from berthmaster.model.meta import Int64, ObjectMeta, Value
from berthmaster.model.quantity import Quantity
from berthmaster.model.selector import SelectorRequirement


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


_SPEC: Final[Mapping[str, Any]] = {
    "replicasStrategy": "Spread",
    "reschedulePolicy": {
        "rescheduleWhen": {
            "policyContentChanged": True,
            "clusterJoined": False,
            "clusterLabelsChanged": False,
            "clusterAPIResourcesChanged": False,
        },
        "replicaRescheduling": {"avoidDisruption": True},
    },
}
_AUTO_MIGRATION: Final[Mapping[str, Any]] = {
    "when": {"podUnschedulableFor": "1m"},
    "keepUnschedulableReplicas": False,
}
_DOCUMENTED: Final[Mapping[str, Any]] = {
    **_SPEC,
    "reschedulePolicy": {"disableRescheduling": False, **_SPEC["reschedulePolicy"]},
}


class Default(NamedTuple):
    """A value that a policy's spec lacks.

    Attributes:
        path: the field, as its names below ``spec``.
        value: what it is; for an absent object all of it.
    """

    path: tuple[str, ...]
    value: Any


def missing_defaults(spec: Mapping[str, Any], *, documented: bool = False) -> Iterator[Default]:
    """What a policy's spec lacks. A null counts as absent; auto-migration is off unless it is given.

    Args:
        spec: as decoded from JSON or YAML.
        documented: also what the CRD leaves open: ``disableRescheduling``, and the ``rescheduleWhen`` of a
            ``reschedulePolicy`` that comes without one.
    """
    for default in _lacking(_DOCUMENTED if documented else _SPEC, spec, ()):
        if documented or default.path != ("reschedulePolicy", "rescheduleWhen"):
            yield default
    if isinstance(migration := spec.get("autoMigration"), Mapping):
        yield from _lacking(_AUTO_MIGRATION, migration, ("autoMigration",))


def defaulted_spec(spec: Mapping[str, Any], *, documented: bool = False) -> dict[str, Any]:
    """A copy of a policy's spec with what it lacks; see ``missing_defaults``."""
    completed = _copied(spec)
    for path, value in missing_defaults(spec, documented=documented):
        holder = completed
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = value
    return completed


def _lacking(defaults: Mapping[str, Any], given: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Default]:
    for name, value in defaults.items():
        present = given.get(name)
        # An empty text is what a client writes that knows the field but not its default.
        if present is None or (present == "" and isinstance(value, str)):
            yield Default((*path, name), _copied(value) if isinstance(value, Mapping) else value)
        elif isinstance(value, Mapping) and isinstance(present, Mapping):
            yield from _lacking(value, present, (*path, name))


def _copied(given: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an object and of the objects in it; other values are shared."""
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in given.items()}


class PluginReference(Value, frozen=True):
    """A plugin, or the configuration of a webhook, by name. Neither type nor weight is looked at by KubeAdmiral."""

    name: str = ""
    type: str = ""
    weight: Int64 = msgspec.field(default=0, name="wait")
    """``wait`` is how KubeAdmiral's API spells it."""


class PluginSet(Value, frozen=True):
    """What changes at one extension point: ``disabled`` takes from the defaults (``*`` all), ``enabled`` adds."""

    enabled: tuple[PluginReference, ...] = ()
    disabled: tuple[PluginReference, ...] = ()


class ExtensionPoints(Value, frozen=True):
    """The points that can be configured."""

    filter: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    select: PluginSet = PluginSet()


class PluginConfig(Value, frozen=True):
    """Arguments of a plugin; KubeAdmiral passes them to none."""

    name: str
    args: Any = None


class SchedulingProfileSpec(Value, frozen=True):
    """What differs from the default profile."""

    plugins: ExtensionPoints = ExtensionPoints()
    plugin_config: tuple[PluginConfig, ...] = ()


class SchedulingProfile(Value, frozen=True):
    """A profile; policies name it in ``spec.schedulingProfile``."""

    metadata: ObjectMeta
    spec: SchedulingProfileSpec
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "SchedulingProfile"


JOINED: Final = "Joined"
_NOTHING: Final = Quantity(0, "0")


class FederatedClusterSpec(Value, frozen=True):
    """What keeps workloads off a cluster; how it is reached plays no part."""

    taints: tuple[Taint, ...] = ()


class APIResourceType(Value, frozen=True):
    """A kind that a cluster serves; the core group is empty."""

    version: str
    kind: str
    group: str = ""
    plural_name: str = ""
    scope: str = ""


class FederatedClusterResources(Value, frozen=True):
    """What a cluster's schedulable nodes have, and what of it is not requested, which may be negative."""

    schedulable_nodes: int | None = None
    allocatable: dict[str, Quantity] = {}
    available: dict[str, Quantity] = {}


class FederatedClusterStatus(Value, frozen=True):
    """What a cluster reports of itself."""

    conditions: tuple[Condition, ...] = ()
    resources: FederatedClusterResources = FederatedClusterResources()
    api_resource_types: tuple[APIResourceType, ...] = ()
    join_performed: bool = False


class FederatedCluster(Value, frozen=True):
    """A member cluster."""

    metadata: ObjectMeta
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "FederatedCluster"
    spec: FederatedClusterSpec = FederatedClusterSpec()
    status: FederatedClusterStatus = FederatedClusterStatus()


def as_cluster(federated: FederatedCluster) -> Cluster:
    """The same cluster in the core's terms."""
    status = federated.status
    return Cluster(
        metadata=federated.metadata,
        spec=ClusterSpec(taints=federated.spec.taints),
        status=ClusterStatus(
            api_enablements=tuple(
                APIEnablement(
                    f"{each.group}/{each.version}" if each.group else each.version,
                    (APIResource(each.plural_name, each.kind),),
                )
                for each in status.api_resource_types
            ),
            conditions=status.conditions,
            resource_summary=as_summary(status.resources),
        ),
    )


def as_summary(resources: FederatedClusterResources) -> ResourceSummary:
    """The same amounts in the core's terms: used is what is allocatable less what is available.

    A resource that is not among the available ones counts as used up, as it does in KubeAdmiral; of one that is not
    allocatable there is nothing.
    """
    available = resources.available
    allocatable = {**dict.fromkeys(available, _NOTHING), **resources.allocatable}
    return ResourceSummary(
        allocatable=allocatable,
        allocated={
            name: Quantity(amount.nanos - available.get(name, _NOTHING).nanos, "")
            for name, amount in allocatable.items()
        },
    )
