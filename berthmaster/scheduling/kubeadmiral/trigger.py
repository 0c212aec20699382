"""What makes a federated object need scheduling (KubeAdmiral ``scheduler/schedulingtriggers.go``)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral import KubeAdmiralSpec, RescheduleWhen
from berthmaster.scheduling.kubeadmiral.snapshot import Snapshot


class Trigger(Enum):
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
class Verdict:
    """Whether to schedule.

    Attributes:
        trigger: why; the current snapshot then replaces the one on record as soon as scheduling succeeded.
        deferred: without a trigger, the settings that stand against changes that there are. The snapshot on record
            then stays, so that they are acted on with the next trigger.
    """

    trigger: Trigger
    deferred: tuple[str, ...] = ()

    @property
    def schedules(self) -> bool:
        """Whether there is a trigger."""
        return self.trigger is not Trigger.NONE

    @property
    def deferred_text(self) -> str:
        """The annotation ``scheduling-deferred-reasons``; empty if it is to be removed."""
        return "; ".join(self.deferred)


def trigger_of(stored: str | None, current: Snapshot, policy: KubeAdmiralSpec | None) -> Verdict:
    """Why an object has to be scheduled now, the first reason that holds in KubeAdmiral's order.

    An annotation that makes an object sticky plays no part here, unlike a policy that does.

    Args:
        stored: the snapshot on record, as text.
        current: what scheduling depends on now.
        policy: that claims the object, with the defaults of its CRD; None if none does.
    """
    if not stored:
        return Verdict(Trigger.FIRST)
    if stored == current.text:
        return Verdict(Trigger.NONE)
    if policy is None:
        return Verdict(Trigger.UNBOUND)
    try:
        before = Snapshot.parse(stored)
    except FieldError:
        return Verdict(Trigger.UNREADABLE)
    always = next(_always_on(before, current), None)
    if always is not None:
        return Verdict(always)
    rescheduling = policy.reschedule_policy
    if rescheduling is not None and rescheduling.disable_rescheduling:
        return Verdict(Trigger.NONE, ("disableRescheduling:true",))
    if rescheduling is None or rescheduling.reschedule_when is None:
        return Verdict(Trigger.NONE, ("rescheduleWhen:nil",))
    deferred = []
    for change in _changes(before, current, rescheduling.reschedule_when):
        if change.counts:
            return Verdict(change.trigger)
        deferred.append(f"{change.switch}:false")
    return Verdict(Trigger.NONE, tuple(deferred))


def lost_or_changed(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a cluster is gone or has another hash. One that is new is no change."""
    return any(now.get(name) != digest for name, digest in before.items())


class _Change(NamedTuple):
    """A difference, the setting of the policy that is about it, and whether it is on."""

    trigger: Trigger
    switch: str
    counts: bool


def _always_on(before: Snapshot, now: Snapshot) -> Iterator[Trigger]:
    """The differences that no setting stands against."""
    if before.scheduling_annotations_hash != now.scheduling_annotations_hash:
        yield Trigger.ANNOTATIONS
    if before.replica_count != now.replica_count:
        yield Trigger.REPLICAS
    if before.resource_request != now.resource_request:
        yield Trigger.REQUESTS
    if before.policy_name != now.policy_name:
        yield Trigger.POLICY
    if before.auto_migration_info != now.auto_migration_info:
        yield Trigger.AUTO_MIGRATION


def _changes(before: Snapshot, now: Snapshot, when: RescheduleWhen) -> Iterator[_Change]:
    """The other differences, in order; about taints there is no setting."""
    if before.policy_content_hash != now.policy_content_hash:
        yield _Change(Trigger.POLICY_CONTENT, "policyContentChanged", bool(when.policy_content_changed))
    if lost_or_changed(before.cluster_labels_hashes, now.cluster_labels_hashes):
        yield _Change(Trigger.CLUSTER_LABELS, "clusterLabelsChanged", bool(when.cluster_labels_changed))
    if lost_or_changed(before.cluster_taints_hashes, now.cluster_taints_hashes):
        yield _Change(Trigger.CLUSTER_TAINTS, "", counts=True)
    if lost_or_changed(before.cluster_api_resource_types_hashes, now.cluster_api_resource_types_hashes):
        yield _Change(
            Trigger.CLUSTER_API_RESOURCES, "clusterAPIResourcesChanged", bool(when.cluster_api_resources_changed)
        )
    if set(before.clusters) < set(now.clusters):
        yield _Change(Trigger.CLUSTER_JOINED, "clusterJoined", bool(when.cluster_joined))
