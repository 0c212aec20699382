"""The result of a simulation for a workload, before and after changes."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from berthmaster.deciding.running import wants_copies
from berthmaster.deciding.writes import assigned_group
from berthmaster.model.binding import Binding
from berthmaster.model.cached import cached_property
from berthmaster.model.move import as_moved
from berthmaster.model.policy import PolicyReference
from berthmaster.scheduling.decision import Decision, Failure
from berthmaster.scheduling.diagnosis import Diagnosis, GroupFailure
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.workload import (
    NO_COMPANIONS,
    Companions,
    NotScheduled,
    SimulatedWorkload,
    Unscheduled,
)

_STUCK: Final = frozenset({NotScheduled.NOT_RETRIED, NotScheduled.MISSING_OVERRIDES, NotScheduled.NO_PRIORITY})


class WorkloadResult(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The result for a workload.

    Attributes:
        failures: why each group failed, if no group can place the workload and reasons were requested.
        as_is: whether it says where copies are now. Otherwise a move under way counts as ended.
        begun: the binding after the first step of its move, which takes no time; None without a move.
        works: the replicas by cluster that Karmada asks for when its move has ended or stands; None without a move.
    """

    workload: SimulatedWorkload
    trigger: Trigger
    decision: Decision | None = None
    diagnosis: Diagnosis | None = None
    failures: Sequence[GroupFailure] = ()
    unscheduled: Unscheduled | None = None
    companions: Companions = NO_COMPANIONS
    as_is: bool = False
    begun: Binding | None = None
    works: Mapping[str, int] | None = None

    @property
    def at_once(self) -> "WorkloadResult":
        """Where the copies are as changes find them: a move under way has not ended."""
        return self if self.begun is None else msgspec.structs.replace(self, workload=self.started, as_is=True)

    @cached_property
    def started(self) -> SimulatedWorkload:
        """The workload as changes find it: its move is in the middle."""
        if self.begun is None or self.begun is self.workload.binding:
            return self.workload
        return msgspec.structs.replace(self.workload, binding=self.begun)

    @cached_property
    def assignment(self) -> dict[str, int]:
        """The replicas by cluster. Clusters of the workloads that it follows count as well."""
        return {} if self._binding is None else self._binding.deployed

    @property
    def failure(self) -> Failure | None:
        """Why it cannot be scheduled; None if it can, or if no scheduler looked at it."""
        return self.decision.failure if self.decision is not None else None

    @property
    def has_no_place(self) -> bool:
        """Whether it cannot be scheduled, or runs nowhere and no scheduler looks at it until an object changes.

        A workload that is scaled to 0 needs no place.
        """
        return (self.failure is not None or self.is_stuck) and self._wants_copies

    @property
    def is_stuck(self) -> bool:
        """Whether it runs nowhere, and no scheduler looks at it until an object changes."""
        return self.unscheduled is not None and self.unscheduled.reason in _STUCK and not self.assignment

    @property
    def _wants_copies(self) -> bool:
        binding = self.workload.binding
        return binding is None or wants_copies(binding)

    @property
    def group(self) -> str:
        """The affinity group of the assignment; empty without one."""
        return "" if self._binding is None else assigned_group(self._binding)

    @property
    def _binding(self) -> Binding | None:
        binding = self.workload.binding
        return binding if binding is None or self.as_is else as_moved(binding)


Moves = Mapping[str, tuple[int | None, int | None]]
"""The replicas before and after for each cluster that changes; None for a cluster without the workload."""


class PlannedWorkload(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One workload before and after changes.

    Attributes:
        before: where it is now. In a world without any binding: where the first scheduling places it.
        settled: where it would be without the changes; None if it is new, or if no caller asks for it.
        has_event: whether its binding changes, so that a scheduler looks at it.
        dips: the replicas of the clusters that may have fewer for a while than before and after (``dips_of``).
    """

    before: WorkloadResult
    after: WorkloadResult
    settled: WorkloadResult | None
    is_new: bool = False
    is_deleted: bool = False
    has_event: bool = True
    dips: Mapping[str, int] = {}

    @cached_property
    def resource(self) -> str:
        return str(self.before.workload)

    @cached_property
    def moves(self) -> dict[str, tuple[int | None, int | None]]:
        return moves(self.before, self.after)

    @property
    def caused(self) -> Moves:
        """The moves that the changes cause: from where it would be without them."""
        return moves(self.settled or self.before, self.after)

    @property
    def holder_before(self) -> PolicyReference | None:
        return None if self.is_new else self.before.workload.held_by

    @property
    def holder_after(self) -> PolicyReference | None:
        return None if self.is_deleted else self.after.workload.held_by

    @property
    def is_due(self) -> bool:
        """Whether it goes to the same place without the changes."""
        return self.settled is not None and self.settled.assignment == self.after.assignment

    @property
    def fails_by_change(self) -> bool:
        """Whether it has no place because it cannot be scheduled, and could be without the changes."""
        return (
            self.after.failure is not None
            and self.after.has_no_place
            and (self.settled is None or self.settled.failure is None)
        )


def moves(before: WorkloadResult, after: WorkloadResult) -> dict[str, tuple[int | None, int | None]]:
    """Return how a workload moves from one result to another, as ``Moves``."""
    if before is after:
        return {}
    then, now = before.assignment, after.assignment
    # Most clusters of a workload on many do not change, so that only the others are sorted.
    changed = [name for name, replicas in then.items() if now.get(name) != replicas]
    changed += now.keys() - then.keys()
    return {name: _replicas(then.get(name), now.get(name)) for name in sorted(changed)}


@lru_cache(maxsize=4096)
def _replicas(before: int | None, after: int | None) -> tuple[int | None, int | None]:
    """Return the replicas of a cluster in a move. Many moves share them."""
    return before, after
