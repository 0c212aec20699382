"""The page Resilience: what each failure of a region, provider, zone or cluster alone would do."""

from typing import Final

from flask import Blueprint, render_template, request

from console.context import services
from console.pages.resilience_model import DOMAINS, PLURALS, resilience_page
from console.query import PageQuery

BLUEPRINT: Final = Blueprint("resilience", __name__)
_MOST: Final = 1000


@BLUEPRINT.get("/resilience")
def show() -> str:
    """Show the failures, the worst first."""
    query = PageQuery(request.args, ("by", "page"))
    by, page = query.choice("by", DOMAINS, DOMAINS[0]), query.page()
    rows = services().options.page_rows
    model = resilience_page(services().source.resilience([by], limit=_MOST), by, page, rows)
    return render_template("resilience.html", model=model, domains=PLURALS, page=page, page_rows=rows)
