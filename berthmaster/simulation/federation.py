"""Simulation of a KubeAdmiral federation: schedule its workloads before and after changes.

KubeAdmiral schedules an object only if a relevant input changed since the last scheduling (``trigger``). A simulation
therefore keeps the snapshots of these inputs that KubeAdmiral would keep.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from berthmaster.model.errors import FieldError, InputError
from berthmaster.scheduling.decision import Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.diagnosis import GroupDiagnosis, explain_groups
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.preparation import prepare, with_migration_applied
from berthmaster.scheduling.kubeadmiral.profile import PluginNames, kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.trigger import (
    ClusterHashes,
    ObjectTrigger,
    hashes_of,
    snapshot_of,
    trigger_of,
)
from berthmaster.scheduling.kubeadmiral.unit import SchedulingUnit, placed, request_of
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.changes import (
    AddCluster,
    AddLabel,
    AddTaint,
    Down,
    RemoveCluster,
    RemoveLabel,
    RemoveTaint,
    Reschedule,
    Scale,
    Up,
)
from berthmaster.simulation.federation_present import CLUSTER_POLICY_LABEL, POLICY_LABEL, BoundWorkload, Federation
from berthmaster.simulation.world import Change, World

LIMITS_IGNORED: Final = (
    "KubeAdmiral's scheduler ignores minReplicas and maxReplicas in mode Duplicate, although its manual promises them; "
    "--duplicate-limits, or duplicateLimits in a request, applies them"
)
UNBOUND: Final = f"no label {POLICY_LABEL} or {CLUSTER_POLICY_LABEL} binds it to a policy"


@dataclass(frozen=True, slots=True)
class FederatedResult:
    """The result for a workload.

    Attributes:
        unplaced: the replicas that the policy divides and no cluster has.
    """

    bound: BoundWorkload
    trigger: ObjectTrigger
    unit: SchedulingUnit | None = None
    decision: Decision | None = None
    diagnosis: GroupDiagnosis | None = None
    notes: tuple[str, ...] = ()
    unplaced: int = 0


def run_federation(
    federation: Federation, now: datetime, *, diagnose: bool = False, check: Callable[[], None] = lambda: None
) -> tuple[Federation, list[FederatedResult]]:
    """Schedule every workload that needs it.

    Returns:
        The federation after the run, and a result for each workload in order.
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
            case Scale():
                federation = _scaled(federation, change)
            case Reschedule():
                federation = replace(federation, forced=True)
            case Down():
                federation = replace(federation, clusters=change.not_ready(World(federation.clusters, ())).clusters)
            case RemoveCluster():
                known = change.applied(World(federation.clusters, ()), now).clusters
                left = {name: each for name, each in known.items() if name != change.cluster}
                federation = replace(federation, clusters=left)
            case AddLabel() | AddTaint() | RemoveLabel() | RemoveTaint() | Up() | AddCluster():
                federation = replace(federation, clusters=change.applied(World(federation.clusters, ()), now).clusters)
    return federation


class _Run:
    """One run over a federation, which does not change meanwhile."""

    def __init__(self, federation: Federation, now: datetime, *, diagnose: bool) -> None:
        self._forced = federation.forced
        self._duplicate_limits = federation.duplicate_limits
        self._webhooks = federation.webhooks
        self._fleet = Fleet(federation.clusters.values())
        self._hashes: Mapping[str, ClusterHashes] = hashes_of(federation.clusters.values())
        self._schedulers: dict[PluginNames, Scheduler] = {}
        self._now = now
        self._diagnose = diagnose

    def schedule(self, bound: BoundWorkload) -> FederatedResult:
        """Schedule a workload if KubeAdmiral would."""
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
        return FederatedResult(settled, triggered.trigger, prepared.unit, decision, diagnosis, notes)

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


def _scaled(federation: Federation, change: Scale) -> Federation:
    found = [each for each in federation.workloads if change.resource.matches(each.workload)]
    option = f"--scale {change.resource}={change.replicas}"
    if len(found) != 1:
        raise InputError(f"{option}: {len(found) or 'no'} resources have this name; name one as NAMESPACE/KIND/NAME")
    if not found[0].workload.replicas_path:
        raise InputError(f"{option}: a {found[0].workload.kind} has no replicas")
    scaled = replace(found[0], workload=replace(found[0].workload, replicas=change.replicas))
    return replace(federation, workloads=[scaled if each is found[0] else each for each in federation.workloads])
