"""When a federated object needs scheduling (KubeAdmiral ``scheduler/schedulingtriggers.go``).

The annotation ``kubeadmiral.io/scheduling-triggers`` stores a snapshot of all inputs of the last scheduling, with
KubeAdmiral's field names. An object needs scheduling if a relevant part of the current snapshot differs. Hashes are
FNV-1 of 32 bits, in decimal, of compact JSON in Berthmaster's own field order, without empty fields. They differ from
the hashes that KubeAdmiral writes, so that an object which changes from one scheduler to the other is scheduled again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral import objects as names
from berthmaster.model.kubeadmiral.clusters import JOINED
from berthmaster.model.kubeadmiral.policies import KubeAdmiralPolicy, KubeAdmiralSpec, RescheduleWhen
from berthmaster.model.meta import Int64, Value
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.fnv import fnv1_32
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload
from berthmaster.scheduling.resources import amount_of

TRIGGER_ANNOTATIONS: Final = (
    names.SCHEDULING_MODE, names.STICKY_CLUSTER, names.TOLERATIONS, names.PLACEMENTS, names.CLUSTER_SELECTOR,
    names.AFFINITY, names.MAX_CLUSTERS, names.FOLLOWS_OBJECT, names.APPLIED_MIGRATION, names.DRY_RUN,
)  # fmt: skip

_SCALAR_PREFIXES: Final = ("hugepages-", "attachable-volumes-")


class ResourceRequest(Value, frozen=True):
    """What a replica requests: CPU in millicores, memory and storage in bytes, other resources in their units."""

    millicpu: Int64 = 0
    memory: Int64 = 0
    ephemeral_storage: Int64 = 0
    scalar_resources: dict[str, Int64] = {}


class Snapshot(Value, frozen=True):
    """The inputs of scheduling at one time. Hashes of clusters are by name.

    Attributes:
        replica_count: 0 for a kind without replicas.
        resource_request: the whole request, not only the part that filters compare.
        auto_migration_info: the annotation's text. None if it is missing, or if the policy has no auto-migration.
        policy_content_hash: hash of the policy's spec without ``autoMigration``. Empty without a policy.
        clusters: the clusters that joined, ordered by name.
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
        """Its JSON form. Equal snapshots have the same one."""
        return _json(self).decode()


def adopted(stored: str, current: Snapshot) -> str:
    """Return a snapshot that KubeAdmiral stored, with hashes that can be compared with those of ``current``.

    KubeAdmiral's hashes are over Go's encoding of its own types. They are replaced by the current ones: what they stand
    for is assumed not to have changed since the last scheduling. So are the resource requests, which KubeAdmiral
    computes from the whole pod template. Numbers and names are kept, so that their changes still trigger scheduling.
    Returns the snapshot as text; ``stored`` itself if it cannot be decoded.
    """
    try:
        before = decode_json(Snapshot, stored)
    except FieldError:
        return stored
    return msgspec.structs.replace(
        before,
        scheduling_annotations_hash=current.scheduling_annotations_hash,
        resource_request=current.resource_request,
        policy_content_hash=current.policy_content_hash,
        clusters=tuple(sorted(before.clusters)),
        cluster_labels_hashes=_current_where_known(before.cluster_labels_hashes, current.cluster_labels_hashes),
        cluster_taints_hashes=_current_where_known(before.cluster_taints_hashes, current.cluster_taints_hashes),
        cluster_api_resource_types_hashes=_current_where_known(
            before.cluster_api_resource_types_hashes, current.cluster_api_resource_types_hashes
        ),
    ).text


def _current_where_known(before: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """Keep the hash of a cluster that is gone, so that its loss counts."""
    return {name: current.get(name, digest) for name, digest in sorted(before.items())}


class ClusterHashes(NamedTuple):
    """The hashes of one cluster. They are expensive: keep them until the cluster changes."""

    labels: str
    taints: str
    api_resource_types: str


def cluster_hashes(cluster: Cluster) -> ClusterHashes:
    """Return the hashes of a cluster. The order of taints and of kinds does not count."""
    return ClusterHashes(
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


def hashes_of(clusters: Iterable[Cluster]) -> dict[str, ClusterHashes]:
    """Return the hashes of the clusters that joined the federation, by name."""
    return {each.name: cluster_hashes(each) for each in clusters if each.has_condition(JOINED)}


def snapshot_of(
    workload: UnitWorkload,
    policy: KubeAdmiralPolicy | None,
    annotations: Mapping[str, str],
    clusters: Mapping[str, ClusterHashes],
) -> Snapshot:
    """Return the current snapshot of an object."""
    joined = sorted(clusters.items())
    migrates = policy is not None and policy.spec.auto_migration is not None
    return Snapshot(
        scheduling_annotations_hash=_hash({key: annotations[key] for key in TRIGGER_ANNOTATIONS if key in annotations}),
        replica_count=workload.replicas or 0,
        resource_request=_resource_request(workload.requests),
        policy_name=policy.metadata.name if policy is not None else "",
        policy_content_hash=_hash(msgspec.structs.replace(policy.spec, auto_migration=None)) if policy else "",
        auto_migration_info=annotations.get(names.AUTO_MIGRATION_INFO) if migrates else None,
        clusters=tuple(name for name, _ in joined),
        cluster_labels_hashes={name: each.labels for name, each in joined},
        cluster_taints_hashes={name: each.taints for name, each in joined},
        cluster_api_resource_types_hashes={name: each.api_resource_types for name, each in joined},
    )


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
    return msgspec.json.encode(value, order="deterministic")


class ObjectTrigger(Enum):
    """Why an object is scheduled."""

    FIRST = "First"
    """It was never scheduled: it has no stored snapshot."""
    UNBOUND = "Unbound"
    """No policy selects it any more. It goes to no cluster."""
    UNREADABLE = "Unreadable"
    ANNOTATIONS = "Annotations"
    REPLICAS = "Replicas"
    REQUESTS = "Requests"
    POLICY = "Policy"
    AUTO_MIGRATION = "AutoMigration"
    POLICY_CONTENT = "PolicyContent"
    CLUSTER_LABELS = "ClusterLabels"
    CLUSTER_TAINTS = "ClusterTaints"
    """The taints of a cluster changed, or a cluster was removed."""
    CLUSTER_API_RESOURCES = "ClusterAPIResources"
    CLUSTER_JOINED = "ClusterJoined"
    """A cluster joined, and none was removed."""
    NONE = "None"
    """No relevant change. The assignment stays."""


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """Whether to schedule.

    Attributes:
        trigger: the reason. After successful scheduling the current snapshot replaces the stored one.
        deferred: without a trigger, the settings that disable a reaction to existing changes. The stored snapshot
            stays, so that the next trigger includes these changes.
    """

    trigger: ObjectTrigger
    deferred: tuple[str, ...] = ()


_ALWAYS: Final = {
    "scheduling_annotations_hash": ObjectTrigger.ANNOTATIONS,
    "replica_count": ObjectTrigger.REPLICAS,
    "resource_request": ObjectTrigger.REQUESTS,
    "policy_name": ObjectTrigger.POLICY,
    "auto_migration_info": ObjectTrigger.AUTO_MIGRATION,
}
"""The changes that no setting can disable, in KubeAdmiral's order."""


def trigger_of(stored: str | None, current: Snapshot, policy: KubeAdmiralSpec | None) -> TriggerResult:
    """Return why an object must be scheduled now: the first reason that applies, in KubeAdmiral's order.

    A policy can make an object sticky here. An annotation cannot.
    """
    if not stored:
        return TriggerResult(ObjectTrigger.FIRST)
    if stored == current.text:
        return TriggerResult(ObjectTrigger.NONE)
    if policy is None:
        return TriggerResult(ObjectTrigger.UNBOUND)
    try:
        before = decode_json(Snapshot, stored)
    except FieldError:
        return TriggerResult(ObjectTrigger.UNREADABLE)
    for part, trigger in _ALWAYS.items():
        if getattr(before, part) != getattr(current, part):
            return TriggerResult(trigger)
    rescheduling = policy.reschedule_policy
    if rescheduling is not None and rescheduling.disable_rescheduling:
        return TriggerResult(ObjectTrigger.NONE, ("disableRescheduling:true",))
    if rescheduling is None or rescheduling.reschedule_when is None:
        return TriggerResult(ObjectTrigger.NONE, ("rescheduleWhen:nil",))
    deferred = []
    for trigger, switch, counts in _changes(before, current, rescheduling.reschedule_when):
        if counts:
            return TriggerResult(trigger)
        deferred.append(f"{switch}:false")
    return TriggerResult(ObjectTrigger.NONE, tuple(deferred))


def lost_or_changed(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return whether a cluster was removed or has another hash. A new cluster does not count."""
    return any(now.get(name) != digest for name, digest in before.items())


def _changes(before: Snapshot, now: Snapshot, when: RescheduleWhen) -> Iterator[tuple[ObjectTrigger, str, bool]]:
    """Yield the other changes in order, with the setting of each, and whether it is on. Taints have no setting."""
    labels = lost_or_changed(before.cluster_labels_hashes, now.cluster_labels_hashes)
    taints = lost_or_changed(before.cluster_taints_hashes, now.cluster_taints_hashes)
    kinds = lost_or_changed(before.cluster_api_resource_types_hashes, now.cluster_api_resource_types_hashes)
    for trigger, changed, switch, is_on in (
        (ObjectTrigger.POLICY_CONTENT, before.policy_content_hash != now.policy_content_hash,
         "policyContentChanged", when.policy_content_changed),
        (ObjectTrigger.CLUSTER_LABELS, labels, "clusterLabelsChanged", when.cluster_labels_changed),
        (ObjectTrigger.CLUSTER_TAINTS, taints, "", True),
        (ObjectTrigger.CLUSTER_API_RESOURCES, kinds,
         "clusterAPIResourcesChanged", when.cluster_api_resources_changed),
        (ObjectTrigger.CLUSTER_JOINED, set(before.clusters) < set(now.clusters),
         "clusterJoined", when.cluster_joined),
    ):  # fmt: skip
        if changed:
            yield trigger, switch, bool(is_on)
