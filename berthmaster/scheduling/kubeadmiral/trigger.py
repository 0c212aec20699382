"""What makes a federated object need scheduling (KubeAdmiral ``scheduler/schedulingtriggers.go``).

All that scheduling depends on, in short: what KubeAdmiral remembers of it to tell later what has changed.

It stands in the annotation ``kubeadmiral.io/scheduling-triggers``, under the names of KubeAdmiral's
``scheduler/schedulingtriggers.go``. Hashes are FNV-1 of 32 bits, in decimal, of compact JSON in Berthmaster's own
field order, without empty fields: they compare with each other, not with those that KubeAdmiral wrote, so that an
object that changes hands is scheduled once more.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.federated_object import (
    AFFINITY,
    APPLIED_MIGRATION,
    AUTO_MIGRATION_INFO,
    CLUSTER_SELECTOR,
    DRY_RUN,
    FOLLOWS_OBJECT,
    MAX_CLUSTERS,
    PLACEMENTS,
    SCHEDULING_MODE,
    STICKY_CLUSTER,
    TOLERATIONS,
)
from berthmaster.model.kubeadmiral import JOINED, KubeAdmiralPolicy, KubeAdmiralSpec, RescheduleWhen
from berthmaster.model.meta import Int64, Value
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.fnv import fnv1_32
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload
from berthmaster.scheduling.resources import amount_of

WATCHED_ANNOTATIONS: Final = (
    SCHEDULING_MODE,
    STICKY_CLUSTER,
    TOLERATIONS,
    PLACEMENTS,
    CLUSTER_SELECTOR,
    AFFINITY,
    MAX_CLUSTERS,
    FOLLOWS_OBJECT,
    APPLIED_MIGRATION,
    DRY_RUN,
)
"""The annotations of a federated object whose change is a reason to schedule it."""

_SCALAR_PREFIXES: Final = ("hugepages-", "attachable-volumes-")


class ResourceRequest(Value, frozen=True):
    """What a replica requests: CPU in millicores, memory and storage in bytes, other resources in their units."""

    millicpu: Int64 = 0
    memory: Int64 = 0
    ephemeral_storage: Int64 = 0
    scalar_resources: dict[str, Int64] = {}


class Snapshot(Value, frozen=True):
    """What scheduling depended on at one time. Hashes of clusters are by name.

    Attributes:
        scheduling_annotations_hash: of the watched annotations.
        replica_count: 0 for a kind without replicas.
        resource_request: all of it, not only what is compared with clusters.
        auto_migration_info: the annotation's text; None if there is none, or the policy migrates nothing.
        policy_name: empty without a policy.
        policy_content_hash: of its spec, but for ``autoMigration``; empty without a policy.
        clusters: those that had joined, by name.
    """

    scheduling_annotations_hash: str
    replica_count: Int64
    resource_request: ResourceRequest
    policy_name: str
    policy_content_hash: str
    auto_migration_info: str | None = None
    clusters: tuple[str, ...] = ()
    cluster_labels_hashes: dict[str, str] = {}
    cluster_taints_hashes: dict[str, str] = {}
    cluster_api_resource_types_hashes: dict[str, str] = msgspec.field(
        default_factory=dict, name="clusterAPIResourceTypesHashes"
    )

    @property
    def text(self) -> str:
        """Its JSON form, the same for equal snapshots."""
        return _json(self).decode()

    @classmethod
    def parse(cls, text: str) -> "Snapshot":
        """Read the JSON form.

        Raises:
            FieldError: it is none.
        """
        return decode_json(cls, text)


class ClusterMarks(NamedTuple):
    """The hashes of one cluster. They cost more than all the rest: keep them as long as the cluster is the same."""

    labels: str
    taints: str
    api_resource_types: str


def cluster_marks(cluster: Cluster) -> ClusterMarks:
    """What can be told of a cluster's changes; neither the order of taints nor that of kinds plays a part."""
    return ClusterMarks(
        _hash(cluster.metadata.labels),
        _hash(sorted((each.key, each.value, each.effect) for each in cluster.spec.taints)),
        _hash(
            sorted(
                (enablement.group_version, resource.kind, resource.name)
                for enablement in cluster.status.api_enablements
                for resource in enablement.resources
            )
        ),
    )


def marks_of(clusters: Iterable[Cluster]) -> dict[str, ClusterMarks]:
    """The marks of the clusters that joined the federation, by name."""
    return {each.name: cluster_marks(each) for each in clusters if each.has_condition(JOINED)}


def snapshot_of(
    workload: UnitWorkload,
    policy: KubeAdmiralPolicy | None,
    annotations: Mapping[str, str],
    clusters: Mapping[str, ClusterMarks],
) -> Snapshot:
    """What scheduling depends on now.

    Args:
        workload: the object.
        policy: that it is bound to, if any.
        annotations: of the federated object.
        clusters: those that joined; see ``marks_of``.
    """
    names = sorted(clusters)
    migrates = policy is not None and policy.spec.auto_migration is not None
    return Snapshot(
        scheduling_annotations_hash=_hash({key: annotations[key] for key in WATCHED_ANNOTATIONS if key in annotations}),
        replica_count=workload.replicas or 0,
        resource_request=_resource_request(workload.requests),
        policy_name=policy.metadata.name if policy is not None else "",
        policy_content_hash=_policy_hash(policy.spec) if policy is not None else "",
        auto_migration_info=annotations.get(AUTO_MIGRATION_INFO) if migrates else None,
        clusters=tuple(names),
        cluster_labels_hashes={name: clusters[name].labels for name in names},
        cluster_taints_hashes={name: clusters[name].taints for name in names},
        cluster_api_resource_types_hashes={name: clusters[name].api_resource_types for name in names},
    )


def _policy_hash(spec: KubeAdmiralSpec) -> str:
    return _hash(msgspec.structs.replace(spec, auto_migration=None))


def _resource_request(requests: Mapping[str, Quantity]) -> ResourceRequest:
    amounts = {name: amount_of(name, amount) for name, amount in requests.items()}
    return ResourceRequest(
        millicpu=amounts.get("cpu", 0),
        memory=amounts.get("memory", 0),
        ephemeral_storage=amounts.get("ephemeral-storage", 0),
        scalar_resources={
            name: amount for name, amount in amounts.items() if "/" in name or name.startswith(_SCALAR_PREFIXES)
        },
    )


def _hash(value: object) -> str:
    return str(fnv1_32(_json(value)))


def _json(value: object) -> bytes:
    """Compact JSON; the keys of maps are sorted."""
    return msgspec.json.encode(value, order="deterministic")


class ObjectTrigger(Enum):
    """Why an object is scheduled."""

    FIRST = "First"
    """It never was: no snapshot is on record."""

    UNBOUND = "Unbound"
    """No policy claims it any more; it goes nowhere."""

    UNREADABLE = "Unreadable"
    """The snapshot on record says nothing."""

    ANNOTATIONS = "Annotations"
    """Annotations say something else of it."""

    REPLICAS = "Replicas"
    """It is to have another number of replicas."""

    REQUESTS = "Requests"
    """Its replicas request something else."""

    POLICY = "Policy"
    """Another policy claims it."""

    AUTO_MIGRATION = "AutoMigration"
    """What its replicas turned out to do has changed."""

    POLICY_CONTENT = "PolicyContent"
    """Its policy asks for something else."""

    CLUSTER_LABELS = "ClusterLabels"
    """A cluster has other labels."""

    CLUSTER_TAINTS = "ClusterTaints"
    """A cluster has other taints, or is gone."""

    CLUSTER_API_RESOURCES = "ClusterAPIResources"
    """A cluster serves other kinds."""

    CLUSTER_JOINED = "ClusterJoined"
    """There is one more cluster, and none is gone."""

    NONE = "None"
    """Nothing that counts: what was decided stays."""


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """Whether to schedule.

    Attributes:
        trigger: why; the current snapshot then replaces the one on record as soon as scheduling succeeded.
        deferred: without a trigger, the settings that stand against changes that there are. The snapshot on record
            then stays, so that they are acted on with the next trigger.
    """

    trigger: ObjectTrigger
    deferred: tuple[str, ...] = ()

    @property
    def schedules(self) -> bool:
        """Whether there is a trigger."""
        return self.trigger is not ObjectTrigger.NONE

    @property
    def deferred_text(self) -> str:
        """The annotation ``scheduling-deferred-reasons``; empty if it is to be removed."""
        return "; ".join(self.deferred)


def trigger_of(stored: str | None, current: Snapshot, policy: KubeAdmiralSpec | None) -> TriggerResult:
    """Why an object has to be scheduled now, the first reason that holds in KubeAdmiral's order.

    An annotation that makes an object sticky plays no part here, unlike a policy that does.

    Args:
        stored: the snapshot on record, as text.
        current: what scheduling depends on now.
        policy: that claims the object, with the defaults of its CRD; None if none does.
    """
    if not stored:
        return TriggerResult(ObjectTrigger.FIRST)
    if stored == current.text:
        return TriggerResult(ObjectTrigger.NONE)
    if policy is None:
        return TriggerResult(ObjectTrigger.UNBOUND)
    try:
        before = Snapshot.parse(stored)
    except FieldError:
        return TriggerResult(ObjectTrigger.UNREADABLE)
    always = next(_always_on(before, current), None)
    if always is not None:
        return TriggerResult(always)
    rescheduling = policy.reschedule_policy
    if rescheduling is not None and rescheduling.disable_rescheduling:
        return TriggerResult(ObjectTrigger.NONE, ("disableRescheduling:true",))
    if rescheduling is None or rescheduling.reschedule_when is None:
        return TriggerResult(ObjectTrigger.NONE, ("rescheduleWhen:nil",))
    deferred = []
    for change in _changes(before, current, rescheduling.reschedule_when):
        if change.counts:
            return TriggerResult(change.trigger)
        deferred.append(f"{change.switch}:false")
    return TriggerResult(ObjectTrigger.NONE, tuple(deferred))


def lost_or_changed(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a cluster is gone or has another hash. One that is new is no change."""
    return any(now.get(name) != digest for name, digest in before.items())


class _Change(NamedTuple):
    """A difference, the setting of the policy that is about it, and whether it is on."""

    trigger: ObjectTrigger
    switch: str
    counts: bool


def _always_on(before: Snapshot, now: Snapshot) -> Iterator[ObjectTrigger]:
    """The differences that no setting stands against."""
    if before.scheduling_annotations_hash != now.scheduling_annotations_hash:
        yield ObjectTrigger.ANNOTATIONS
    if before.replica_count != now.replica_count:
        yield ObjectTrigger.REPLICAS
    if before.resource_request != now.resource_request:
        yield ObjectTrigger.REQUESTS
    if before.policy_name != now.policy_name:
        yield ObjectTrigger.POLICY
    if before.auto_migration_info != now.auto_migration_info:
        yield ObjectTrigger.AUTO_MIGRATION


def _changes(before: Snapshot, now: Snapshot, when: RescheduleWhen) -> Iterator[_Change]:
    """The other differences, in order; about taints there is no setting."""
    if before.policy_content_hash != now.policy_content_hash:
        yield _Change(ObjectTrigger.POLICY_CONTENT, "policyContentChanged", bool(when.policy_content_changed))
    if lost_or_changed(before.cluster_labels_hashes, now.cluster_labels_hashes):
        yield _Change(ObjectTrigger.CLUSTER_LABELS, "clusterLabelsChanged", bool(when.cluster_labels_changed))
    if lost_or_changed(before.cluster_taints_hashes, now.cluster_taints_hashes):
        yield _Change(ObjectTrigger.CLUSTER_TAINTS, "", counts=True)
    if lost_or_changed(before.cluster_api_resource_types_hashes, now.cluster_api_resource_types_hashes):
        yield _Change(
            ObjectTrigger.CLUSTER_API_RESOURCES, "clusterAPIResourcesChanged", bool(when.cluster_api_resources_changed)
        )
    if set(before.clusters) < set(now.clusters):
        yield _Change(ObjectTrigger.CLUSTER_JOINED, "clusterJoined", bool(when.cluster_joined))
