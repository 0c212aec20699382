"""Moves: planned changes of the assignment of a binding. The state of a move is an annotation of its binding.

``docs/moves.md`` describes the life of a move. This module reads and writes the annotation, and answers what the
binding is with and without the move. Everything that reads an assignment decides which of the three it needs:

- ``spec.clusters``: where copies are now. While a move is under way, old and new copies run.
- ``as_moved``: the binding as if its move had ended well. Decisions and simulations start from it.
- ``as_before``: the binding as if its move had not begun. A rollback restores it.
"""

from collections.abc import Container, Mapping
from enum import Enum
from typing import Final, assert_never

import msgspec.structs

from berthmaster.model.binding import Binding, TargetCluster
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import Count, Timestamp, Value

MOVE: Final = "policy.berthmaster.io/move"
"""The annotation of a binding with the state of its move."""
FAILBACK: Final = "policy.berthmaster.io/failback"
"""The annotation of a policy that turns failback on: ``after=10m``."""
STRATEGY: Final = "policy.berthmaster.io/move-strategy"
"""The annotation of a policy with the strategy of its moves. With it, requested reschedulings are moves as well."""
PAUSE: Final = "policy.berthmaster.io/pause-moves"
"""The annotation of a policy that pauses its moves."""
DRAINING: Final = "policy.berthmaster.io/draining"
"""The key of the taint of a cluster that is being drained. Its effect is NoSchedule."""
APPLIED_AFFINITY: Final = "policy.berthmaster.io/applied-affinity"
"""The annotation ``GROUP@DIGEST`` of a binding: the group of an assignment, and a digest of that assignment."""
VOLUMES: Final = "policy.berthmaster.io/move-volumes"
"""The annotation of a policy that says whether moves may lose the data in volumes."""
POLICY_KEYS: Final = frozenset({FAILBACK, STRATEGY, PAUSE, VOLUMES})
EVICTION_REASON: Final = "MovedByBerthmaster"
MAX_MESSAGE: Final = 512


class MoveReason(Enum):
    """Why a binding moves."""

    FAILBACK = "Failback"
    """An earlier group can hold the workload again."""
    DRAIN = "Drain"
    FAILOVER = "Failover"
    """A cluster of the assignment is lost, and the rest of its group cannot hold the workload."""
    RESCHEDULED = "Rescheduled"
    REBALANCE = "Rebalance"

    @property
    def gives_way(self) -> bool:
        """Whether its moves give way to a drain that waits: the cluster of a drain is about to go; these have time."""
        match self:
            case MoveReason.FAILBACK | MoveReason.REBALANCE:
                return True
            case MoveReason.DRAIN | MoveReason.FAILOVER | MoveReason.RESCHEDULED:
                return False
            case _:
                assert_never(self)


class MovePhase(Enum):
    """The phase of a move, in the order of its life."""

    ELIGIBLE = "Eligible"
    """The binding should move, and cannot yet. The message says why."""
    STABILISING = "Stabilising"
    """A place exists. It must stay for some time; then the move waits for its admission."""
    ADMITTED = "Admitted"
    """Only BreakBeforeMake: the old copies are being removed; the new ones do not exist yet."""
    SURGING = "Surging"
    """The new copies exist, and are not all healthy yet. With MakeBeforeBreak the old copies run as well."""
    SOAKING = "Soaking"
    """All new copies are healthy. They must stay healthy for some time."""
    RELEASED = "Released"
    """The move ended well. The record is removed after some time."""
    ROLLED_BACK = "RolledBack"
    """The move failed. The old assignment is restored, and no move starts before ``held_down_until``."""
    HELD_DOWN = "HeldDown"
    """No move starts before ``held_down_until``, for example because the last one did not last."""


class MoveStrategy(Enum):
    """In which order the copies of a workload change."""

    MAKE_BEFORE_BREAK = "MakeBeforeBreak"
    """New copies first. The old ones go when the new ones are healthy."""
    BREAK_BEFORE_MAKE = "BreakBeforeMake"
    """Old copies first. The workload never runs twice, and is not available in between."""


class VolumeLoss(Enum):
    """Whether a move may delete the volumes of a workload, or leave them behind."""

    KEEP = "Keep"
    MAY_BE_LOST = "MayBeLost"


UNDER_WAY: Final = frozenset({MovePhase.ADMITTED, MovePhase.SURGING, MovePhase.SOAKING})
"""The phases in which copies change. Budgets count the moves in these phases, except those that wait for others."""
WAITING: Final = frozenset({MovePhase.ELIGIBLE, MovePhase.STABILISING})
"""The phases before the admission."""
AFTER_FAILURE: Final = frozenset({MovePhase.ROLLED_BACK, MovePhase.HELD_DOWN})
"""The phases of a move that failed."""


class MoveState(Value, frozen=True):
    """The content of the annotation ``MOVE``. Times are wall clock times in UTC, in whole seconds.

    Attributes:
        source: the copies that leave: replicas by cluster. At first this is the assignment before the move. A failover
            lists only the clusters that it keeps.
        target: the assignment after the move; empty in the phase Eligible.
        source_group, target_group: the groups of the two; empty without groups.
        started_at: since when the binding should move.
        origin, origin_group: the assignment before the move, and its group, if ``source`` is not it any more: other
            copies leave now, or a cluster of it was evicted.
        until: when the wait of the phase ends: stabilised, deadline, soaked, or the end of the hold-down; None if the
            phase has no end of its own.
        deadline_at: when the new copies must be healthy. Another target or scale does not change it.
        overdue: the deadline has passed, and the move has nothing better to return to yet. Budgets do not count it.
        failures: how many moves of the binding failed or did not last, since the last success or policy edit.
        held_down_until: until this time only a failover may start; None for no hold-down.
        rebalance_after: until this time no rebalance may start; None if one may.
        template: the version of the workload when the phase began. A newer template starts new pods.
        gone_since: since when the old copies of a move with BreakBeforeMake are gone; None if they are not.
        termination_s: how long the pods of the old copies may take to end, in seconds.
        returning: a move with BreakBeforeMake failed, and returns to where it came from.
        message: what the move waits for, or how it ended.
        cause: the kind of what a move waits for (``Cause``); empty if it does not wait for others.
    """

    reason: MoveReason
    phase: MovePhase
    strategy: MoveStrategy = MoveStrategy.MAKE_BEFORE_BREAK
    source: dict[str, Count] = {}
    target: dict[str, Count] = {}
    source_group: str = ""
    target_group: str = ""
    started_at: Timestamp | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None
    failures: Count = 0
    held_down_until: Timestamp | None = None
    template: str = ""
    gone_since: Timestamp | None = None
    termination_s: Count = 30
    returning: bool = False
    message: str = ""
    cause: str = ""
    about: tuple[str, ...] = ()
    origin: dict[str, Count] = {}
    origin_group: str = ""
    deadline_at: Timestamp | None = None
    overdue: bool = False
    rebalance_after: Timestamp | None = None

    @property
    def first(self) -> dict[str, int]:
        """The assignment before the move."""
        return self.origin or self.source

    @property
    def first_group(self) -> str:
        """The group of the assignment before the move; empty without groups."""
        return self.origin_group if self.origin else self.source_group

    @property
    def home(self) -> dict[str, int]:
        """The copies that a failed move restores.

        With MakeBeforeBreak, copies that are not evicted are enough, with those that the target has again.
        """
        if self.strategy is not MoveStrategy.MAKE_BEFORE_BREAK or not self.source:
            return self.first
        again = both(self.origin, self.target)
        return {**again, **self.source}

    @property
    def home_group(self) -> str:
        """The group of ``home``; empty without groups."""
        return self.source_group if self.home == self.source else self.origin_group

    @property
    def under_way(self) -> bool:
        return self.phase in UNDER_WAY

    @property
    def is_counted(self) -> bool:
        """Whether budgets count the move. One that waits for others, maybe for long, must not keep them from moving."""
        return self.under_way and not self.cause and not self.overdue

    @property
    def replicas(self) -> int:
        """How many replicas the move starts."""
        return sum(self.arriving.values())

    @property
    def arriving(self) -> dict[str, int]:
        """The replicas that clusters gain. A cluster with a workload without replicas counts with 0."""
        return _growth(self.source, self.target)

    @property
    def leaving(self) -> dict[str, int]:
        """The replicas that clusters lose. A cluster with a workload without replicas counts with 0."""
        return _growth(self.target, self.source)

    def can_return(self, unready: Container[str]) -> bool:
        """Whether the move can be rolled back if it fails: all clusters that it came from are ready."""
        if self.reason is MoveReason.FAILOVER or self.returning:
            return False
        return bool(self.home) and not any(name in unready for name in self.home)

    def held_down(self, now: Timestamp) -> bool:
        """Whether no move except a failover may start at this time."""
        return self.held_down_until is not None and self.held_down_until > now

    def rests(self, now: Timestamp) -> bool:
        """Whether no rebalance may start at this time."""
        return self.rebalance_after is not None and self.rebalance_after > now


def _growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return how much an assignment grows by cluster. A new cluster counts even without replicas."""
    return {
        name: replicas - before.get(name, 0)
        for name, replicas in sorted(after.items())
        if name not in before or replicas > before[name]
    }


def read_move(binding: Binding) -> tuple[MoveState | None, str]:
    """Return the state of a binding's move, and what is wrong with its annotation; None and empty without one."""
    text = binding.metadata.annotations.get(MOVE)
    if text is None:
        return None, ""
    try:
        return decode_json(MoveState, text), ""
    except FieldError as error:
        return None, f"the annotation {MOVE} is invalid and does not count: {error}"


def move_of(binding: Binding) -> MoveState | None:
    """Return the state of a binding's move; None without one, and for an invalid annotation (``move_problem``)."""
    return read_move(binding)[0]


def move_problem(binding: Binding) -> str:
    """Return what is wrong with the annotation of a binding's move; empty if it is valid or absent."""
    return read_move(binding)[1]


def annotation_of(state: MoveState) -> str:
    """Return the text of the annotation ``MOVE``."""
    return encode_json(state).decode()


def union(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return the assignment with the copies of both: the larger number for each cluster."""
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in sorted(first.keys() | second.keys())}


def both(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return the copies that two assignments have in common: the smaller number for each common cluster."""
    return {name: min(first[name], second[name]) for name in sorted(first.keys() & second.keys())}


def written_clusters(state: MoveState) -> dict[str, int]:
    """Return the ``spec.clusters`` that a move under way has written: replicas by cluster."""
    if state.strategy is MoveStrategy.MAKE_BEFORE_BREAK:
        return union(state.source, state.target)
    return both(state.source, state.target) if state.phase is MovePhase.ADMITTED else dict(state.target)


def written_group(state: MoveState) -> str:
    """Return the group of what a move under way has written: that of its source, until only its target is there."""
    makes = state.strategy is MoveStrategy.MAKE_BEFORE_BREAK
    return state.source_group if makes or state.phase is MovePhase.ADMITTED else state.target_group


def as_moved(binding: Binding) -> Binding:
    """Return a binding as if its move had ended well; the binding itself if no move is under way."""
    state = intact_move(binding)
    return binding if state is None else without_move(binding, state.target, state.target_group)


def as_before(binding: Binding) -> Binding:
    """Return a binding as if its move had not begun; the binding itself if no move is under way."""
    state = intact_move(binding)
    return binding if state is None else without_move(binding, state.home, state.home_group)


def intact_move(binding: Binding) -> MoveState | None:
    """Return the move under way, without the clusters that others evict; None without one that holds the assignment."""
    state = move_of(binding)
    if state is None or not state.under_way or not is_intact(binding, state):
        return None
    return without_evictions(binding, state)


def is_intact(binding: Binding, state: MoveState) -> bool:
    """Whether the assignment of a binding is what its move has written. Clusters that were evicted may lack."""
    return binding.assignment == written_clusters(without_evictions(binding, state))


def evicted_by_others(binding: Binding) -> set[str]:
    """Return the clusters of eviction tasks that no move of this scheduler has written."""
    return {task.from_cluster for task in binding.spec.graceful_eviction_tasks if task.reason != EVICTION_REASON}


def without_evictions(binding: Binding, state: MoveState) -> MoveState:
    """Return the state of a move without the clusters that another controller evicts, or has evicted.

    Karmada removes the task of an eviction after some minutes, and the record may still name the cluster then. So an
    old copy counts as evicted if its cluster is not assigned any more.
    """
    taken = written_clusters(state).keys() - state.target.keys() - binding.assignment.keys()
    return without_clusters(state, evicted_by_others(binding) | taken)


def without_clusters(state: MoveState, gone: Container[str]) -> MoveState:
    """Return the state of a move whose copies on some clusters go for another reason. It knows where it began."""
    source = {name: replicas for name, replicas in state.source.items() if name not in gone}
    target = {name: replicas for name, replicas in state.target.items() if name not in gone}
    if (source, target) == (state.source, state.target):
        return state
    whole = source == state.source
    return msgspec.structs.replace(
        state,
        source=source,
        origin=state.origin if whole else state.first,
        origin_group=state.origin_group if whole else state.first_group,
        target=target,
    )


def without_move(binding: Binding, clusters: Mapping[str, int], group: str) -> Binding:
    """Return a binding without the record of a move, with an assignment (replicas by cluster) and its group."""
    annotations = {
        key: value for key, value in binding.metadata.annotations.items() if key not in {MOVE, APPLIED_AFFINITY}
    }
    listed = tuple(TargetCluster(name, replicas) for name, replicas in sorted(clusters.items()))
    return msgspec.structs.replace(
        binding,
        metadata=msgspec.structs.replace(binding.metadata, annotations=annotations),
        spec=msgspec.structs.replace(binding.spec, clusters=listed),
        status=msgspec.structs.replace(binding.status, scheduler_observing_affinity_name=group),
    )
