"""The page Moves: what moves, what waits and for what, and the budgets, windows and the brake that decide it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from flask import Blueprint, Response, render_template, request

from berthmaster.model.move import MoveReason
from berthmaster.native_api.why import MovesView
from berthmaster.views.move_rows import BudgetUse, MoveQuery, MoveSort, RowState
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
_PAUSES: Final = {"All": "all moves", "Planned": "planned moves; failovers continue"}


class LimitUse(NamedTuple):
    """A limit of a budget and its use. Of limits for each policy or cluster, it is the one that is used most."""

    used: int
    limit: int
    text: str


class Notice(NamedTuple):
    """What stops moves, at the top of the page. ``since`` is None if it is not known."""

    kind: str
    title: str
    text: str
    remedy: str = ""
    since: datetime | None = None


def notices(view: MovesView) -> Iterator[Notice]:
    """Yield what stops moves."""
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


def changed(these: Mapping[str, int], others: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the clusters of one side, those first whose replicas differ on the other side."""
    return sorted(these.items(), key=lambda pair: (others.get(pair[0]) == pair[1], pair[0]))


def limits_of(use: BudgetUse) -> Iterator[LimitUse]:
    """Yield the limits of a budget."""
    if use.max_moves is not None:
        yield LimitUse(use.moves, use.max_moves, f"{use.moves:,} of {use.max_moves:,} moves")
    yield from _largest("moves of", use.by_policy, use.max_moves_per_policy, "moves of one policy")
    yield from _largest("leaving", use.from_clusters, use.max_moves_from_cluster, "moves leaving one cluster")
    yield from _largest("arriving at", use.to_clusters, use.max_moves_to_cluster, "moves arriving at one cluster")
    yield from _percent(use)


def _largest(label: str, used: Mapping[str, int], limit: int | None, unused: str) -> Iterator[LimitUse]:
    if limit is None:
        return
    if not used:
        yield LimitUse(0, limit, f"0 of {limit:,} {unused}")
        return
    name = min(used, key=lambda each: (-used[each], each))
    yield LimitUse(used[name], limit, f"{used[name]:,} of {limit:,} {label} {name}")


def _percent(use: BudgetUse) -> Iterator[LimitUse]:
    if use.replicas_percent is None:
        return
    if use.replicas is None:
        text = f"{use.replicas_moving:,} replicas move; at most {use.replicas_percent} % of all may"
        yield LimitUse(0, 1, text)
        return
    limit = use.replicas * use.replicas_percent // 100
    text = f"{use.replicas_moving:,} of {limit:,} replicas ({use.replicas_percent} % of {use.replicas:,})"
    yield LimitUse(use.replicas_moving, limit, text)


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
        "moves.html", view=view, notices=notices(view), states={each.word: each.value for each in RowState},
        badges=BADGES, phases=PHASES, limits_of=limits_of, changed=changed,
        wanted=wanted, sort=sort, reasons=_REASONS, paging=paging,
    )  # fmt: skip
