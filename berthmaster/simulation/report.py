"""The results of a simulation as rows, which the commands print and the service returns."""

from collections.abc import Sequence

import msgspec

from berthmaster.scheduling.decision import Failure, FailureKind, Mode
from berthmaster.scheduling.diagnosis import Diagnosis, GroupDiagnosis
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.run import WorkloadResult, moves

UNCLAIMED = "no policy selects it"
NO_GROUPS = "clusterAffinities is an empty list: Karmada reports success and places nothing"
_GROUPS_LISTED = 4


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """The result for one workload.

    Attributes:
        resource: ``NAMESPACE/KIND/NAME``.
        policy: the policy that claims it; None if there is none or only the binding is known.
        replicas: the desired replicas; None if no policy claims the workload.
        group: the affinity group of the assignment; None without one.
        clusters: the replicas by cluster; 0 for a workload without replicas.
        trigger: why the workload was scheduled.
        error: the stage that failed; None if scheduling succeeded or did not run.
        message: the failure or another remark; None if there is none.
    """

    resource: str
    policy: str | None
    replicas: int | None
    group: str | None
    clusters: dict[str, int]
    trigger: Trigger
    error: FailureKind | None
    message: str | None


class ChangeRow(msgspec.Struct, frozen=True, rename="camel"):
    """The results for one workload before and after the changes.

    Attributes:
        resource: ``NAMESPACE/KIND/NAME``.
        before, after: the two results.
        moves: the replicas before and after for each cluster that changes; None for a cluster without the workload.
    """

    resource: str
    before: Row
    after: Row
    moves: dict[str, tuple[int | None, int | None]]


class ClaimRow(msgspec.Struct, frozen=True, rename="camel"):
    """A policy that matches a workload.

    Attributes:
        policy: kind, namespace and name.
        priority: the explicit priority.
        matched_by: how the policy selects the workload: ``kind``, ``labels`` or ``name``.
    """

    policy: str
    priority: int
    matched_by: str


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of the decision for one workload.

    Attributes:
        resource, policy, replicas, group, clusters, trigger, error, message: as in ``Row``.
        claims: the policies that match the workload, starting with the one that claims it.
        replicated: whether the workload has replicas.
        mode: how the decision treats replicas that were assigned before; None if scheduling did not run.
        diagnosis: the findings for each group and cluster; None if scheduling did not run.
    """

    resource: str
    policy: str | None
    claims: list[ClaimRow]
    replicas: int | None
    replicated: bool
    trigger: Trigger
    mode: Mode | None
    group: str | None
    clusters: dict[str, int]
    error: FailureKind | None
    message: str | None
    diagnosis: Diagnosis | None


def row(result: WorkloadResult) -> Row:
    """Return the row of a result."""
    claim, binding, failure = result.workload.claim, result.workload.binding, _failure(result)
    return Row(
        resource=str(result.workload),
        policy=str(claim.policy) if claim is not None else None,
        replicas=binding.spec.replicas if binding is not None else None,
        group=result.group or None,
        clusters=result.assignment,
        trigger=result.trigger,
        error=failure.kind if failure is not None else None,
        message=_note(result) or None,
    )


def change_row(before: WorkloadResult, after: WorkloadResult) -> ChangeRow:
    """Return the row of the results before and after the changes."""
    return ChangeRow(str(after.workload), row(before), row(after), moves(before, after))


def explanation(result: WorkloadResult) -> Explanation:
    """Return the explanation of a result. The result must have a diagnosis if the workload was scheduled."""
    workload, decision, failure = result.workload, result.decision, _failure(result)
    return Explanation(
        resource=str(workload),
        policy=str(workload.claim.policy) if workload.claim is not None else None,
        claims=[
            ClaimRow(str(each.policy), each.policy.explicit_priority, each.level.name.lower())
            for each in workload.claims
        ],
        replicas=workload.binding.spec.replicas if workload.binding is not None else None,
        replicated=workload.binding is not None and workload.binding.spec.is_workload,
        trigger=result.trigger,
        mode=decision.mode if decision is not None else None,
        group=result.group or None,
        clusters=result.assignment,
        error=failure.kind if failure is not None else None,
        message=_note(result) or None,
        diagnosis=result.diagnosis,
    )


def _failure(result: WorkloadResult) -> Failure | None:
    return result.decision.failure if result.decision is not None else None


def _note(result: WorkloadResult) -> str:
    if result.workload.binding is None:
        return UNCLAIMED
    failure = _failure(result)
    if failure is None:
        return _nothing_placed(result)
    groups = result.diagnosis.groups if result.diagnosis is not None else []
    if len(groups) < 2:
        return f"{failure.kind.value}: {failure.message}{_rejected_by(groups[0]) if groups else ''}"
    return f"no group can place it: {failures_by_group(groups)}"


def _nothing_placed(result: WorkloadResult) -> str:
    """Return why a decision that did not fail places nothing; empty if it places something."""
    if result.assignment or result.decision is None:
        return ""
    return "the workload requests no replicas" if result.decision.attempts else NO_GROUPS


def failures_by_group(groups: Sequence[GroupDiagnosis]) -> str:
    """Format why each group failed: the first ones, and how many more there are."""
    listed = [
        f"{group.group}: {group.failure.kind.value}: {group.failure.message}{_rejected_by(group)}"
        for group in groups[:_GROUPS_LISTED]
        if group.failure is not None
    ]
    more = len(groups) - _GROUPS_LISTED
    return "; ".join([*listed, f"and {more} more groups"] if more > 0 else listed)


def _rejected_by(group: GroupDiagnosis) -> str:
    """Format how many clusters of a group each filter rejected, the largest number first."""
    no_fit = group.failure is not None and group.failure.kind is FailureKind.NO_FIT
    counts = [f"{plugin} {count}" for plugin, count in group.rejected_by() if no_fit]
    return f" ({', '.join(counts)})" if counts else ""
