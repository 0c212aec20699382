"""Where a workload is placed, and why, as rows that the commands print and the service returns."""

from collections.abc import Sequence

import msgspec

from berthmaster.deciding.running import awaited_deletions
from berthmaster.model.binding import Binding
from berthmaster.model.errors import name_list
from berthmaster.scheduling.decision import FailureKind, Mode
from berthmaster.scheduling.diagnosis import Diagnosis, GroupFailure
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.losses import overridden_copies
from berthmaster.simulation.move_notes import move_note
from berthmaster.simulation.plan_answer import Assumptions, Loss
from berthmaster.simulation.results import WorkloadResult
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload

NO_GROUPS = "clusterAffinities is an empty list: Karmada reports success and places nothing"
_GROUPS_LISTED = 4


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """The result for one workload.

    Attributes:
        replicas: the desired replicas; None if no policy claims the workload.
        present: the replicas by cluster that its binding has now; None if the binding is new or not known.
    """

    resource: str
    policy: str | None
    replicas: int | None
    group: str | None
    clusters: dict[str, int]
    trigger: Trigger
    error: FailureKind | None
    message: str | None
    present: dict[str, int] | None = None
    scheduler: str | None = None
    not_scheduled: NotScheduled | None = None
    follows: list[str] = []
    evicting: list[str] = []
    notes: list[str] = []


class ClaimRow(msgspec.Struct, frozen=True, rename="camel"):
    """A policy that matches a workload.

    ``matched_by``: how the policy selects the workload: ``kind``, ``labels`` or ``name``.
    """

    policy: str
    priority: int
    matched_by: str
    holds: bool = False
    why_not: str = ""


class Explanation(Row, frozen=True, kw_only=True, rename="camel"):
    """The explanation of the decision for one workload.

    Attributes:
        mode: how the decision treats replicas that were assigned before; None if scheduling did not run.
        diagnosis: the findings for each group and cluster; None if scheduling did not run. Without a trigger they
            say what the scheduler would find if it looked now, and nothing moves.
    """

    claims: list[ClaimRow]
    replicated: bool
    mode: Mode | None
    diagnosis: Diagnosis | None
    followed_by: list[str] = []
    missing: list[str] = []
    assumptions: Assumptions | None = None
    loss: Loss | None = None


def row(result: WorkloadResult, now: WorkloadResult | None = None) -> Row:
    """Return the row of a result. ``now`` is what the binding says now; None if that is not known."""
    workload, binding, failure = result.workload, result.workload.binding, result.failure
    return Row(
        resource=str(workload),
        policy=str(workload.held_by) if workload.held_by is not None else None,
        replicas=binding.spec.replicas if binding is not None and binding.spec.placement is not None else None,
        group=result.group or None,
        clusters=result.assignment,
        trigger=result.trigger,
        error=failure.kind if failure is not None else None,
        message=_message(result) or None,
        present=now.assignment if now is not None and now.workload.present else None,
        scheduler=_scheduler(result),
        not_scheduled=result.unscheduled.reason if result.unscheduled is not None else None,
        follows=list(result.companions.follows),
        evicting=_evicting(result),
        notes=notes_on(result),
    )


def explanation(result: WorkloadResult, now: WorkloadResult | None = None) -> Explanation:
    """Return the explanation of a result. The result must have a diagnosis if the workload was scheduled."""
    workload, decision = result.workload, result.decision
    found = row(result, now)
    is_lazy = workload.claim is not None and workload.claim.policy.lazy and workload.deferred is None
    lazy = ["its policy is Lazy: a change of the policy counts when the template changes"] if is_lazy else []
    return Explanation(
        **{**msgspec.structs.asdict(found), "notes": [*found.notes, *lazy]},
        claims=claim_rows(workload),
        replicated=workload.binding is not None and workload.binding.spec.is_workload,
        mode=decision.mode if decision is not None else None,
        diagnosis=result.diagnosis,
        followed_by=list(result.companions.followed_by),
        missing=list(result.companions.missing),
    )


def claim_rows(workload: SimulatedWorkload) -> list[ClaimRow]:
    """Return the policies that match a workload, starting with the one that holds it."""
    reasons = workload.why_not or ("",) * len(workload.claims)
    return [
        ClaimRow(
            str(each.policy), each.policy.explicit_priority, each.level.name.lower(), each is workload.claim, reason
        )
        for each, reason in zip(workload.claims, reasons, strict=True)
    ]


def _message(result: WorkloadResult) -> str:
    if result.unscheduled is not None:
        return result.unscheduled.message
    failure = result.failure
    if failure is None:
        return _nothing_placed(result)
    groups = result.failures
    if len(groups) < 2:
        return f"{failure.kind.value}: {failure.message}{_rejected_by(groups[0]) if groups else ''}"
    return f"no group can place it: {failures_by_group(groups)}"


def _scheduler(result: WorkloadResult) -> str | None:
    binding = result.workload.binding
    return binding.scheduler if binding is not None and binding.spec.placement is not None else None


def _evicting(result: WorkloadResult) -> list[str]:
    binding = result.workload.binding
    return [task.from_cluster for task in binding.spec.graceful_eviction_tasks] if binding is not None else []


def notes_on(result: WorkloadResult, *, names_evictions: bool = True) -> list[str]:
    """Return what else a reader of a result must know, one sentence each."""
    notes, binding = list(result.workload.notes), result.workload.binding
    if binding is None:
        return notes
    waits = result.workload.waits
    if waits is not None and waits != result.unscheduled:
        notes.append(f"{waits.message}; changes of policy and template wait, too")
    elif result.workload.deferred is not None:
        claim = result.workload.claim
        lazy = claim is not None and claim.policy.lazy
        why = "its policy is Lazy" if lazy else "its binding records another policy"
        notes.append(f"{why}: changes of the policy count when the template changes")
    suspension = binding.spec.suspension
    if suspension is not None and suspension.dispatching:
        notes.append("dispatching is suspended: clusters do not get changes")
    elif suspension is not None and suspension.dispatching_on_clusters is not None:
        names = ", ".join(suspension.dispatching_on_clusters.cluster_names)
        notes += [f"dispatching to {names} is suspended: no changes arrive there"] if names else []
    if names_evictions:
        notes += _eviction_notes(binding)
    if note := move_note(binding):
        notes.append(note)
    for field in result.companions.disputed:
        notes.append(f"the workloads that need it differ in {field.value}: {field.counting} counts for it")
    if changed := overridden_copies(result):
        notes.append(f"overrides set its replicas: {name_list([f'{name}={count}' for name, count in changed.items()])}")
    if result.workload.components_are_old:
        notes.append("its components are those of its binding: what the new template asks for is not known")
    if result.workload.dependencies is None:
        notes.append(f"the dependencies of {result.workload.resource.kind} are not known")
    return notes


def _eviction_notes(binding: Binding) -> list[str]:
    kept = sorted(binding.evicted_from - binding.purged_from)
    notes = [f"being evicted from {name_list(kept)}"] if kept else []
    if names := name_list(awaited_deletions(binding)):
        notes.append(
            f"being evicted from {names} with purgeMode Directly: "
            f"no new copy starts before the one on {names} is deleted"
        )
    return notes


def _nothing_placed(result: WorkloadResult) -> str:
    """Return why a decision that did not fail places nothing; empty if it places something."""
    if result.assignment or result.decision is None:
        return ""
    return "the workload requests no replicas" if result.decision.attempts else NO_GROUPS


def failures_by_group(groups: Sequence[GroupFailure]) -> str:
    """Format why each group failed: the first ones, and how many more there are."""
    listed = [
        f"{group.group}: {group.failure.kind.value}: {group.failure.message}{_rejected_by(group)}"
        for group in groups[:_GROUPS_LISTED]
    ]
    more = len(groups) - _GROUPS_LISTED
    return "; ".join([*listed, f"and {more} more groups"] if more > 0 else listed)


def _rejected_by(group: GroupFailure) -> str:
    """Format how many clusters of a group each filter rejected, the largest number first."""
    counts = [f"{plugin} {count}" for plugin, count in group.rejected]
    return f" ({', '.join(counts)})" if counts else ""
