"""Simulation of a KubeAdmiral federation: schedule its workloads before and after changes.

KubeAdmiral schedules an object only if a relevant input changed since the last scheduling (``trigger``). A simulation
therefore keeps the snapshots of these inputs that KubeAdmiral would keep.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.manifests import Manifests
from berthmaster.manifests.kubeadmiral import FederatedDocument
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.kubeadmiral.objects import SCHEDULING_TRIGGERS
from berthmaster.model.kubeadmiral.policies import KubeAdmiralPolicy
from berthmaster.model.kubeadmiral.profiles import SchedulingProfile
from berthmaster.model.replicas import ReplicaPath, replica_path_of, replicas_of, template_of
from berthmaster.scheduling.decision import Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.diagnosis import GroupDiagnosis, explain_groups
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral import trigger as triggers
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload, prepare, with_migration_applied
from berthmaster.scheduling.kubeadmiral.profile import DEFAULT_PLUGINS, PluginNames, kubeadmiral_profile, plugin_names
from berthmaster.scheduling.kubeadmiral.trigger import ObjectTrigger
from berthmaster.scheduling.kubeadmiral.unit import SchedulingUnit, placed, request_of
from berthmaster.scheduling.kubeadmiral.webhook_plugins import NO_WEBHOOKS, Webhooks
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation import changes as edits
from berthmaster.simulation.change_set import key_of
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change, World

POLICY_LABEL: Final = "kubeadmiral.io/propagation-policy-name"
CLUSTER_POLICY_LABEL: Final = "kubeadmiral.io/cluster-propagation-policy-name"
LIMITS_IGNORED: Final = (
    "KubeAdmiral's scheduler ignores minReplicas and maxReplicas in mode Duplicate, although its manual promises them; "
    "--duplicate-limits, or duplicateLimits in a request, applies them"
)
UNBOUND: Final = f"no label {POLICY_LABEL} or {CLUSTER_POLICY_LABEL} binds it to a policy"


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
    propagated = {key_of(each.workload) for each in bound}
    for document in manifests.templates:
        try:
            source = binder.bound(document.raw)
        except FieldError as error:
            manifests.leave_out(document, document.error(error))
            continue
        if key_of(source.workload) not in propagated:
            bound.append(source)
    clusters = {cluster.name: cluster for cluster in given.clusters}
    return Federation(clusters, bound, webhooks=webhooks, duplicate_limits=duplicate_limits)


class _Binder:
    """Binds objects to the policies and profiles of manifests."""

    def __init__(self, manifests: Manifests, replica_paths: Sequence[ReplicaPath], webhooks: Webhooks) -> None:
        given = manifests.federation
        self._policies = {(each.kind, each.metadata.namespace, each.metadata.name): each for each in given.policies}
        self._profiles = {each.metadata.name: _plugins(each, webhooks) for each in given.profiles}
        self._replica_paths = replica_paths
        self._hashes = triggers.hashes_of(given.clusters)

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
        inputs = triggers.snapshot_of(bound.workload, bound.policy, bound.annotations, self._hashes)
        return replace(bound, snapshot=triggers.adopted(stored, inputs))

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


@dataclass(frozen=True, slots=True)
class FederatedResult:
    """The result for a workload.

    Attributes:
        unplaced: the replicas that the policy divides and no cluster has.
        overrides: the annotations that override the policy.
    """

    bound: BoundWorkload
    trigger: ObjectTrigger
    unit: SchedulingUnit | None = None
    decision: Decision | None = None
    diagnosis: GroupDiagnosis | None = None
    notes: tuple[str, ...] = ()
    unplaced: int = 0
    overrides: tuple[str, ...] = ()


def run_federation(
    federation: Federation, now: datetime, *, diagnose: bool = False, check: Callable[[], None] = lambda: None
) -> tuple[Federation, list[FederatedResult]]:
    """Schedule every workload that needs it.

    Returns the federation after the run, and a result for each workload in order.
    """
    run = _Run(federation, now, diagnose=diagnose)
    results = []
    for bound in federation.workloads:
        check()
        results.append(run.schedule(bound))
    return replace(federation, workloads=[each.bound for each in results], forced=False), results


class FederatedComparison(NamedTuple):
    """The results before and after changes, in the order of the workloads.

    Attributes:
        before: where FederatedObjects say that workloads are. Without any, the first scheduling of the manifests.
        settled: after the scheduling that is due without the changes.
    """

    before: list[FederatedResult]
    settled: list[FederatedResult]
    after: list[FederatedResult]


def compare_federation(federation: Federation, changes: Iterable[Change], now: datetime) -> FederatedComparison:
    """Schedule a federation before and after changes."""
    settled_federation, settled = run_federation(federation, now)
    later = now + timedelta(seconds=1)
    _, after = run_federation(apply_to_federation(changes, settled_federation, later), later)
    if not any(bound.present for bound in federation.workloads):
        return FederatedComparison(settled, settled, after)
    run = _Run(federation, now, diagnose=False)
    return FederatedComparison([run.present(bound) for bound in federation.workloads], settled, after)


def apply_to_federation(changes: Iterable[Change], federation: Federation, now: datetime) -> Federation:
    """Return the federation after all changes. Each change has the effect that it has in KubeAdmiral.

    A failed cluster is only marked as not ready, because KubeAdmiral does not evict its workloads. A cluster that
    leaves is gone at once.
    """
    for change in changes:
        match change:
            case edits.Scale():
                federation = _scaled(federation, change)
            case edits.Reschedule():
                federation = replace(federation, forced=True)
            case edits.Down():
                clusters = edits.with_cluster(World(federation.clusters, ()), change.cluster, change.changed).clusters
                federation = replace(federation, clusters=clusters)
            case edits.RemoveCluster():
                known = change.applied(World(federation.clusters, ()), now).clusters
                left = {name: each for name, each in known.items() if name != change.cluster}
                federation = replace(federation, clusters=left)
            case edits.ClusterEdit() | edits.AddCluster():
                federation = replace(federation, clusters=change.applied(World(federation.clusters, ()), now).clusters)
            case _:
                raise InputError(f"{type(change).__name__} is not simulated for KubeAdmiral")
    return federation


class _Run:
    """One run over a federation, which does not change meanwhile."""

    def __init__(self, federation: Federation, now: datetime, *, diagnose: bool) -> None:
        self._forced = federation.forced
        self._duplicate_limits = federation.duplicate_limits
        self._webhooks = federation.webhooks
        self._fleet = Fleet(federation.clusters.values())
        self._hashes: Mapping[str, triggers.ClusterHashes] = triggers.hashes_of(federation.clusters.values())
        self._schedulers: dict[PluginNames, Scheduler] = {}
        self._now = now
        self._diagnose = diagnose

    def schedule(self, bound: BoundWorkload) -> FederatedResult:
        result = self._schedule(bound)
        notes = result.notes
        if bound.others:
            notes = (*notes, f"other controllers place it on {', '.join(bound.others)} as well")
        return replace(result, notes=notes, unplaced=self._unplaced(result.bound))

    def present(self, bound: BoundWorkload) -> FederatedResult:
        """Return where a workload is now, without a decision."""
        return FederatedResult(bound, ObjectTrigger.NONE, unplaced=self._unplaced(bound))

    def _unplaced(self, bound: BoundWorkload) -> int:
        if bound.policy is None or bound.missing:
            return 0
        try:
            unit = prepare(bound.workload, bound.policy.spec, bound.annotations, self._now).unit
        except FieldError:  # the run reports it, if it schedules the workload
            return 0
        if not unit.divide:
            return 0
        placed_replicas = sum(unit.replicas if each is None else each for each in bound.workload.current.values())
        return max(0, unit.replicas - placed_replicas)

    def _schedule(self, bound: BoundWorkload) -> FederatedResult:
        if bound.missing:
            return FederatedResult(bound, ObjectTrigger.NONE, notes=(bound.missing,))
        applied = with_migration_applied(bound.annotations, has_replicas=bound.workload.replicas is not None)
        bound = replace(bound, annotations=applied.annotations)
        snapshot = triggers.snapshot_of(bound.workload, bound.policy, bound.annotations, self._hashes)
        triggered = triggers.trigger_of(
            bound.snapshot, snapshot, bound.policy.spec if bound.policy is not None else None
        )
        if triggered.trigger is ObjectTrigger.NONE and not self._forced:
            return FederatedResult(bound, triggered.trigger, notes=triggered.deferred)
        if bound.policy is None:
            unassigned = replace(bound, workload=replace(bound.workload, current={}), snapshot=snapshot.text)
            return FederatedResult(unassigned, triggered.trigger, notes=(UNBOUND,))
        try:
            prepared = prepare(bound.workload, bound.policy.spec, bound.annotations, self._now)
        except FieldError as error:
            return FederatedResult(bound, triggered.trigger, decision=_failed(error))
        prepared = replace(prepared, unit=replace(prepared.unit, annotations=bound.annotations))
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
            notes = (*notes, *self._remarks(bound.plugins, prepared.unit, current))
            if not prepared.unit.divide and bound.workload.replicas is not None:
                limited = _limited(current, prepared.unit, bound.workload.replicas)
                if self._duplicate_limits:
                    current = limited
                elif limited != current:
                    notes = (*notes, LIMITS_IGNORED)
            settled = replace(bound, workload=replace(bound.workload, current=current), snapshot=snapshot.text)
        return FederatedResult(
            settled, triggered.trigger, prepared.unit, decision, diagnosis, notes, overrides=tuple(prepared.overrides)
        )

    def _remarks(self, plugins: PluginNames, unit: SchedulingUnit, current: Iterable[str]) -> Iterator[str]:
        """Yield what the webhooks among the plugins say about the clusters of a decision."""
        selected = [cluster for name in current if (cluster := self._fleet.get(name)) is not None]
        for name in plugins.selectors:
            if name in self._webhooks and (remark := self._webhooks[name].remark(unit, selected)):
                yield remark

    def _decide(self, plugins: PluginNames, unit: SchedulingUnit) -> tuple[Decision, GroupDiagnosis | None]:
        if plugins not in self._schedulers:
            self._schedulers[plugins] = Scheduler(self._fleet, kubeadmiral_profile(plugins, webhooks=self._webhooks))
        scheduler, request = self._schedulers[plugins], request_of(unit)
        decision = scheduler.schedule(request)
        explained = explain_groups(scheduler, request, decision) if self._diagnose else []
        return decision, next(iter(explained), None)


def _limited(current: Mapping[str, int | None], unit: SchedulingUnit, replicas: int) -> dict[str, int | None]:
    """Return the assignment of mode Duplicate within the limits of each cluster; None for the template's number."""
    limited: dict[str, int | None] = {}
    for name in current:
        preference = unit.preference(name)
        number = max(replicas, preference.minimum)
        number = number if preference.maximum is None else min(number, preference.maximum)
        limited[name] = None if number == replicas else number
    return limited


def _failed(error: FieldError) -> Decision:
    return Decision(None, {}, Failure(FailureKind.SELECT_FAILED, str(error)), Mode.STEADY)


def _scaled(federation: Federation, change: edits.Scale) -> Federation:
    found = [each for each in federation.workloads if change.resource.matches(each.workload)]
    option = f"--scale {change.resource}={change.replicas}"
    if len(found) != 1:
        raise InputError(f"{option}: {len(found) or 'no'} resources have this name; name one as NAMESPACE/KIND/NAME")
    if not found[0].workload.replicas_path:
        raise InputError(f"{option}: a {found[0].workload.kind} has no replicas")
    scaled = replace(found[0], workload=replace(found[0].workload, replicas=change.replicas))
    return replace(federation, workloads=[scaled if each is found[0] else each for each in federation.workloads])


class FederationRow(msgspec.Struct, frozen=True, rename="camel"):
    """The result for one workload of a KubeAdmiral federation.

    Attributes:
        replicas: the number in the template; None for a kind without replicas.
        clusters: replicas by cluster; None where the number of the template applies.
    """

    resource: str
    policy: str | None
    replicas: int | None
    unplaced: int
    clusters: dict[str, int | None]
    trigger: str
    error: str | None
    message: str | None


class FederationChange(msgspec.Struct, frozen=True, rename="camel"):
    """The results for one workload before and after the changes, and the clusters that differ."""

    resource: str
    before: FederationRow
    after: FederationRow
    moves: dict[str, tuple[int | None, int | None]]


def federation_row(result: FederatedResult) -> FederationRow:
    """Return the row of a result."""
    bound, decision = result.bound, result.decision
    failure = decision.failure if decision is not None else None
    policy = bound.policy
    messages = [failure.message] if failure is not None else []
    if result.unplaced:
        messages.append(f"{result.unplaced} of {bound.workload.replicas} replicas have no cluster")
    return FederationRow(
        resource=str(bound.name),
        policy=f"{policy.kind} {policy.metadata.name}" if policy is not None else None,
        replicas=bound.workload.replicas,
        unplaced=result.unplaced,
        clusters=dict(bound.workload.current),
        trigger=result.trigger.value,
        error=failure.kind.value if failure is not None else None,
        message="; ".join([*messages, *result.notes]) or None,
    )


def federation_change(before: FederatedResult, after: FederatedResult) -> FederationChange:
    """Return the row of a workload before and after changes."""
    old, new = before.bound.workload.current, after.bound.workload.current
    moves = {
        name: (old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if (name in old, old.get(name)) != (name in new, new.get(name))
    }
    return FederationChange(str(after.bound.name), federation_row(before), federation_row(after), moves)
