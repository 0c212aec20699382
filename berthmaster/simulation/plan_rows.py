"""One workload of a plan: where it is, where it will be, and the rows that say so."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from berthmaster.model.binding import DIRECTLY, Binding
from berthmaster.model.policy import PolicyReference
from berthmaster.model.reader import Reader
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.following import NO_COMPANIONS
from berthmaster.simulation.plan import moved_replicas
from berthmaster.simulation.plan_answer import PlannedMove, StayingWorkload, UnplacedWorkload
from berthmaster.simulation.plan_reasons import why_moved, why_stays
from berthmaster.simulation.report import row
from berthmaster.simulation.run import WorkloadResult, moves
from berthmaster.simulation.workload import SimulatedWorkload

_Moves = Mapping[str, tuple[int | None, int | None]]


@dataclass(frozen=True)
class PlannedWorkload:
    """A workload that a change concerns.

    Attributes:
        before_workload: the workload before the change; None if it is new.
        after_workload: the workload after the change, before it is scheduled; None if it is deleted.
        before: where it is now.
        after: where it will be; None if it is deleted.
        settled: where it would be without the change; None if no scheduler would look at it.
        has_event: whether its binding changes, so that a scheduler looks at it.
    """

    before_workload: SimulatedWorkload | None
    after_workload: SimulatedWorkload | None
    before: WorkloadResult | None
    after: WorkloadResult | None
    settled: WorkloadResult | None = None
    has_event: bool = True
    moves: _Moves = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "moves", self._found_moves())

    @cached_property
    def resource(self) -> str:
        """``NAMESPACE/KIND/NAME``."""
        return str(self.before_workload or self.after_workload)

    def seen_by(self, reader: Reader) -> "PlannedWorkload":
        """Return the same without the names of workloads that a reader may not see, for the texts about it."""
        after = self.after
        if after is None or reader.namespaces is None or after.companions is NO_COMPANIONS:
            return self
        return replace(self, after=replace(after, companions=after.companions.seen_by(reader)))

    def _found_moves(self) -> _Moves:
        if self.before is not None and self.after is not None:
            return moves(self.before, self.after)
        then, now = self.assignment_before, self.assignment_after
        return {name: (then.get(name), now.get(name)) for name in sorted({**then, **now})}

    @property
    def assignment_before(self) -> dict[str, int]:
        return self.before.assignment if self.before is not None else {}

    @property
    def assignment_after(self) -> dict[str, int]:
        return self.after.assignment if self.after is not None else {}

    @property
    def holder_before(self) -> PolicyReference | None:
        return self.before_workload.held_by if self.before_workload is not None else None

    @property
    def holder_after(self) -> PolicyReference | None:
        return self.after_workload.held_by if self.after_workload is not None else None


def move_of(planned: PlannedWorkload) -> PlannedMove:
    """Return the row of a workload that moves."""
    after, before = planned.after, planned.before
    left = {name for name, (_, now) in planned.moves.items() if now is None}
    evicting = _evicting(planned) & left
    preserved = _preserves(before.workload.binding if before is not None else None)
    gone = sorted(left - evicting)
    return PlannedMove(
        resource=planned.resource,
        policy_before=policy_text(planned.holder_before),
        policy=policy_text(planned.holder_after),
        group_before=(before.group if before is not None else "") or None,
        group=(after.group if after is not None else "") or None,
        before=planned.assignment_before,
        after=planned.assignment_after,
        moves=dict(planned.moves),
        replicas=moved_replicas(planned.moves),
        deleted=[] if preserved else gone,
        preserved=gone if preserved else [],
        evicting=sorted(evicting),
        trigger=after.trigger if after is not None else Trigger.NONE,
        reason=why_moved(planned.before_workload, after) if after is not None else "the resource is deleted",
        due=planned.settled is not None and planned.settled.assignment == planned.assignment_after,
        removed=after is None,
    )


def deleted_copies(planned: PlannedWorkload) -> int:
    """Return how many copies Karmada deletes: the length of ``PlannedMove.deleted``."""
    left = {name for name, (_, now) in planned.moves.items() if now is None}
    preserved = _preserves(planned.before.workload.binding if planned.before is not None else None)
    return 0 if preserved or not left else len(left - _evicting(planned))


def unplaced_of(planned: PlannedWorkload) -> UnplacedWorkload:
    """Return the row of a workload that cannot be scheduled after the change.

    Raises:
        ValueError: the workload is deleted.
    """
    if planned.after is None:
        raise ValueError("a deleted workload has no place")
    return UnplacedWorkload(
        resource=planned.resource,
        policy=policy_text(planned.holder_after),
        nowhere=not planned.assignment_after,
        by_change=planned.settled is None or planned.settled.failure is None,
        message=row(planned.after).message or "",
    )


def staying_of(planned: PlannedWorkload) -> StayingWorkload:
    """Return the row of a workload that does not move.

    Raises:
        ValueError: the workload is deleted.
    """
    if planned.after is None:
        raise ValueError("a deleted workload does not stay")
    reason, message = why_stays(planned.before_workload, planned.after, has_event=planned.has_event)
    return StayingWorkload(planned.resource, policy_text(planned.holder_after), reason, message)


def policy_text(reference: PolicyReference | None) -> str | None:
    """Return the text of a policy in rows; None for none."""
    return str(reference) if reference is not None else None


def _evicting(planned: PlannedWorkload) -> set[str]:
    """Return the clusters whose copy stays until an eviction task ends."""
    binding = planned.after.workload.binding if planned.after is not None else None
    tasks = binding.spec.graceful_eviction_tasks if binding is not None else ()
    return {each.from_cluster for each in tasks if each.purge_mode != DIRECTLY}


def _preserves(binding: Binding | None) -> bool:
    """Whether member clusters keep the resource when its copy is deleted, as the copies say now."""
    return binding is not None and bool(binding.spec.preserve_resources_on_deletion)
