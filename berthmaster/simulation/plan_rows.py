"""The rows of one workload of a plan."""

from dataclasses import replace

from berthmaster.model.binding import DIRECTLY, Binding
from berthmaster.model.policy import PolicyReference
from berthmaster.model.reader import Reader
from berthmaster.simulation.following import NO_COMPANIONS
from berthmaster.simulation.plan_answer import PlannedMove, StayingWorkload, UnplacedWorkload
from berthmaster.simulation.plan_reasons import why_moved, why_stays
from berthmaster.simulation.plan_totals import moved_replicas
from berthmaster.simulation.report import row
from berthmaster.simulation.run import PlannedWorkload


def seen_by(planned: PlannedWorkload, reader: Reader) -> PlannedWorkload:
    """Return the same without the names of workloads that a reader may not see, for the texts about it."""
    after = planned.after
    if reader.namespaces is None or after.companions is NO_COMPANIONS:
        return planned
    return replace(planned, after=replace(after, companions=after.companions.seen_by(reader)))


def move_of(planned: PlannedWorkload) -> PlannedMove:
    """Return the row of a workload that moves."""
    after, before = planned.after, planned.before
    left = {name for name, (_, now) in planned.moves.items() if now is None}
    evicting = _evicting(planned) & left
    preserved = _preserves(before.workload.binding)
    gone = sorted(left - evicting)
    return PlannedMove(
        resource=planned.resource,
        policy_before=policy_text(planned.holder_before),
        policy=policy_text(planned.holder_after),
        group_before=before.group or None,
        group=after.group or None,
        before=before.assignment,
        after=after.assignment,
        moves=dict(planned.moves),
        replicas=moved_replicas(planned.moves),
        deleted=[] if preserved else gone,
        preserved=gone if preserved else [],
        evicting=sorted(evicting),
        trigger=after.trigger,
        reason="the resource is deleted" if planned.is_deleted else why_moved(planned),
        due=planned.is_due,
        removed=planned.is_deleted,
    )


def deleted_copies(planned: PlannedWorkload) -> int:
    """Return how many copies Karmada deletes: the length of ``PlannedMove.deleted``."""
    left = {name for name, (_, now) in planned.moves.items() if now is None}
    preserved = _preserves(planned.before.workload.binding)
    return 0 if preserved or not left else len(left - _evicting(planned))


def unplaced_of(planned: PlannedWorkload) -> UnplacedWorkload:
    """Return the row of a workload that cannot be scheduled after the change."""
    return UnplacedWorkload(
        resource=planned.resource,
        policy=policy_text(planned.holder_after),
        nowhere=not planned.after.assignment,
        by_change=planned.fails_by_change,
        message=row(planned.after).message or "",
    )


def staying_of(planned: PlannedWorkload) -> StayingWorkload:
    """Return the row of a workload that does not move."""
    reason, message = why_stays(planned)
    return StayingWorkload(planned.resource, policy_text(planned.holder_after), reason, message)


def policy_text(reference: PolicyReference | None) -> str | None:
    """Return the text of a policy in rows; None for none."""
    return str(reference) if reference is not None else None


def _evicting(planned: PlannedWorkload) -> set[str]:
    """Return the clusters whose copy stays until an eviction task ends."""
    binding = None if planned.is_deleted else planned.after.workload.binding
    tasks = binding.spec.graceful_eviction_tasks if binding is not None else ()
    return {each.from_cluster for each in tasks if each.purge_mode != DIRECTLY}


def _preserves(binding: Binding | None) -> bool:
    """Whether member clusters keep the resource when its copy is deleted, as the copies say now."""
    return binding is not None and bool(binding.spec.preserve_resources_on_deletion)
