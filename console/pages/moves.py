"""The page Moves: what moves, what waits and for what, and the budgets, windows and the brake that decide it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from flask import Blueprint, Response, render_template, request

from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.model.move import MoveReason
from berthmaster.native_api.why import MovesView
from berthmaster.views.move_rows import BudgetUse, MoveQuery, MoveRow, MoveSort, RowState
from console.context import services
from console.pages import downloads, lists
from console.query import PageQuery

BADGES: Final[Mapping[RowState, str]] = {
    RowState.OVERDUE: "bad",
    RowState.MOVING: "busy",
    RowState.WAITING: "warn",
    RowState.BLOCKED: "bad",
    RowState.HELD_DOWN: "warn",
    RowState.DONE: "good",
    RowState.INVALID: "bad",
}
PHASES: Final[Mapping[str, str]] = {
    "Eligible": "should move, and cannot yet",
    "Stabilising": "a place exists and must last for some time",
    "Admitted": "the old copies are being removed",
    "Surging": "the new copies start beside the old ones",
    "Soaking": "the new copies are healthy and must stay so",
    "Released": "ended well",
    "RolledBack": "failed; the old assignment is restored",
    "HeldDown": "no move starts for some time",
}
_SHOWN_CLUSTERS: Final = 6
_PAUSES: Final = {"All": "all moves", "Planned": "planned moves; failovers continue"}


class MoveLine(NamedTuple):
    """One move.

    Attributes:
        place: namespace and name of the binding as addresses have them.
    """

    row: MoveRow
    place: tuple[str, str]
    badge: str
    meaning: str
    leaves: Sequence[tuple[str, int]]
    arrives: Sequence[tuple[str, int]]
    more: int
    held_down_until: datetime | None


class LimitLine(NamedTuple):
    """A limit of a budget and its use."""

    label: str
    used: int
    limit: int
    text: str

    @property
    def reached(self) -> bool:
        return self.used >= self.limit


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A budget.

    Attributes:
        limits: its limits. Of limits for each policy or cluster, those that are used most.
    """

    use: BudgetUse
    limits: Sequence[LimitLine]
    open: bool


class Notice(NamedTuple):
    """What stops moves, at the top of the page. ``since`` is None if it is not known."""

    kind: str
    title: str
    text: str
    remedy: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class MovesPage:
    """The page.

    Attributes:
        counts: how many moves there are in each state: the word for the address, the state, the number.
    """

    notices: Sequence[Notice]
    brake: bool | None
    modes: Sequence[tuple[str, str]]
    counts: Sequence[tuple[str, str, int]]
    budgets: Sequence[BudgetLine] | None
    lines: Sequence[MoveLine]
    gaps: Sequence[str]


def moves_page(view: MovesView) -> MovesPage:
    """Return what the page shows of the extender's answer."""
    sources = view.sources
    return MovesPage(
        notices=list(_notices(view)),
        brake=view.brake.engaged,
        modes=[]
        if sources is None
        else [("Failback", sources.failback), ("Drain", sources.drain), ("Rebalance", sources.rebalance)],
        counts=[(state.word, state.value, view.counts.get(state.value, 0)) for state in RowState],
        budgets=None if view.budgets is None else [_budget(each) for each in view.budgets],
        lines=[_line(each) for each in view.moves],
        gaps=view.gaps,
    )


def _notices(view: MovesView) -> Iterator[Notice]:
    if view.controllers.silent:
        yield Notice(
            "bad",
            "No controller has renewed its lease. No move starts, continues or ends.",
            "",
            "Look at the pods of berthmaster controllers, and at their logs.",
            view.controllers.renewed_at,
        )
    if view.brake.engaged:
        yield Notice(
            "bad",
            "The storm brake is engaged: nothing is evicted or moved.",
            view.brake.reason,
            "It ends when the clusters are back. If they are lost for good: berthmaster moves resume",
            view.brake.since,
        )
    sources = view.sources
    if sources is None:
        return
    if sources.problem:
        yield Notice("warn", "The configuration of moves is invalid. An earlier one is in use.", sources.problem)
    if sources.pause in _PAUSES:
        yield Notice("warn", f"The configuration pauses {_PAUSES[sources.pause]}.", "")


def _line(row: MoveRow) -> MoveLine:
    leaves, arrives = _changed(row.source, row.target), _changed(row.target, row.source)
    return MoveLine(
        row=row,
        place=(row.namespace or CLUSTER_SCOPED, row.binding),
        badge=BADGES[row.state],
        meaning=PHASES.get(row.phase, ""),
        leaves=leaves[:_SHOWN_CLUSTERS],
        arrives=arrives[:_SHOWN_CLUSTERS],
        more=max(0, len(leaves) - _SHOWN_CLUSTERS) + max(0, len(arrives) - _SHOWN_CLUSTERS),
        held_down_until=row.held_down_until if row.state is RowState.HELD_DOWN or row.failures else None,
    )


def _changed(these: Mapping[str, int], others: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the clusters of one side, those first whose replicas differ on the other side."""
    return sorted(these.items(), key=lambda pair: (others.get(pair[0]) == pair[1], pair[0]))


def _budget(use: BudgetUse) -> BudgetLine:
    limits = [
        *_limit("moves", use.moves, use.max_moves),
        *_largest("moves of", use.by_policy, use.max_moves_per_policy, "moves of one policy"),
        *_largest("leaving", use.from_clusters, use.max_moves_from_cluster, "moves leaving one cluster"),
        *_largest("arriving at", use.to_clusters, use.max_moves_to_cluster, "moves arriving at one cluster"),
        *_percent(use),
    ]
    return BudgetLine(use, limits, use.opens_at is None)


def _limit(label: str, used: int, limit: int | None) -> Iterator[LimitLine]:
    if limit is not None:
        yield LimitLine(label, used, limit, f"{used:,} of {limit:,} {label}")


def _largest(label: str, used: Mapping[str, int], limit: int | None, unused: str) -> Iterator[LimitLine]:
    if limit is None:
        return
    if not used:
        yield LimitLine(unused, 0, limit, f"0 of {limit:,} {unused}")
        return
    name = min(used, key=lambda each: (-used[each], each))
    yield LimitLine(f"{label} {name}", used[name], limit, f"{used[name]:,} of {limit:,} {label} {name}")


def _percent(use: BudgetUse) -> Iterator[LimitLine]:
    if use.replicas_percent is None:
        return
    if use.replicas is None:
        text = f"{use.replicas_moving:,} replicas move; at most {use.replicas_percent} % of all may"
        yield LimitLine("replicas", 0, 1, text)
        return
    limit = use.replicas * use.replicas_percent // 100
    text = f"{use.replicas_moving:,} of {limit:,} replicas ({use.replicas_percent} % of {use.replicas:,})"
    yield LimitLine("replicas", use.replicas_moving, limit, text)


BLUEPRINT: Final = Blueprint("moves", __name__)
_REASONS: Final = tuple(each.value for each in MoveReason)
_STATES: Final = {each.word: each for each in RowState}
_SORTS: Final = tuple(each.value for each in MoveSort)


@BLUEPRINT.get("/moves")
def show() -> Response | str:
    """Show the moves, or all of them as a file."""
    query, size = PageQuery(request.args), services().page_rows
    sort = query.sort(_SORTS, MoveSort.STATE.value)
    wanted = MoveQuery(
        q=query.text("q"),
        state=_STATES.get(query.choice("state", tuple(_STATES), "")),
        reason=query.choice("reason", _REASONS, ""),
        cluster=query.text("cluster"),
        sort=MoveSort(sort.removeprefix("-")),
        descending=sort.startswith("-"),
        limit=size,
    )
    ask = services().source.moves
    rows = partial(downloads.whole, lambda after, most: ask(wanted._replace(offset=after, limit=most)).moves)
    if file := downloads.asked({"moves": rows, "budgets": lambda: ask(wanted).budgets or ()}):
        return file
    view, paging = lists.asked(
        query.page(),
        size,
        lambda offset: ask(wanted._replace(offset=offset)),
        lambda found: (found.matched, sum(found.counts.values())),
    )
    return render_template(
        "moves.html", model=moves_page(view), wanted=wanted, sort=sort, reasons=_REASONS, paging=paging
    )
