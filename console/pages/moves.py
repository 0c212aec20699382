"""The page Moves: what moves, what waits and for what, and the budgets, windows and the brake that decide it."""

from functools import partial
from typing import Final

from flask import Blueprint, Response, render_template, request

from berthmaster.model.move import MoveReason
from berthmaster.views.move_rows import MoveQuery, MoveSort, RowState
from console.context import services
from console.pages import downloads, lists
from console.pages.moves_model import moves_page
from console.query import PageQuery

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
