"""The present of a KubeAdmiral federation: its workloads with their policies, and what FederatedObjects say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from berthmaster.manifests import Manifests
from berthmaster.manifests.loader import FederatedDocument
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError
from berthmaster.model.federated_object import SCHEDULING_TRIGGERS
from berthmaster.model.kinds import group_of
from berthmaster.model.kubeadmiral import KubeAdmiralPolicy, SchedulingProfile
from berthmaster.model.replicas import ReplicaPath, replica_path_of, replicas_of, template_of
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload
from berthmaster.scheduling.kubeadmiral.profile import DEFAULT_PLUGINS, PluginNames, plugin_names
from berthmaster.scheduling.kubeadmiral.trigger import (
    adopted,
    hashes_of,
    snapshot_of,
)
from berthmaster.scheduling.kubeadmiral.webhook_plugin import NO_WEBHOOKS, Webhooks
from berthmaster.simulation.workload import ResourceName

POLICY_LABEL: Final = "kubeadmiral.io/propagation-policy-name"
CLUSTER_POLICY_LABEL: Final = "kubeadmiral.io/cluster-propagation-policy-name"


@dataclass(frozen=True, slots=True)
class BoundWorkload:
    """A workload and the policy that its labels bind it to.

    Attributes:
        missing: a message that the named policy or profile does not exist, or empty. Nothing is scheduled then.
        plugins: the plugins of the profile, or why the profile is invalid, which fails every attempt.
        others: the clusters that other controllers of KubeAdmiral place the object on.
    """

    workload: UnitWorkload
    annotations: Mapping[str, str] = field(default_factory=dict)
    policy: KubeAdmiralPolicy | None = None
    missing: str = ""
    plugins: PluginNames | FieldError = DEFAULT_PLUGINS
    snapshot: str | None = None
    others: tuple[str, ...] = ()
    present: bool = False

    @property
    def name(self) -> ResourceName:
        return ResourceName(self.workload.namespace, self.workload.kind, self.workload.name)


@dataclass(frozen=True, slots=True)
class Federation:
    """Clusters by name, and workloads.

    Attributes:
        forced: whether the next run schedules every workload, even without a trigger.
        duplicate_limits: in mode Duplicate, ``minReplicas`` and ``maxReplicas`` limit the replicas of each cluster, as
            KubeAdmiral's manual says. KubeAdmiral's scheduler ignores them.
    """

    clusters: Mapping[str, Cluster]
    workloads: Sequence[BoundWorkload]
    forced: bool = False
    webhooks: Webhooks = field(default_factory=dict)
    duplicate_limits: bool = False


def federation_of(
    manifests: Manifests,
    replica_paths: Sequence[ReplicaPath] = (),
    *,
    webhooks: Webhooks = NO_WEBHOOKS,
    duplicate_limits: bool = False,
) -> Federation:
    """Build the federation that manifests describe.

    FederatedObjects hold the present: their placements, the replicas in their overrides and the inputs of the last
    scheduling. A resource without one was never scheduled.

    Raises:
        ManifestError: a field of a resource of a file that affects decisions is invalid. An invalid object of a control
            plane is left out and recorded as a gap.
    """
    given = manifests.federation
    binder = _Binder(manifests, replica_paths, webhooks)
    bound = []
    for federated in given.objects:
        try:
            bound.append(binder.federated(federated))
        except FieldError as error:
            manifests.leave_out(federated.document, federated.document.error(error))
    propagated = {_identity(each.workload) for each in bound}
    for document in manifests.templates:
        try:
            source = binder.bound(document.raw)
        except FieldError as error:
            manifests.leave_out(document, document.error(error))
            continue
        if _identity(source.workload) not in propagated:
            bound.append(source)
    clusters = {cluster.name: cluster for cluster in given.clusters}
    return Federation(clusters, bound, webhooks=webhooks, duplicate_limits=duplicate_limits)


def _identity(workload: UnitWorkload) -> tuple[str, str, str, str]:
    return group_of(workload.api_version), workload.kind, workload.namespace, workload.name


class _Binder:
    """Binds objects to the policies and profiles of manifests."""

    def __init__(self, manifests: Manifests, replica_paths: Sequence[ReplicaPath], webhooks: Webhooks) -> None:
        given = manifests.federation
        self._policies = {(each.kind, each.metadata.namespace, each.metadata.name): each for each in given.policies}
        self._profiles = {each.metadata.name: _plugins(each, webhooks) for each in given.profiles}
        self._replica_paths = replica_paths
        self._hashes = hashes_of(given.clusters)

    def federated(self, given: FederatedDocument) -> BoundWorkload:
        """Return the workload of a federated object, with its assignment and the inputs of its last scheduling."""
        federated = given.federated
        metadata = federated.metadata
        bound = self._bound(federated.spec.template, metadata.labels, metadata.namespace)
        current = federated.assignment(bound.workload.replicas_path)
        bound = replace(
            bound,
            workload=replace(bound.workload, current=current),
            annotations={**bound.annotations, **metadata.annotations},
            others=federated.placed_by_others(),
            present=True,
        )
        if metadata.deletion_timestamp is not None:
            return replace(bound, missing="the object is being deleted")
        stored = metadata.annotations.get(SCHEDULING_TRIGGERS)
        if stored is None:
            return bound
        inputs = snapshot_of(bound.workload, bound.policy, bound.annotations, self._hashes)
        return replace(bound, snapshot=adopted(stored, inputs))

    def bound(self, raw: Mapping[str, Any]) -> BoundWorkload:
        """Return the workload of a resource that KubeAdmiral has not scheduled."""
        return self._bound(raw, template_of(raw).labels, "")

    def _bound(self, raw: Mapping[str, Any], labels: Mapping[str, str], namespace: str) -> BoundWorkload:
        template, replicas = template_of(raw), replicas_of(raw, self._replica_paths)
        known = replica_path_of(raw, self._replica_paths)
        workload = UnitWorkload(
            api_version=template.api_version,
            kind=template.kind,
            name=template.name,
            namespace=template.namespace or namespace,
            replicas_path=known.replicas if known is not None else "",
            replicas=replicas.number if known is not None else None,
            requests=replicas.requirements.resource_request if replicas.requirements is not None else {},
        )
        annotations = (raw.get("metadata") or {}).get("annotations") or {}
        bound = BoundWorkload(workload, {str(key): str(value) for key, value in annotations.items()})
        reference = _policy_reference(labels, workload.namespace)
        if reference is None:
            return bound
        policy = self._policies.get(reference)
        if policy is None:
            return replace(bound, missing=f"{reference[0]} {reference[2]} does not exist")
        profile = policy.spec.scheduling_profile
        if profile and profile not in self._profiles:
            return replace(bound, policy=policy, missing=f"SchedulingProfile {profile} does not exist")
        return replace(bound, policy=policy, plugins=self._profiles.get(profile, DEFAULT_PLUGINS))


def _policy_reference(labels: Mapping[str, str], namespace: str) -> tuple[str, str, str] | None:
    """Return kind, namespace and name of the policy that the labels name. A PropagationPolicy has precedence."""
    if namespace and (name := labels.get(POLICY_LABEL)):
        return "PropagationPolicy", namespace, name
    name = labels.get(CLUSTER_POLICY_LABEL)
    return ("ClusterPropagationPolicy", "", name) if name else None


def _plugins(profile: SchedulingProfile, webhooks: Webhooks) -> PluginNames | FieldError:
    """Return the plugins of a profile, or why it is invalid. An invalid profile affects only policies that name it."""
    try:
        return plugin_names(profile, webhooks)
    except FieldError as error:
        return FieldError(f"SchedulingProfile {profile.metadata.name}: {error.path}", error.problem)
