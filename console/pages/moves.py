"""The page Moves: what moves, what waits and for what, and the budgets, windows and the brake that decide it."""

from typing import Final

from flask import Blueprint, render_template, request

from berthmaster.model.move import MoveReason
from console.context import services
from console.pages.moves_model import STATES, MoveFilter, moves_page
from console.query import PageQuery

BLUEPRINT: Final = Blueprint("moves", __name__)
_MOST: Final = 1000
_REASONS: Final = tuple(each.value for each in MoveReason)


@BLUEPRINT.get("/moves")
def show() -> str:
    """Show the moves."""
    query = PageQuery(request.args, ("state", "reason", "cluster", "q", "page"))
    wanted = MoveFilter(
        query.choice("state", tuple(STATES), ""),
        query.choice("reason", _REASONS, ""),
        query.text("cluster"),
        query.text("q"),
    )
    page, rows = query.page(), services().options.page_rows
    model = moves_page(services().source.moves(limit=_MOST), wanted, page, rows)
    return render_template("moves.html", model=model, wanted=wanted, states=STATES, page=page, page_rows=rows)
