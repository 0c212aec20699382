"""The page Moves: what moves, what waits and for what, and the budgets, windows and the brake that decide it."""

from collections.abc import Iterator, Mapping
from typing import Final

from flask import Blueprint, Response, render_template, request

from berthmaster.model.move import MovePhase, MoveReason
from berthmaster.views.move_rows import BudgetUse, MoveQuery, MoveSort, RowState
from berthmaster.views.words import move_phase_words
from console.commands import STUCK
from console.context import services
from console.pages import downloads, lists
from console.query import PageQuery

BLUEPRINT: Final = Blueprint("moves", __name__)
_REASONS: Final = tuple(each.value for each in MoveReason)
_STATES: Final = {each.word: each for each in RowState}
_SORTS: Final = tuple(each.value for each in MoveSort)
BADGES: Final[Mapping[RowState, str]] = {
    RowState.OVERDUE: "bad",
    RowState.MOVING: "busy",
    RowState.WAITING: "warn",
    RowState.BLOCKED: "bad",
    RowState.HELD_DOWN: "warn",
    RowState.DONE: "good",
    RowState.INVALID: "bad",
}


def changed(these: Mapping[str, int], others: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the clusters of one side, those first whose replicas differ on the other side."""
    return sorted(these.items(), key=lambda pair: (others.get(pair[0]) == pair[1], pair[0]))


def limits_of(use: BudgetUse) -> Iterator[tuple[int, int, str]]:
    """Yield the limits of a budget: what is used, the limit, and both in words.

    Of limits for each policy or cluster, it is the one that is used most.
    """
    if use.max_moves is not None:
        yield use.moves, use.max_moves, f"{use.moves:,} of {use.max_moves:,} moves"
    for used, limit, label, unused in (
        (use.by_policy, use.max_moves_per_policy, "moves of", "moves of one policy"),
        (use.by_namespace, use.max_moves_per_namespace, "moves of", "moves of one namespace"),
        (use.from_clusters, use.max_moves_from_cluster, "leaving", "moves leaving one cluster"),
        (use.to_clusters, use.max_moves_to_cluster, "arriving at", "moves arriving at one cluster"),
    ):
        if limit is not None and used:
            name = min(used, key=lambda each, used=used: (-used[each], each))  # type: ignore[misc]
            yield used[name], limit, f"{used[name]:,} of {limit:,} {label} {name}"
        elif limit is not None:
            yield 0, limit, f"0 of {limit:,} {unused}"
    percent, moving = use.replicas_percent, use.replicas_moving
    if percent is not None and use.replicas is None:
        yield 0, 1, f"{moving:,} replicas move; at most {percent} % of all may"
    elif percent is not None and use.replicas is not None:
        limit = use.replicas * percent // 100
        yield moving, limit, f"{moving:,} of {limit:,} replicas ({percent} % of {use.replicas:,})"


@BLUEPRINT.get("/moves")
def show() -> Response | str:
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
    rows = downloads.whole(lambda after, most: ask(wanted._replace(offset=after, limit=most)).moves)
    budgets = downloads.whole(lambda _after, _most: ask(wanted).budgets or ())
    if file := downloads.asked({"moves": rows, "budgets": budgets}):
        return file
    view, paging = lists.asked(
        query.page(),
        size,
        lambda offset: ask(wanted._replace(offset=offset)),
        lambda found: (found.matched, sum(found.counts.values())),
    )
    return render_template(
        "moves.html", view=view, states={each.word: each.value for each in RowState},
        badges=BADGES, phases={each.value: move_phase_words(each) for each in MovePhase}, limits_of=limits_of,
        changed=changed, stuck=STUCK,
        wanted=wanted, sort=sort, reasons=_REASONS, paging=paging,
    )  # fmt: skip
