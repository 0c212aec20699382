"""What moves wait for, and how much of each budget is in use. Pure functions of bindings and of the configuration.

Only the leader decides. It also counts writes under way, which no other process sees. A budget can therefore be full
for the leader some seconds before it is full here.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, assert_never, get_args

import msgspec.structs

from berthmaster.deciding.admissions import Budgets, CountedMoves, MoveCandidate, Waiting, pause_of
from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.lease_record import LeaseRecord, SourcesRecord, budgets_of
from berthmaster.deciding.move_selector import MoveSelector
from berthmaster.deciding.pause import Pause
from berthmaster.model.binding import Binding, holder, names_scheduler
from berthmaster.model.cached import cached_property
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.gaps import Gap, GapKind, texts
from berthmaster.model.move import WAITING, MovePhase, MoveReason, MoveState
from berthmaster.model.move_refusal import Cause
from berthmaster.model.policy import PolicyReference
from berthmaster.model.readers import ANY_READER, Reader
from berthmaster.views.move_rows import (
    BindingMove,
    BudgetUse,
    ControllersReport,
    MoveQuery,
    MovesReport,
    RowContext,
    WaitReason,
    WindowUse,
    brake_report,
    row_of,
    stated_moves,
)

_HIDDEN_BUDGET = "budget {} of other namespaces"
_HIDDEN_POLICY = "a policy in another namespace"
_HIDDEN_NAMESPACE = "another namespace"
_NO_NAMESPACE = "cluster-scoped resources"
_NEXT_LOOK = "the controllers look at it again within a few seconds"
_PAUSES: Final[dict[str, Pause]] = {each: each for each in get_args(Pause)}


@dataclass(frozen=True)
class LeaderMoves:
    """What the leader knows about moves, as far as others can know it.

    Attributes:
        config: the pause and the budgets of its configuration; None if they are not known.
        totals: the replicas that each budget with a percentage selects; None if they are not known.
        drains: the drains that wait.
    """

    config: MovesConfig | None
    braked: str
    active: Sequence[MoveCandidate]
    annotations: Mapping[PolicyReference, Mapping[str, str]] | None
    totals: Mapping[str, int] | None = None
    drains: Sequence[MoveCandidate] = ()

    @cached_property
    def counted(self) -> Mapping[int, CountedMoves]:
        return {} if self.config is None else Budgets(self.config).counted(self.active)


def waits_for(move: BindingMove, leader: LeaderMoves, now: datetime) -> list[WaitReason]:
    """Return what a move waits for; empty if it does not wait."""
    state = move.state
    if state is None:
        return []
    if leader.braked and (state.phase in WAITING or state.under_way):
        return [WaitReason("brake", f"the storm brake stops all moves: {leader.braked}")]
    if state.phase not in WAITING:
        return [WaitReason(state.cause, state.message)] if state.cause else []
    return list(_waits(move, state, leader, now))


def _wait_word(cause: Cause) -> str:
    """Return the ``WaitReason.cause`` of a cause that stands in a record; empty if budgets and the brake say it."""
    match cause:
        case Cause.NO_PLACE | Cause.SAME_CLUSTERS:
            return "place"
        case Cause.BRAKE | Cause.PAUSED | Cause.WINDOW | Cause.LIMIT | Cause.STARTING:
            return ""
        case (
            Cause.KEEPS_OLD_COPY
            | Cause.STATE_UNREADABLE
            | Cause.INVALID_POLICY
            | Cause.DRY_RUN
            | Cause.OLD_COPY
            | Cause.WORKS_UNREAD
            | Cause.SUSPENDED
            | Cause.TEMPLATE_PAUSED
            | Cause.JOB_FINISHED
            | Cause.JOB_DIVIDED
            | Cause.REPLICAS_RETAINED
            | Cause.VOLUMES
            | Cause.UNREPORTED
            | Cause.NEEDED
            | Cause.QUOTA
            | Cause.REFUSED
        ):
            return str(cause.value)
        case _:
            assert_never(cause)


def _waits(move: BindingMove, state: MoveState, leader: LeaderMoves, now: datetime) -> Iterator[WaitReason]:
    if state.held_down(now) and state.reason is not MoveReason.FAILOVER:
        yield WaitReason("held-down", "an earlier move did not last", until=state.held_down_until)
    cause = next((each for each in Cause if each.value == state.cause), None)
    if state.phase is MovePhase.ELIGIBLE:
        word = "place" if cause is None else _wait_word(cause) or "place"
        yield WaitReason(word, state.message or "no cluster can hold the workload")
        return
    if cause is not None and (word := _wait_word(cause)):
        yield WaitReason(word, state.message)
        return
    if state.until is not None and state.until > now:
        yield WaitReason("stabilising", "the place must last before the move begins", until=state.until)
    if leader.config is None or move.candidate is None:
        return
    reference = holder(move.binding.metadata)
    annotations = {} if reference is None else (leader.annotations or {}).get(reference, {})
    candidate = replace(move.candidate, pause=pause_of(annotations))
    budgets = Budgets(leader.config)
    found = budgets.waits(candidate, leader.counted, now, leader.totals)
    if not found and (behind := budgets.gives_way(candidate, leader.drains, leader.active, now, leader.totals)):
        found = [behind]
    yield from (_wait_reason(each, now) for each in found)
    waits = state.held_down(now) or (state.until is not None and state.until > now)
    if not found and not waits and leader.annotations is not None:
        yield WaitReason("controller", _NEXT_LOOK)


def _wait_reason(waiting: Waiting, now: datetime) -> WaitReason:
    until = None
    if waiting.cause == "window":
        until = (now + timedelta(seconds=waiting.retry_after_s)).replace(microsecond=0)
    return WaitReason(waiting.cause, waiting.reason, waiting.budget, until)


def budget_uses(
    leader: LeaderMoves, waits: Iterable[Sequence[WaitReason]], now: datetime, reader: Reader = ANY_READER
) -> list[BudgetUse] | None:
    """Return the budgets and the moves that count against them; None if the budgets are not known.

    Args:
        reader: the reader. Namespaces and policies that they may not see have no names, and neither have budgets that
            apply to no workload of theirs: the name can say whose workloads it is about. The numbers count all.
    """
    if leader.config is None:
        return None
    waiting = Counter(name for reasons in waits for name in {each.budget for each in reasons})
    uses = [_use(each, leader, waiting[each.name], now, reader) for each in leader.config.budgets]
    hidden = [number for number, each in enumerate(leader.config.budgets) if not _may_apply(each.selector, reader)]
    for count, number in enumerate(hidden, start=1):
        uses[number] = msgspec.structs.replace(uses[number], name=_HIDDEN_BUDGET.format(count))
    return uses


def _may_apply(selector: MoveSelector, reader: Reader) -> bool:
    """Return whether a budget can apply to a workload that the reader may see, as far as names say.

    A cluster-scoped policy can hold workloads of any namespace.
    """
    by_namespace = not selector.namespaces or any(map(reader.sees, selector.namespaces))
    return by_namespace and (
        not selector.policies or any("/" not in each or reader.sees_policy(each) for each in selector.policies)
    )


def _use(budget: Budget, leader: LeaderMoves, waiting: int, now: datetime, reader: Reader) -> BudgetUse:
    counted = [each for each in leader.active if budget.selector.matches(each.subject)]
    totals, policies = leader.totals or {}, (each.subject.policy for each in counted)
    namespaces = (each.subject.namespace for each in counted)
    return BudgetUse(
        name=budget.name,
        selects=_selected(budget.selector, reader),
        limits_failover=budget.limits_failover,
        moves=len(counted),
        max_moves=budget.max_moves,
        by_policy=_seen_by(reader.sees_policy, _counts(policies, budget.max_moves_per_policy), _HIDDEN_POLICY),
        max_moves_per_policy=budget.max_moves_per_policy,
        by_namespace=_by_namespace(reader, _counts(namespaces, budget.max_moves_per_namespace)),
        max_moves_per_namespace=budget.max_moves_per_namespace,
        from_clusters=_counts((name for each in counted for name in each.sources), budget.max_moves_from_cluster),
        max_moves_from_cluster=budget.max_moves_from_cluster,
        to_clusters=_counts((name for each in counted for name in each.targets), budget.max_moves_to_cluster),
        max_moves_to_cluster=budget.max_moves_to_cluster,
        replicas_moving=sum(each.moving for each in counted),
        replicas=totals.get(budget.name),
        replicas_percent=budget.replicas_percent,
        windows=[
            WindowUse(each.schedule, int(each.duration_s), each.time_zone, each.is_open(now), each.next_start(now))
            for each in budget.windows
        ],
        opens_at=budget.openings.opens_at(now),
        waiting=waiting,
    )


def _counts(names: Iterable[str], limit: int | None) -> dict[str, int]:
    return {} if limit is None else dict(sorted(Counter(names).items()))


def _seen_by(sees: Callable[[str], bool], counts: Mapping[str, int], others: str) -> dict[str, int]:
    """Return the moves by name. Of the names that the reader may not see, the one with the most moves counts."""
    seen = {name: count for name, count in counts.items() if sees(name)}
    hidden = [count for name, count in counts.items() if name not in seen]
    return {**seen, **({others: max(hidden)} if hidden else {})}


def _by_namespace(reader: Reader, counts: Mapping[str, int]) -> dict[str, int]:
    seen = _seen_by(reader.sees, counts, _HIDDEN_NAMESPACE)
    return {name or _NO_NAMESPACE: count for name, count in seen.items()}


def _selected(selector: MoveSelector, reader: Reader) -> str:
    """Return which workloads a selector matches, in words."""
    parts = [
        _names(noun, plural, names, sees)
        for noun, plural, names, sees in (
            ("namespace", "namespaces", selector.namespaces, reader.sees),
            ("policy", "policies", selector.policies, reader.sees_policy),
            ("kind", "kinds", selector.kinds, bool),
        )
        if names
    ]
    parts += [str(each) for each in selector.requirements]
    return "; ".join(parts) or "all workloads"


def _names(noun: str, plural: str, names: Iterable[str], sees: Callable[[str], bool]) -> str:
    """Return the names that a reader may see, and how many others there are, with what they are names of."""
    listed = sorted(names)
    seen = [each for each in listed if sees(each)]
    hidden = len(listed) - len(seen)
    shown = f"{plural if len(seen) > 1 else noun} {name_list(seen)}"
    if not seen:
        return f"{hidden} {plural if hidden > 1 else noun} that you may not see"
    return f"{shown} and {hidden} that you may not see" if hidden else shown


def percent_totals(config: MovesConfig | None, scheduler: str, bindings: Iterable[Binding]) -> dict[str, int] | None:
    """Return the replicas that each budget with a percentage selects; None if no budget has one.

    Only the bindings of the scheduler count.
    """
    if config is None or not (budgets := Budgets(config)).needs_totals:
        return None
    return budgets.totals(each for each in bindings if names_scheduler(each, scheduler))


@dataclass(frozen=True, slots=True)
class KnownMoves:
    """What is known about moves.

    Attributes:
        moves: the moves of all bindings.
        totals: returns the replicas that each budget with a percentage selects, as ``percent_totals`` of all bindings.
        lease: what the lease of the controllers records; None if it is not known.
        annotations: the annotations of policies; None if they are not known.
        gaps: what is not known and what follows, one sentence each.
        complete: whether the bindings are those of all namespaces. Otherwise the use of budgets is not known.
    """

    moves: Collection[BindingMove]
    totals: Callable[[MovesConfig | None, str], Mapping[str, int] | None]
    lease: LeaseRecord | None
    now: datetime
    annotations: Mapping[PolicyReference, Mapping[str, str]] | None = None
    gaps: tuple[str, ...] = ()
    complete: bool = True


class MoveTotals(NamedTuple):
    """How many moves there are.

    Attributes:
        states: the number in each state, by its value, of all that the reader may see.
    """

    states: dict[str, int]
    matched: int


def moves_report(known: KnownMoves, query: MoveQuery = MoveQuery()) -> tuple[MovesReport, MoveTotals]:  # noqa: B008
    """Return the report, and how many bindings have a move.

    Args:
        query: which moves the report lists. The default is all; the first ones move, then come those that wait.
    """
    config, gaps = _config(known)
    lease = known.lease
    sources = lease.sources if lease is not None else None
    braked = lease.brake.reason if lease is not None else ""
    totals = None if sources is None else known.totals(config, sources.scheduler)
    active = [each.candidate for each in known.moves if each.candidate is not None and each.is_counted]
    drains = [each.candidate for each in known.moves if each.candidate is not None and each.is_waiting_drain]
    leader = LeaderMoves(config, braked, active, known.annotations, totals, drains)
    reader, context = Reader(query.namespaces), RowContext(known.now, braked)
    moves = stated_moves((each for each in known.moves if reader.sees(each.binding.metadata.namespace)), context)
    waits = {id(each.move): waits_for(each.move, leader, known.now) for each in moves}
    matched = query.sorted([each for each in moves if query.accepts(each)])
    shown = matched[query.offset : None if query.limit is None else query.offset + query.limit]
    report = MovesReport(
        known.now,
        brake_report(lease.brake if lease is not None else None),
        visible_sources(lease, reader),
        [row_of(each, context, waits[id(each.move)]) for each in shown],
        [*known.gaps, *texts(gaps, reader)],
        budget_uses(leader, waits.values(), known.now, reader),
        ControllersReport() if lease is None else ControllersReport(lease.renewed_at, lease.silent(known.now)),
    )
    return report, MoveTotals(dict(Counter(each.state.value for each in moves)), len(matched))


def visible_sources(lease: LeaseRecord | None, reader: Reader) -> SourcesRecord | None:
    """Return the sources without the budgets, which the report has with their use, and without names in rules."""
    if lease is None or lease.sources is None:
        return None
    problem = lease.sources.problem
    if problem and reader.namespaces is not None:
        problem = "the log of the controllers says why"
    return msgspec.structs.replace(lease.sources, budgets=None, move_rules=None, problem=problem)


def _config(known: KnownMoves) -> tuple[MovesConfig | None, list[Gap]]:
    """Return the configuration of the leader as far as its lease records it, and what is not known."""
    if known.lease is None or not known.complete:
        return None, []
    sources = known.lease.sources
    if sources is None:
        return MovesConfig(), []  # a leader without a file uses the defaults
    pause = _PAUSES.get(sources.pause)
    if pause is None:
        return None, [Gap(GapKind.UNKNOWN_PAUSE, facts={"pause": repr(sources.pause)})]
    if sources.budgets is None:
        return None, [Gap(GapKind.NO_BUDGETS)]
    try:
        return replace(MovesConfig(), pause=pause, budgets=budgets_of(sources.budgets)), []
    except InputError as error:
        return None, [Gap(GapKind.INVALID_BUDGETS, None, {"error": str(error)})]
