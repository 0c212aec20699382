"""Admissions: which moves may begin. ``Admissions`` counts the moves under way in each budget.

All budgets that select a binding apply to its move, so the strictest wins. Outside of its windows a budget is closed.
A move under way is never stopped by a budget: a window that ends or a limit that is lowered stops only the next moves.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.move_selector import MoveSubject, subject_of
from berthmaster.deciding.pause import Pause, pause_annotation
from berthmaster.model.binding import Binding
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.meta import Key
from berthmaster.model.move import PAUSE, MoveReason, MoveState, as_moved

RETRY_S: Final = 15.0
"""When to ask again if a limit is reached. The end of a move may make place earlier."""
_LONGEST_RETRY_S: Final = 300.0
_DRAIN_KEPT_S: Final = 2 * RETRY_S
"""For how long other moves give way to a drain that waits, and does not ask again."""
_MAX_DRAINS: Final = 1_000
"""The most waiting drains that one move is compared with."""
_REASONS_SHOWN: Final = 3
_PLACES: Final = frozenset({"limit", "starting"})
"""The causes for which a move waits that a place may end."""
QUIET_S: Final = 60.0
"""The longest time that an API server works on a write (its default), which includes the timeout of our client."""


@dataclass(frozen=True, slots=True)
class MoveCandidate:
    """A move that wants to begin, or is under way."""

    key: tuple[str, str]
    subject: MoveSubject
    reason: MoveReason
    sources: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[str, int] = field(default_factory=dict)
    pause: Pause = "None"

    @property
    def moving(self) -> int:
        return max(sum(self.sources.values()), sum(self.targets.values()))


def candidate_of(key: tuple[str, str], binding: Binding, state: MoveState, pause: Pause = "None") -> MoveCandidate:
    """Return the move of a binding as budgets see it."""
    return MoveCandidate(key, subject_of(binding), state.reason, state.leaving, state.arriving, pause)


def pause_of(annotations: Mapping[str, str]) -> Pause:
    """Return which moves the annotations of a policy pause."""
    text = annotations.get(PAUSE)
    if text is None:
        return "None"
    try:
        return pause_annotation(text)
    except InputError:
        return "Planned"  # a pause that cannot be read was meant to pause something


class Waiting(NamedTuple):
    """The move has to wait.

    Attributes:
        cause: the kind of the reason, for metrics: ``paused``, ``window``, ``limit``, ``starting`` or ``brake``.
        budget: the name of the budget; empty for other causes, and for several budgets.
        about: the names and times that the reason is about. Numbers that change all the time are not part of it.
    """

    reason: str
    retry_after_s: float
    cause: str = "limit"
    budget: str = ""
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedMoves:
    """The moves under way that count against one budget."""

    moves: int
    replicas: int
    by_policy: Counter[str]
    by_namespace: Counter[str]
    leaving: Counter[str]
    arriving: Counter[str]


class Budgets:
    """Decides which moves may begin."""

    def __init__(self, config: MovesConfig) -> None:
        self._config = config
        self.needs_totals = any(each.replicas_percent is not None for each in config.budgets)

    def totals(self, bindings: Iterable[Binding]) -> dict[str, int]:
        """Return the replicas that each budget with a percentage selects, of all bindings of the scheduler."""
        limited = [each for each in self._config.budgets if each.replicas_percent is not None]
        found = {each.name: 0 for each in limited}
        for binding in bindings if limited else ():
            subject, replicas = subject_of(binding), sum(as_moved(binding).assignment.values())
            for budget in limited:
                if budget.selector.matches(subject):
                    found[budget.name] += replicas
        return found

    def admit(
        self,
        candidate: MoveCandidate,
        active: Iterable[MoveCandidate],
        now: datetime,
        totals: Mapping[str, int] | None = None,
    ) -> Waiting | None:
        """Return what a move waits for, in one answer for all reasons; None if it may begin.

        Args:
            active: all moves under way. An entry with the candidate's key does not count against it.
            totals: the result of ``totals``. A budget with a percentage is closed without it.
        """
        others = (each for each in active if each.key != candidate.key)
        found = self.waits(candidate, self.counted(others, candidate.subject), now, totals)
        if not found:
            return None
        return found[0] if found[0].cause == "paused" else _joined(found)

    def gives_way(
        self,
        candidate: MoveCandidate,
        drains: Iterable[MoveCandidate],
        active: Sequence[MoveCandidate],
        now: datetime,
        totals: Mapping[str, int] | None = None,
    ) -> Waiting | None:
        """Return that a move that may begin waits for a drain: one that could begin now, and could not beside it.

        Args:
            drains: the drains that wait.
            active: all moves under way.
        """
        if not candidate.reason.gives_way:
            return None
        others = [each for each in active if each.key != candidate.key]
        without, beside = self.counted(others), self.counted([*others, candidate])
        for drain in islice(drains, _MAX_DRAINS):
            if not self.waits(drain, without, now, totals) and self.waits(drain, beside, now, totals):
                return Waiting("a drain waits for the same place, and drains come first", RETRY_S, about=("drains",))
        return None

    def counted(self, active: Iterable[MoveCandidate], subject: MoveSubject | None = None) -> dict[int, CountedMoves]:
        """Return the moves that count against each budget that selects ``subject``, by the budget's position."""
        moves = list(active)
        return {
            number: _counted([each for each in moves if budget.selector.matches(each.subject)])
            for number, budget in enumerate(self._config.budgets)
            if subject is None or budget.selector.matches(subject)
        }

    def waits(
        self,
        candidate: MoveCandidate,
        counted: Mapping[int, CountedMoves],
        now: datetime,
        totals: Mapping[str, int] | None = None,
    ) -> list[Waiting]:
        """Return each reason why a move must wait. ``counted`` has the moves under way, without this one."""
        if (paused := self._paused(candidate)) is not None:
            return [paused]
        return [
            each
            for number, budget in enumerate(self._config.budgets)
            if budget.selector.matches(candidate.subject)
            for each in _waits(budget, candidate, counted[number], now, totals)
        ]

    def limits(self, candidate: MoveCandidate) -> bool:
        """Whether any budget can let a move wait. A failover waits only for budgets that say so."""
        return any(
            each.selector.matches(candidate.subject)
            and (candidate.reason != MoveReason.FAILOVER or each.limits_failover)
            for each in self._config.budgets
        )

    def _paused(self, candidate: MoveCandidate) -> Waiting | None:
        for pause, place in ((self._config.pause, "the configuration"), (candidate.pause, "its policy")):
            if pause == "All" or (pause == "Planned" and candidate.reason != MoveReason.FAILOVER):
                return Waiting(
                    f"{place} pauses {'all' if pause == 'All' else 'planned'} moves",
                    60.0,
                    "paused",
                    about=(place, pause),
                )
        return None


def _joined(waits: Sequence[Waiting]) -> Waiting:
    """Return one answer for several: all reasons, and the latest time that is known."""
    reasons = list(dict.fromkeys(each.reason for each in waits))
    # A window is the reason that lasts longest: it is the cause that people look for first.
    cause = next((each.cause for each in waits if each.cause == "window"), waits[0].cause)
    return Waiting(
        "; ".join(reasons[:_REASONS_SHOWN]),
        min(max(each.retry_after_s for each in waits), _LONGEST_RETRY_S),
        cause,
        about=tuple(about for each in waits for about in each.about),
    )


def _waits(
    budget: Budget,
    candidate: MoveCandidate,
    counted: CountedMoves,
    now: datetime,
    totals: Mapping[str, int] | None,
) -> Iterator[Waiting]:
    failover = candidate.reason == MoveReason.FAILOVER
    if not failover and (opens_at := budget.openings.opens_at(now)) is not None:
        wait_s = (opens_at - now).total_seconds()
        reason = f"budget {budget.name}: its window opens at {_utc(opens_at)}"
        yield Waiting(reason, max(1.0, wait_s), "window", budget.name, (budget.name, _utc(opens_at)))
    if failover and not budget.limits_failover:
        return
    for reason in _limits_reached(budget, candidate, counted, totals):
        yield Waiting(f"budget {budget.name}: {reason}", RETRY_S, budget=budget.name, about=(budget.name,))


def _counted(moves: Sequence[MoveCandidate]) -> CountedMoves:
    return CountedMoves(
        len(moves),
        sum(each.moving for each in moves),
        Counter(each.subject.policy for each in moves),
        Counter(each.subject.namespace for each in moves),
        Counter(name for each in moves for name in each.sources),
        Counter(name for each in moves for name in each.targets),
    )


def _limits_reached(
    budget: Budget, candidate: MoveCandidate, counted: CountedMoves, totals: Mapping[str, int] | None
) -> Iterator[str]:
    if _reached(budget.max_moves, counted.moves):
        yield f"{_moves(counted.moves)} under way, at most {budget.max_moves}"
    policy = candidate.subject.policy
    same = counted.by_policy[policy]
    if _reached(budget.max_moves_per_policy, same):
        whose = f"policy {policy}" if policy else "workloads without a known policy"
        yield f"{_moves(same)} of {whose} under way, at most {budget.max_moves_per_policy}"
    namespace = candidate.subject.namespace
    same = counted.by_namespace[namespace]
    if _reached(budget.max_moves_per_namespace, same):
        whose = f"namespace {namespace}" if namespace else "cluster-scoped resources"
        yield f"{_moves(same)} of {whose} under way, at most {budget.max_moves_per_namespace}"
    full = _full_clusters(budget.max_moves_from_cluster, candidate.sources, counted.leaving)
    if full:
        yield f"at most {budget.max_moves_from_cluster} moves may leave {name_list(full)}"
    full = _full_clusters(budget.max_moves_to_cluster, candidate.targets, counted.arriving)
    if full:
        yield f"at most {budget.max_moves_to_cluster} moves may arrive at {name_list(full)}"
    if budget.replicas_percent is not None:
        total = None if totals is None else totals.get(budget.name)
        yield from _too_many_replicas(budget.replicas_percent, candidate.moving, counted.replicas, total)


def _full_clusters(limit: int | None, wanted: Mapping[str, int], counted: Counter[str]) -> list[str]:
    if limit is None:
        return []
    return sorted(name for name in wanted if counted[name] >= limit)


def _too_many_replicas(percent: int, needed: int, moving: int, total: int | None) -> Iterator[str]:
    if total is None:
        yield "the replicas of its workloads are not counted yet"
        return
    allowed = f"{percent} % of {total} is {total * percent // 100}"
    if needed > total * percent // 100:
        yield f"this move needs {needed} replicas; {allowed}, so it never fits unless the percentage is raised"
    elif moving + needed > total * percent // 100:
        yield f"{moving} replicas are moving and this move needs {needed}; {allowed}"


def _reached(limit: int | None, count: int) -> bool:
    return limit is not None and count >= limit


def _moves(count: int) -> str:
    return f"{count} move{'' if count == 1 else 's'}"


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class _ActiveMove:
    """A move in an observed or written version of its binding."""

    candidate: MoveCandidate
    version: str


class _WaitingDrain(NamedTuple):
    """A drain that waits for a limit, until when on the monotonic clock."""

    candidate: MoveCandidate
    until_s: float


@dataclass(slots=True)
class _Reservation:
    """A move that a write is to begin.

    Attributes:
        guard: the resource version that the write is valid for.
        until_s: when the write can no longer happen; None while its response is awaited.
    """

    candidate: MoveCandidate
    guard: str
    until_s: float | None = None


class Admissions:
    """Counts the moves under way, across leaders and lost responses, and admits new ones. One thread at a time.

    A move is under way if its binding says so, in the annotation that the write of its admission sets. Memory alone is
    never the source. Three gaps remain between the bindings and what this process sees, and each counts as a move:

    - A write under way. The move is *reserved* before the write is sent.
    - A write whose response was lost. It may have been performed, or may still be. The reservation stays until a later
      version of the binding is observed, which shows the result: each write is valid only for one resource version.
      After ``quiet_s`` no server performs it any more, and the watch has delivered it if it was performed.
    - Writes of the previous leader. For ``quiet_s`` after this process became the leader it admits nothing. The
      previous leader sent its last write before this process could lead.

    Versions of other writes can be observed late. An observed version older than a known one changes nothing. API
    servers number versions; a version that is no number counts as newer than all others.
    """

    def __init__(self, budgets: Budgets, leading_since_s: float, quiet_s: float = QUIET_S) -> None:
        """Start without moves. Report all bindings by ``observe`` before the first ``admit``.

        Args:
            leading_since_s: since when this process leads, on the monotonic clock; infinite until ``lead``.
            quiet_s: how long a write can be under way.
        """
        self._budgets = budgets
        self._quiet_s = quiet_s
        self._quiet_until_s = leading_since_s + quiet_s
        self._active: dict[Key, _ActiveMove] = {}
        self._reserved: dict[Key, list[_Reservation]] = {}
        self._causes: dict[Key, str] = {}
        self._drains: dict[Key, _WaitingDrain] = {}

    def lead(self, since_s: float) -> None:
        """Begin to admit moves after the quiet time."""
        self._quiet_until_s = since_s + self._quiet_s

    def cause_of(self, key: Key) -> str:
        """Return the kind of the reason why a move waits, as ``Waiting.cause``; ``stabilising`` if it never asked."""
        return self._causes.get(key, "stabilising")

    def set_budgets(self, budgets: Budgets) -> None:
        """Replace the budgets. Moves under way stay."""
        self._budgets = budgets

    def observe(self, key: Key, move: MoveCandidate | None, version: str) -> None:
        """Record the move in a version of a binding: one that was observed, or that a write returned."""
        self._keep(key, lambda each: not _is_newer(version, each.guard))
        known = self._active.get(key)
        if known is not None and version != known.version and not _is_newer(version, known.version):
            return
        if move is None:
            self._active.pop(key, None)
        else:
            self._active[key] = _ActiveMove(move, version)

    def remove(self, key: Key) -> None:
        self._active.pop(key, None)
        self._reserved.pop(key, None)
        self._causes.pop(key, None)
        self._drains.pop(key, None)

    def admit(
        self,
        candidate: MoveCandidate,
        version: str,
        now: datetime,
        now_s: float,
        totals: Mapping[str, int] | None = None,
    ) -> Waiting | None:
        """Return what a move waits for. If it may begin, reserve it and return None.

        Send the write after this call, valid only for ``version``. Then call ``observe`` with the version that it
        returned, ``refused`` or ``lost``. A move under way whose clusters change is admitted again in the same way.
        """
        found = self._answer(candidate, now, now_s, totals)
        self._drains.pop(candidate.key, None)
        if found is not None:
            if candidate.reason is MoveReason.DRAIN and found.cause in _PLACES:
                self._drains[candidate.key] = _WaitingDrain(candidate, now_s + _DRAIN_KEPT_S)
            self._causes[candidate.key] = found.cause
            return found
        self._causes.pop(candidate.key, None)
        self._reserved.setdefault(candidate.key, []).append(_Reservation(candidate, version))
        return None

    def _answer(
        self, candidate: MoveCandidate, now: datetime, now_s: float, totals: Mapping[str, int] | None
    ) -> Waiting | None:
        if now_s < self._quiet_until_s and self._budgets.limits(candidate):
            left_s = min(self._quiet_until_s - now_s, self._quiet_s)
            return Waiting(
                f"this process has led for less than {self._quiet_s:g} s, and writes of the previous leader may arrive",
                left_s,
                "starting",
            )
        active = self.active(now_s)
        drains = (each.candidate for each in self._drains.values() if each.until_s > now_s)
        return self._budgets.admit(candidate, active, now, totals) or self._budgets.gives_way(
            candidate, drains, active, now, totals
        )

    def refused(self, key: Key) -> None:
        """Release a reservation whose write the API server has certainly not performed.

        An earlier write of the binding whose response was lost stays reserved: the conflict may be with it.
        """
        self._keep(key, lambda each: each.until_s is not None)

    def lost(self, key: Key, now_s: float) -> None:
        """Keep a reservation whose write was sent and whose response is not known."""
        for each in self._reserved.get(key, ()):
            if each.until_s is None:
                each.until_s = now_s + self._quiet_s

    def active(self, now_s: float) -> list[MoveCandidate]:
        """Return every move that is under way or may be. A binding appears once for each of its possible moves."""
        for key in list(self._reserved):
            self._keep(key, lambda each: each.until_s is None or each.until_s > now_s)
        reserved = (each.candidate for found in self._reserved.values() for each in found)
        return [*(each.candidate for each in self._active.values()), *reserved]

    def _keep(self, key: Key, kept: Callable[[_Reservation], bool]) -> None:
        found = [each for each in self._reserved.get(key, ()) if kept(each)]
        if found:
            self._reserved[key] = found
        else:
            self._reserved.pop(key, None)


def _is_newer(version: str, than: str) -> bool:
    """Whether a version is newer than another one. Versions that are no numbers count as newer."""
    if not (version.isdecimal() and than.isdecimal()):
        return version != than
    return int(version) > int(than)
