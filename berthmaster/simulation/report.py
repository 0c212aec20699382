"""What a simulation found, as rows: what the commands print and the service answers."""

import msgspec

from berthmaster.scheduling.decision import Failure, FailureKind, Mode
from berthmaster.scheduling.diagnosis import Diagnosis
from berthmaster.scheduling.trigger import Trigger
from berthmaster.simulation.run import WorkloadResult, moves

UNCLAIMED = "no policy selects it"


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """One workload.

    Attributes:
        resource: ``NAMESPACE/KIND/NAME``.
        policy: the one that claims it; None if none does, or only its binding is known.
        replicas: how many are wanted; None if it is not placed at all.
        group: the group of clusters that its assignment came from; None without.
        clusters: replicas by cluster, 0 for a workload without replicas.
        trigger: why it was scheduled.
        error: at which stage it failed; None if it did not, or was not scheduled.
        message: the failure, or whatever else is worth knowing; None if nothing is.
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
    """One workload before and after the changes.

    Attributes:
        resource: ``NAMESPACE/KIND/NAME``.
        before, after: what it was, and is.
        moves: replicas before and after for each cluster where they differ; None where it does not have the workload.
    """

    resource: str
    before: Row
    after: Row
    moves: dict[str, tuple[int | None, int | None]]


class ClaimRow(msgspec.Struct, frozen=True, rename="camel"):
    """A policy that matches a workload.

    Attributes:
        policy: kind, namespace and name.
        priority: its explicit priority.
        matched_by: how closely it names the workload: ``kind``, ``labels`` or ``name``.
    """

    policy: str
    priority: int
    matched_by: str


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """One workload's decision, explained.

    Attributes:
        resource, policy, group, clusters, trigger, error, message: as in ``Row``.
        claims: the policies that match it, the one that has it first.
        replicas: how many are wanted; None if it is not placed at all.
        replicated: whether it has replicas of its own.
        mode: what became of replicas that were assigned before; None if it was not scheduled.
        diagnosis: group by group and cluster by cluster; None if it was not scheduled.
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


def row(outcome: WorkloadResult) -> Row:
    """What became of a workload."""
    claim, binding, failure = outcome.workload.claim, outcome.workload.binding, _failure(outcome)
    return Row(
        resource=str(outcome.workload),
        policy=str(claim.policy) if claim is not None else None,
        replicas=binding.spec.replicas if binding is not None else None,
        group=outcome.group or None,
        clusters=outcome.assignment,
        trigger=outcome.trigger,
        error=failure.kind if failure is not None else None,
        message=_note(outcome) or None,
    )


def change_row(before: WorkloadResult, after: WorkloadResult) -> ChangeRow:
    """What changes did to a workload."""
    return ChangeRow(str(after.workload), row(before), row(after), moves(before, after))


def explanation(outcome: WorkloadResult) -> Explanation:
    """Why a workload is where it is. The outcome has to have its diagnosis."""
    workload, decision, failure = outcome.workload, outcome.decision, _failure(outcome)
    return Explanation(
        resource=str(workload),
        policy=str(workload.claim.policy) if workload.claim is not None else None,
        claims=[
            ClaimRow(str(each.policy), each.policy.explicit_priority, each.level.name.lower())
            for each in workload.claims
        ],
        replicas=workload.binding.spec.replicas if workload.binding is not None else None,
        replicated=workload.binding is not None and workload.binding.spec.is_workload,
        trigger=outcome.trigger,
        mode=decision.mode if decision is not None else None,
        group=outcome.group or None,
        clusters=outcome.assignment,
        error=failure.kind if failure is not None else None,
        message=failure.message if failure is not None else None,
        diagnosis=outcome.diagnosis,
    )


def _failure(outcome: WorkloadResult) -> Failure | None:
    return outcome.decision.failure if outcome.decision is not None else None


def _note(outcome: WorkloadResult) -> str:
    if outcome.workload.binding is None:
        return UNCLAIMED
    failure = _failure(outcome)
    if failure is None:
        return "no replicas are wanted" if not outcome.assignment and outcome.decision is not None else ""
    return f"{failure.kind.value}: {failure.message}{_rejected_by(outcome)}"


def _rejected_by(outcome: WorkloadResult) -> str:
    """Which filters ruled the clusters of the first group out, the busiest first."""
    if outcome.diagnosis is None or not outcome.diagnosis.groups:
        return ""
    told = [f"{plugin} {count}" for plugin, count in outcome.diagnosis.groups[0].rejected_by()]
    return f" ({', '.join(told)})" if told else ""
