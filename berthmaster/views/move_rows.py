"""What moves, waits, is held down or blocked, as rows. Pure functions of bindings and of the storm brake."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.deciding.admissions import MoveCandidate, candidate_of
from berthmaster.deciding.lease_record import BrakeRecord, SourcesRecord
from berthmaster.model.binding import Binding
from berthmaster.model.cached import cached_property
from berthmaster.model.durations import duration_text
from berthmaster.model.meta import object_name
from berthmaster.model.move import MOVE, UNDER_WAY, WAITING, MovePhase, MoveReason, MoveState, read_move
from berthmaster.model.move_refusal import Cause

_OVERDUE_S: Final = 60
"""How long after a deadline a move is overdue: controllers look at moves every few seconds, and clocks differ."""


class RowState(Enum):
    """What a binding with a move does."""

    OVERDUE = "overdue"
    """The move is under way and past its deadline: no controller ended the phase."""
    MOVING = "moving"
    WAITING = "waiting"
    BLOCKED = "blocked by the storm brake"
    HELD_DOWN = "held down"
    DONE = "done"
    INVALID = "invalid"

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")


class MoveSort(Enum):
    """The order of a list of moves. Values that are not known come last."""

    STATE = "state"
    WORKLOAD = "workload"
    REASON = "reason"
    SINCE = "since"
    DUE = "due"
    FAILURES = "failures"


class MoveQuery(NamedTuple):
    """Which moves to list. All conditions must hold.

    Attributes:
        q: a part of the name of the workload, in any case; empty for all.
        cluster: a part of the name of a cluster that the workload leaves or arrives at; empty for all.
        sort: the order. Equal values are ordered by state, then by name.
    """

    q: str = ""
    state: RowState | None = None
    reason: str = ""
    cluster: str = ""
    namespaces: frozenset[str] | None = None
    sort: MoveSort = MoveSort.STATE
    descending: bool = False
    offset: int = 0
    limit: int | None = None

    def accepts(self, move: "StatedMove") -> bool:
        """Return whether a move meets all conditions, except that of the namespaces."""
        found, state = move
        known = found.state
        return (
            self.state in {None, state}
            and self.reason in {"", "" if known is None else known.reason.value}
            and (
                not self.cluster
                or (known is not None and any(self.cluster in name for name in (*known.source, *known.target)))
            )
            and self.q.lower() in found.workload.lower()
        )

    def sorted(self, moves: "Sequence[StatedMove]") -> "list[StatedMove]":
        """Return moves, which are ordered by state and name, in the order of the query."""
        value = _SORT_VALUES[self.sort]
        known = sorted((each for each in moves if value(each) is not None), key=value, reverse=self.descending)
        return [*known, *(each for each in moves if value(each) is None)]


_ORDER: Final = {each: number for number, each in enumerate(RowState)}


@dataclass(frozen=True)
class BindingMove:
    """The move of a binding, read once.

    Attributes:
        state: the state of the move; None if its annotation is invalid.
        problem: why the annotation is invalid; empty if it is valid.
    """

    binding: Binding
    state: MoveState | None
    problem: str = ""

    @cached_property
    def workload(self) -> str:
        """The name of the workload as commands print it."""
        return workload_of(self.binding)

    @cached_property
    def candidate(self) -> MoveCandidate | None:
        """The move as budgets see it, without the pause of its policy; None if its annotation is invalid."""
        return None if self.state is None else candidate_of(self.binding.metadata.key, self.binding, self.state)

    @property
    def is_counted(self) -> bool:
        """Whether it counts against budgets."""
        return self.state is not None and self.state.is_counted

    @property
    def is_waiting_drain(self) -> bool:
        """Whether it is a drain that waits for a limit."""
        state = self.state
        limits = {Cause.LIMIT.value, Cause.STARTING.value}
        return (
            state is not None and state.reason is MoveReason.DRAIN and state.phase in WAITING and state.cause in limits
        )


def moves_among(bindings: Iterable[Binding]) -> Iterator[BindingMove]:
    return (BindingMove(each, *read_move(each)) for each in bindings if MOVE in each.metadata.annotations)


class StatedMove(NamedTuple):
    move: BindingMove
    state: RowState


_SORT_VALUES: Final[Mapping[MoveSort, Callable[[StatedMove], Any]]] = {
    MoveSort.STATE: lambda each: _ORDER[each.state],
    MoveSort.WORKLOAD: lambda each: each.move.workload,
    MoveSort.REASON: lambda each: each.move.state and each.move.state.reason.value,
    MoveSort.SINCE: lambda each: each.move.state and each.move.state.since,
    MoveSort.DUE: lambda each: each.move.state and each.move.state.until,
    MoveSort.FAILURES: lambda each: each.move.state.failures if each.move.state else 0,
}
"""What an order compares; None if it is not known."""


class WaitReason(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a move waits for.

    Attributes:
        cause: ``brake``, ``paused``, ``place`` (no cluster can hold the workload), ``stabilising`` (the place must
            last), ``held-down``, ``window`` or ``limit`` (of a budget), ``controller`` (the next look), or another
            value of ``Cause``.
    """

    cause: str
    message: str
    budget: str = ""
    until: datetime | None = None


class MoveRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A binding with a move.

    Attributes:
        reason, phase, strategy: those of the move; empty if its annotation is invalid.
        waits_for: what it waits for, as far as the configuration of the leader is known; empty if it does not wait.
    """

    workload: str
    state: RowState
    binding: str
    reason: str = ""
    phase: str = ""
    strategy: str = ""
    source: Mapping[str, int] = {}
    target: Mapping[str, int] = {}
    since: datetime | None = None
    until: datetime | None = None
    failures: int = 0
    held_down_until: datetime | None = None
    message: str = ""
    namespace: str = ""
    waits_for: list[WaitReason] = []


class BrakeReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The storm brake. ``engaged`` is absent if its state is not known."""

    engaged: bool | None = None
    reason: str = ""
    since: datetime | None = None
    unready: int = 0
    resumed_at: datetime | None = None


class ControllersReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The controllers that run moves. ``silent`` says whether that is so long ago that no controller seems to run."""

    renewed_at: datetime | None = None
    silent: bool = False


class WindowUse(msgspec.Struct, frozen=True, rename="camel"):
    """A window of a budget."""

    schedule: str
    duration_s: int
    time_zone: str
    open: bool
    next_start: datetime


class BudgetUse(msgspec.Struct, frozen=True, rename="camel"):
    """A budget and the moves under way that count against it. A limit that is null does not exist.

    Attributes:
        moves, max_moves: the moves under way, and how many may be.
        by_policy, max_moves_per_policy: the same for each policy; empty without the limit. Policies that the reader may
            not see are one entry, with the moves of the one that has the most.
        by_namespace, max_moves_per_namespace: the same for each namespace.
        replicas, replicas_percent: the replicas of all selected workloads, and how many percent of them may move.
    """

    name: str
    selects: str
    limits_failover: bool
    moves: int
    max_moves: int | None
    by_policy: dict[str, int]
    max_moves_per_policy: int | None
    by_namespace: dict[str, int]
    max_moves_per_namespace: int | None
    from_clusters: dict[str, int]
    max_moves_from_cluster: int | None
    to_clusters: dict[str, int]
    max_moves_to_cluster: int | None
    replicas_moving: int
    replicas: int | None
    replicas_percent: int | None
    windows: list[WindowUse]
    opens_at: datetime | None
    waiting: int


class MovesReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What ``berthmaster moves -o json`` prints.

    Attributes:
        sources: the configuration that the leader uses; None if it has none, or if it is not known.
    """

    read_at: datetime
    brake: BrakeReport
    sources: SourcesRecord | None
    moves: list[MoveRow]
    gaps: list[str] = []
    budgets: list[BudgetUse] | None = None
    controllers: ControllersReport = ControllersReport()


@dataclass(frozen=True, slots=True)
class RowContext:
    """What rows depend on besides their binding."""

    now: datetime
    braked: str = ""


def brake_report(record: BrakeRecord | None) -> BrakeReport:
    """Return the state of the storm brake; without ``engaged`` if there is no record."""
    if record is None:
        return BrakeReport()
    return BrakeReport(bool(record.reason), record.reason, record.since, record.unready, record.resumed_at)


def stated_moves(moves: Iterable[BindingMove], context: RowContext) -> list[StatedMove]:
    """Return moves and what they do: first what moves, then what waits, by name."""
    found = [StatedMove(each, _state(each.state, context)) for each in moves]
    return sorted(found, key=lambda each: (_ORDER[each.state], each.move.workload))


def move_rows(bindings: Iterable[Binding], context: RowContext) -> list[MoveRow]:
    """Return the rows of all bindings with a move, in the order of ``stated_moves``."""
    return [row_of(each, context) for each in stated_moves(moves_among(bindings), context)]


def row_of(stated: StatedMove, context: RowContext, waits_for: Sequence[WaitReason] = ()) -> MoveRow:
    found, state = stated.move, stated.move.state
    metadata = found.binding.metadata
    if state is None:
        return MoveRow(found.workload, stated.state, metadata.name, message=found.problem, namespace=metadata.namespace)
    return MoveRow(
        found.workload,
        stated.state,
        metadata.name,
        state.reason.value,
        state.phase.value,
        state.strategy.value,
        state.source,
        state.target,
        state.since,
        state.until,
        state.failures,
        state.held_down_until,
        _message(state, context),
        metadata.namespace,
        list(waits_for),
    )


def changed_rows(known: Mapping[str, MoveRow], rows: Sequence[MoveRow]) -> list[MoveRow]:
    """Return the rows that differ from the known ones, and a last row for each binding without a move now."""
    names = {row.workload for row in rows}
    gone = [
        MoveRow(name, RowState.DONE, row.binding, message="no move") for name, row in known.items() if name not in names
    ]
    return [*(row for row in rows if known.get(row.workload) != row), *gone]


def workload_of(binding: Binding) -> str:
    resource = binding.spec.resource
    return object_name(binding.metadata.namespace, resource.kind, resource.name)


def age_text(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a time was; empty if it is not known."""
    if moment is None:
        return ""
    seconds = max(0.0, (now - moment).total_seconds())
    # Two units suffice.
    return duration_text(seconds - seconds % 60 if seconds >= 3600 else seconds)


def _state(state: MoveState | None, context: RowContext) -> RowState:
    if state is None:
        return RowState.INVALID
    if state.phase in WAITING or state.phase in UNDER_WAY:
        if context.braked:
            return RowState.BLOCKED
        if state.phase in WAITING or state.cause:
            return RowState.WAITING
        late = state.until is not None and (context.now - state.until).total_seconds() > _OVERDUE_S
        return RowState.OVERDUE if late else RowState.MOVING
    return RowState.HELD_DOWN if state.held_down(context.now) else RowState.DONE


def _message(state: MoveState, context: RowContext) -> str:
    parts = [state.message]
    if state.is_counted and state.until is not None:
        word = "old copies go at" if state.phase is MovePhase.SOAKING else "deadline"
        parts.append(f"{word} {_time(state.until)}")
    if state.held_down(context.now) and state.held_down_until is not None:
        times = f" after {state.failures} failures" if state.failures > 1 else ""
        parts.append(f"held down until {_time(state.held_down_until)}{times}")
    return "; ".join(filter(None, parts))


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%SZ}"
