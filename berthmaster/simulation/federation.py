"""Simulation of a KubeAdmiral federation: schedule its workloads before and after changes.

KubeAdmiral schedules an object only if a relevant input changed since the last scheduling (``trigger``). A simulation
therefore keeps the snapshots of these inputs that KubeAdmiral would keep.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from berthmaster.manifests import Manifests
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.kubeadmiral import KubeAdmiralPolicy, SchedulingProfile
from berthmaster.model.replicas import ReplicaPath, Template, replica_path_of, replicas_of, template_of
from berthmaster.scheduling.decision import Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.diagnosis import GroupDiagnosis, explain_groups
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload, prepare, with_migration_applied
from berthmaster.scheduling.kubeadmiral.profile import DEFAULT_PLUGINS, PluginNames, kubeadmiral_profile, plugin_names
from berthmaster.scheduling.kubeadmiral.trigger import ClusterHashes, ObjectTrigger, hashes_of, snapshot_of, trigger_of
from berthmaster.scheduling.kubeadmiral.unit import SchedulingUnit, placed, request_of
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.changes import AddLabel, AddTaint, Change, Down, Reschedule, Scale
from berthmaster.simulation.cluster_changes import AddCluster, RemoveCluster, RemoveLabel, RemoveTaint, Up
from berthmaster.simulation.world import ResourceName, World

POLICY_LABEL: Final = "kubeadmiral.io/propagation-policy-name"
CLUSTER_POLICY_LABEL: Final = "kubeadmiral.io/cluster-propagation-policy-name"
UNBOUND: Final = f"no label {POLICY_LABEL} or {CLUSTER_POLICY_LABEL} binds it to a policy"


@dataclass(frozen=True, slots=True)
class BoundWorkload:
    """A workload and the policy that its labels bind it to.

    Attributes:
        workload: the object and its current assignment.
        annotations: the annotations of the object, which may override parts of the policy.
        policy: the policy; None if there is no label or the policy does not exist.
        missing: a message that the named policy or profile does not exist, or empty. Nothing is scheduled then.
        plugins: the plugins of the profile, or why the profile is invalid, which fails every attempt.
        snapshot: the inputs of the last scheduling, as text.
    """

    workload: UnitWorkload
    annotations: Mapping[str, str] = field(default_factory=dict)
    policy: KubeAdmiralPolicy | None = None
    missing: str = ""
    plugins: PluginNames | FieldError = DEFAULT_PLUGINS
    snapshot: str | None = None

    @property
    def name(self) -> ResourceName:
        """The name on the command line."""
        return ResourceName(self.workload.namespace, self.workload.kind, self.workload.name)


@dataclass(frozen=True, slots=True)
class Federation:
    """Clusters by name, and workloads.

    Attributes:
        clusters: the clusters by name.
        workloads: the workloads, in the order of scheduling.
        forced: whether the next run schedules every workload, even without a trigger.
    """

    clusters: Mapping[str, Cluster]
    workloads: Sequence[BoundWorkload]
    forced: bool = False


@dataclass(frozen=True, slots=True)
class FederatedResult:
    """The result for a workload.

    Attributes:
        bound: the workload after the run.
        trigger: why the workload was scheduled.
        unit: the scheduling unit; None if nothing was scheduled.
        decision: the decision; None if the workload was not scheduled.
        diagnosis: the explanation of the decision; None without a decision or if no cluster was considered.
        notes: remarks: ignored annotations, and changes that do not trigger scheduling.
    """

    bound: BoundWorkload
    trigger: ObjectTrigger
    unit: SchedulingUnit | None = None
    decision: Decision | None = None
    diagnosis: GroupDiagnosis | None = None
    notes: tuple[str, ...] = ()


def federation_of(manifests: Manifests, replica_paths: Sequence[ReplicaPath] = ()) -> Federation:
    """Build the federation that manifests describe.

    Raises:
        ManifestError: a field of a resource that affects decisions is invalid.
    """
    given = manifests.federation
    policies = {(each.kind, each.metadata.namespace, each.metadata.name): each for each in given.policies}
    profiles = {each.metadata.name: _plugins(each) for each in given.profiles}
    bound = []
    for document in manifests.templates:
        try:
            bound.append(_bound(document.raw, policies, profiles, replica_paths))
        except FieldError as error:
            raise document.error(error) from None
    return Federation({cluster.name: cluster for cluster in given.clusters}, bound)


def run_federation(
    federation: Federation, now: datetime, *, diagnose: bool = False
) -> tuple[Federation, list[FederatedResult]]:
    """Schedule every workload that needs it.

    Args:
        federation: the federation; its workloads hold the current assignments.
        now: the time, which decides whether custom migration still excludes a cluster.
        diagnose: whether to explain every decision.

    Returns:
        The federation after the run, and a result for each workload in order.
    """
    run = _Run(federation, now, diagnose=diagnose)
    results = [run.schedule(bound) for bound in federation.workloads]
    return replace(federation, workloads=[each.bound for each in results], forced=False), results


def apply_to_federation(changes: Iterable[Change], federation: Federation, now: datetime) -> Federation:
    """Return the federation after all changes. Each change has the effect that it has in KubeAdmiral.

    A failed cluster is only marked as not ready, because KubeAdmiral does not evict its workloads.

    Raises:
        InputError: a change names a cluster or resource that does not exist.
    """
    for change in changes:
        match change:
            case Scale():
                federation = _scaled(federation, change)
            case Reschedule():
                federation = replace(federation, forced=True)
            case Down():
                federation = replace(federation, clusters=change.not_ready(World(federation.clusters, ())).clusters)
            case AddLabel() | AddTaint() | RemoveLabel() | RemoveTaint() | Up() | AddCluster() | RemoveCluster():
                federation = replace(federation, clusters=change.applied(World(federation.clusters, ()), now).clusters)
    return federation


def _bound(
    raw: Mapping[str, Any],
    policies: Mapping[tuple[str, str, str], KubeAdmiralPolicy],
    profiles: Mapping[str, PluginNames | FieldError],
    replica_paths: Sequence[ReplicaPath],
) -> BoundWorkload:
    template, replicas = template_of(raw), replicas_of(raw, replica_paths)
    known = replica_path_of(raw, replica_paths)
    workload = UnitWorkload(
        api_version=template.api_version,
        kind=template.kind,
        name=template.name,
        namespace=template.namespace,
        replicas_path=known.replicas if known is not None else "",
        replicas=replicas.number if known is not None else None,
        requests=replicas.requirements.resource_request if replicas.requirements is not None else {},
    )
    annotations = (raw.get("metadata") or {}).get("annotations") or {}
    bound = BoundWorkload(workload, {str(key): str(value) for key, value in annotations.items()})
    reference = _policy_reference(template)
    if reference is None:
        return bound
    policy = policies.get(reference)
    if policy is None:
        return replace(bound, missing=f"{reference[0]} {reference[2]} does not exist")
    profile = policy.spec.scheduling_profile
    if profile and profile not in profiles:
        return replace(bound, policy=policy, missing=f"SchedulingProfile {profile} does not exist")
    return replace(bound, policy=policy, plugins=profiles.get(profile, DEFAULT_PLUGINS))


def _policy_reference(template: Template) -> tuple[str, str, str] | None:
    """Return kind, namespace and name of the policy that the labels name. A PropagationPolicy has precedence."""
    if template.namespace and (name := template.labels.get(POLICY_LABEL)):
        return "PropagationPolicy", template.namespace, name
    name = template.labels.get(CLUSTER_POLICY_LABEL)
    return ("ClusterPropagationPolicy", "", name) if name else None


def _plugins(profile: SchedulingProfile) -> PluginNames | FieldError:
    """Return the plugins of a profile, or why it is invalid. An invalid profile affects only policies that name it."""
    try:
        return plugin_names(profile)
    except FieldError as error:
        return FieldError(f"SchedulingProfile {profile.metadata.name}: {error.path}", error.problem)


class _Run:
    """One run over a federation, which does not change meanwhile."""

    def __init__(self, federation: Federation, now: datetime, *, diagnose: bool) -> None:
        self._forced = federation.forced
        self._fleet = Fleet(federation.clusters.values())
        self._hashes: Mapping[str, ClusterHashes] = hashes_of(federation.clusters.values())
        self._schedulers: dict[PluginNames, Scheduler] = {}
        self._now = now
        self._diagnose = diagnose

    def schedule(self, bound: BoundWorkload) -> FederatedResult:
        """Schedule a workload if KubeAdmiral would."""
        if bound.missing:
            return FederatedResult(bound, ObjectTrigger.NONE, notes=(bound.missing,))
        applied = with_migration_applied(bound.annotations, has_replicas=bound.workload.replicas is not None)
        bound = replace(bound, annotations=applied.annotations)
        snapshot = snapshot_of(bound.workload, bound.policy, bound.annotations, self._hashes)
        triggered = trigger_of(bound.snapshot, snapshot, bound.policy.spec if bound.policy is not None else None)
        if not triggered.schedules and not self._forced:
            return FederatedResult(bound, triggered.trigger, notes=triggered.deferred)
        if bound.policy is None:
            unassigned = replace(bound, workload=replace(bound.workload, current={}), snapshot=snapshot.text)
            return FederatedResult(unassigned, triggered.trigger, notes=(UNBOUND,))
        try:
            prepared = prepare(bound.workload, bound.policy.spec, bound.annotations, self._now)
        except FieldError as error:
            return FederatedResult(bound, triggered.trigger, decision=_failed(error))
        notes = tuple(str(note) for note in (*filter(None, (applied.problem,)), *prepared.notes))
        if prepared.suppressed:
            # The snapshot is updated, because removing the annotation alone does not trigger scheduling.
            seen = replace(bound, snapshot=snapshot.text)
            return FederatedResult(seen, ObjectTrigger.NONE, notes=("an annotation disables scheduling", *notes))
        if isinstance(bound.plugins, FieldError):
            return FederatedResult(bound, triggered.trigger, decision=_failed(bound.plugins), notes=notes)
        decision, diagnosis = self._decide(bound.plugins, prepared.unit)
        settled = bound
        if decision.failure is None or decision.clears_assignment:
            current = placed(prepared.unit, decision)
            settled = replace(bound, workload=replace(bound.workload, current=current), snapshot=snapshot.text)
        return FederatedResult(settled, triggered.trigger, prepared.unit, decision, diagnosis, notes)

    def _decide(self, plugins: PluginNames, unit: SchedulingUnit) -> tuple[Decision, GroupDiagnosis | None]:
        if plugins not in self._schedulers:
            self._schedulers[plugins] = Scheduler(self._fleet, kubeadmiral_profile(plugins))
        scheduler, request = self._schedulers[plugins], request_of(unit)
        decision = scheduler.schedule(request)
        explained = explain_groups(scheduler, request, decision) if self._diagnose else []
        return decision, next(iter(explained), None)


def _failed(error: FieldError) -> Decision:
    """Return the decision of a failed attempt, which keeps the assignment."""
    return Decision(None, {}, Failure(FailureKind.SELECT_FAILED, str(error)), Mode.STEADY)


def _scaled(federation: Federation, change: Scale) -> Federation:
    found = [each for each in federation.workloads if change.resource.matches(each.workload)]
    option = f"--scale {change.resource}={change.replicas}"
    if len(found) != 1:
        raise InputError(f"{option}: {len(found) or 'no'} resources have this name; name one as NAMESPACE/KIND/NAME")
    if not found[0].workload.replicas_path:
        raise InputError(f"{option}: a {found[0].workload.kind} has no replicas")
    scaled = replace(found[0], workload=replace(found[0].workload, replicas=change.replicas))
    return replace(federation, workloads=[scaled if each is found[0] else each for each in federation.workloads])
