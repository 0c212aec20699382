"""Scheduling the workloads of a KubeAdmiral federation, and what changes move.

KubeAdmiral schedules an object only if something that counts has changed since it did so last (``trigger``); a
simulation therefore keeps the snapshots that KubeAdmiral would keep.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from berthmaster.manifests import Manifests
from berthmaster.model.binding import ObjectReference
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.kubeadmiral import KubeAdmiralPolicy, SchedulingProfile
from berthmaster.model.replicas import ReplicaPath, replica_path_of, replicas_of, template_of
from berthmaster.scheduling.decision import Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.diagnosis import GroupDiagnosis, explain_groups
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.migration import with_migration_applied
from berthmaster.scheduling.kubeadmiral.preparation import Workload, prepare
from berthmaster.scheduling.kubeadmiral.profile import DEFAULT_PLUGINS, PluginNames, plugin_names, profile_of
from berthmaster.scheduling.kubeadmiral.request import placed, request_of
from berthmaster.scheduling.kubeadmiral.snapshot import ClusterMarks, marks_of, snapshot_of
from berthmaster.scheduling.kubeadmiral.trigger import Trigger, trigger_of
from berthmaster.scheduling.kubeadmiral.unit import SchedulingUnit
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.changes import AddLabel, AddTaint, Change, Down, Reschedule, Scale
from berthmaster.simulation.world import ResourceName, World

POLICY_LABEL: Final = "kubeadmiral.io/propagation-policy-name"
CLUSTER_POLICY_LABEL: Final = "kubeadmiral.io/cluster-propagation-policy-name"
UNBOUND: Final = f"no label {POLICY_LABEL} or {CLUSTER_POLICY_LABEL} binds it to a policy"


@dataclass(frozen=True, slots=True)
class FederatedWorkload:
    """A workload and the policy that its labels bind it to.

    Attributes:
        workload: the object, and where it is.
        annotations: its own, which may stand in for parts of the policy.
        policy: None if it is bound to none, or to one that is not there.
        missing: the policy or profile that is named but not there, in words: then nothing is touched.
        plugins: that take part; or why its profile cannot be built, which fails every attempt.
        snapshot: what its last scheduling depended on, as text.
    """

    workload: Workload
    annotations: Mapping[str, str] = field(default_factory=dict)
    policy: KubeAdmiralPolicy | None = None
    missing: str = ""
    plugins: PluginNames | FieldError = DEFAULT_PLUGINS
    snapshot: str | None = None

    @property
    def name(self) -> ResourceName:
        """How commands name it."""
        return ResourceName(self.workload.namespace, self.workload.kind, self.workload.name)


@dataclass(frozen=True, slots=True)
class Federation:
    """Clusters by name, and workloads. ``forced``: every workload is scheduled, whatever has changed."""

    clusters: Mapping[str, Cluster]
    workloads: Sequence[FederatedWorkload]
    forced: bool = False


@dataclass(frozen=True, slots=True)
class FederatedResult:
    """What became of a workload.

    Attributes:
        bound: the workload as it is afterwards.
        trigger: why it was scheduled.
        unit: what was scheduled; None if nothing was.
        decision: None if it was not scheduled.
        diagnosis: the decision explained; None without one, or where no cluster was looked at.
        notes: what is worth knowing: annotations that were passed over, changes that do not count.
    """

    bound: FederatedWorkload
    trigger: Trigger
    unit: SchedulingUnit | None = None
    decision: Decision | None = None
    diagnosis: GroupDiagnosis | None = None
    notes: tuple[str, ...] = ()


def federation_of(manifests: Manifests, replica_paths: Sequence[ReplicaPath] = ()) -> Federation:
    """The federation that manifests describe.

    Raises:
        ManifestError: something in a resource that decides has a wrong value.
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
        federation: its workloads say where they are now.
        now: decides which clusters custom migration keeps clear.
        diagnose: explain every decision.
    """
    run = _Run(federation, now, diagnose=diagnose)
    outcomes = [run.settle(bound) for bound in federation.workloads]
    return replace(federation, workloads=[each.bound for each in outcomes], forced=False), outcomes


def apply_to_federation(changes: Iterable[Change], federation: Federation, now: datetime) -> Federation:
    """The federation after all changes, each as KubeAdmiral would feel it.

    A lost cluster is no longer Ready, and no more: KubeAdmiral leaves where they are the workloads that it has.

    Raises:
        InputError: a change names something that is not there.
    """
    for change in changes:
        match change:
            case Scale():
                federation = _scaled(federation, change)
            case Reschedule():
                federation = replace(federation, forced=True)
            case Down():
                federation = _with_clusters(federation, change.not_ready(World(federation.clusters, ())))
            case AddLabel() | AddTaint():
                federation = _with_clusters(federation, change.applied(World(federation.clusters, ()), now))
    return federation


def _bound(
    raw: Mapping[str, Any],
    policies: Mapping[tuple[str, str, str], KubeAdmiralPolicy],
    profiles: Mapping[str, PluginNames | FieldError],
    replica_paths: Sequence[ReplicaPath],
) -> FederatedWorkload:
    template, replicas = template_of(raw), replicas_of(raw, replica_paths)
    known = replica_path_of(raw, replica_paths)
    workload = Workload(
        api_version=template.api_version,
        kind=template.kind,
        name=template.name,
        namespace=template.namespace,
        replicas_path=known.replicas if known is not None else "",
        replicas=replicas.number if known is not None else None,
        requests=replicas.requirements.resource_request if replicas.requirements is not None else {},
    )
    annotations = {
        str(key): str(value) for key, value in ((raw.get("metadata") or {}).get("annotations") or {}).items()
    }
    label = template.labels.get(POLICY_LABEL) if template.namespace else None
    named = ("PropagationPolicy", template.namespace, label) if label else None
    if named is None and (label := template.labels.get(CLUSTER_POLICY_LABEL)):
        named = ("ClusterPropagationPolicy", "", label)
    if named is None:
        return FederatedWorkload(workload, annotations)
    policy = policies.get(named)
    if policy is None:
        return FederatedWorkload(workload, annotations, missing=f"{named[0]} {named[2]} is not there")
    profile = policy.spec.scheduling_profile
    if profile and profile not in profiles:
        return FederatedWorkload(workload, annotations, policy, missing=f"SchedulingProfile {profile} is not there")
    return FederatedWorkload(workload, annotations, policy, plugins=profiles.get(profile, DEFAULT_PLUGINS))


def _plugins(profile: SchedulingProfile) -> PluginNames | FieldError:
    """The plugins of a profile, or why it cannot be built. That concerns those alone whose policy names it."""
    try:
        return plugin_names(profile)
    except FieldError as error:
        return FieldError(f"SchedulingProfile {profile.metadata.name}: {error.path}", error.problem)


class _Run:
    """One round over a federation that stays as it is."""

    def __init__(self, federation: Federation, now: datetime, *, diagnose: bool) -> None:
        self._forced = federation.forced
        self._fleet = Fleet(federation.clusters.values())
        self._marks: Mapping[str, ClusterMarks] = marks_of(federation.clusters.values())
        self._schedulers: dict[PluginNames, Scheduler] = {}
        self._now = now
        self._diagnose = diagnose

    def settle(self, bound: FederatedWorkload) -> FederatedResult:
        """Schedule a workload if it needs it."""
        if bound.missing:
            return FederatedResult(bound, Trigger.NONE, notes=(bound.missing,))
        applied = with_migration_applied(bound.annotations, has_replicas=bound.workload.replicas is not None)
        bound = replace(bound, annotations=applied.annotations)
        snapshot = snapshot_of(bound.workload, bound.policy, bound.annotations, self._marks)
        verdict = trigger_of(bound.snapshot, snapshot, bound.policy.spec if bound.policy is not None else None)
        if not verdict.schedules and not self._forced:
            return FederatedResult(bound, verdict.trigger, notes=verdict.deferred)
        if bound.policy is None:
            nowhere = replace(bound, workload=replace(bound.workload, current={}), snapshot=snapshot.text)
            return FederatedResult(nowhere, verdict.trigger, notes=(UNBOUND,))
        try:
            prepared = prepare(bound.workload, bound.policy.spec, bound.annotations, self._now)
        except FieldError as error:
            return FederatedResult(bound, verdict.trigger, decision=_failed(error))
        notes = tuple(str(note) for note in (*filter(None, (applied.problem,)), *prepared.notes))
        if prepared.suppressed:
            # What has changed counts as seen: lifting the ban alone schedules nothing.
            seen = replace(bound, snapshot=snapshot.text)
            return FederatedResult(seen, Trigger.NONE, notes=("an annotation says not to schedule it", *notes))
        if isinstance(bound.plugins, FieldError):
            return FederatedResult(bound, verdict.trigger, decision=_failed(bound.plugins), notes=notes)
        decision, diagnosis = self._decide(bound.plugins, prepared.unit)
        settled = bound
        if decision.failure is None or decision.clears_assignment:
            current = placed(prepared.unit, decision)
            settled = replace(bound, workload=replace(bound.workload, current=current), snapshot=snapshot.text)
        return FederatedResult(settled, verdict.trigger, prepared.unit, decision, diagnosis, notes)

    def _decide(self, plugins: PluginNames, unit: SchedulingUnit) -> tuple[Decision, GroupDiagnosis | None]:
        if plugins not in self._schedulers:
            self._schedulers[plugins] = Scheduler(self._fleet, profile_of(plugins))
        scheduler, request = self._schedulers[plugins], request_of(unit)
        decision = scheduler.schedule(request)
        explained = explain_groups(scheduler, request, decision) if self._diagnose else []
        return decision, next(iter(explained), None)


def _failed(error: FieldError) -> Decision:
    """An attempt that came to nothing: what was decided before stays."""
    return Decision(None, {}, Failure(FailureKind.SELECT_FAILED, str(error)), Mode.STEADY)


def _scaled(federation: Federation, change: Scale) -> Federation:
    found = [each for each in federation.workloads if _names(change.resource, each)]
    asked = f"--scale {change.resource}={change.replicas}"
    if len(found) != 1:
        raise InputError(f"{asked}: {len(found) or 'no'} resources have this name; name one as NAMESPACE/KIND/NAME")
    if not found[0].workload.replicas_path:
        raise InputError(f"{asked}: a {found[0].workload.kind} has no replicas")
    scaled = replace(found[0], workload=replace(found[0].workload, replicas=change.replicas))
    return replace(federation, workloads=[scaled if each is found[0] else each for each in federation.workloads])


def _names(name: ResourceName, bound: FederatedWorkload) -> bool:
    workload = bound.workload
    return name.names(ObjectReference(workload.api_version, workload.kind, workload.name, workload.namespace))


def _with_clusters(federation: Federation, world: World) -> Federation:
    return replace(federation, clusters=world.clusters)
