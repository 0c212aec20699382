"""The page Resilience: what each failure of a region, provider, zone or cluster alone would do."""

from http import HTTPStatus
from typing import Final

from flask import Blueprint, Response, make_response, render_template, request

from berthmaster.simulation.assumptions import Switch
from console.context import services
from console.pages import downloads
from console.pages.resilience_model import DOMAINS, PLURALS, ROWS, SWITCHES, resilience_page
from console.query import PageQuery
from console.source import SourceError

BLUEPRINT: Final = Blueprint("resilience", __name__)
_MOST: Final = 1000
_RETRY_S: Final = "3"


@BLUEPRINT.get("/resilience")
def show() -> Response | str:
    """Show the failures, the worst first. While the extender simulates them, the page asks again by itself."""
    query = PageQuery(request.args)
    failover = Switch(query.choice("failover", [each.value for each in Switch], Switch.AUTO.value))
    by, page = query.choice("by", DOMAINS, DOMAINS[0]), query.page()
    try:
        view = services().source.resilience([by], limit=_MOST, failover=failover)
    except SourceError as error:
        if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return waiting("Resilience", f"The loss of each single {by} is not simulated yet.", error)
    if file := downloads.asked({"failures": lambda: view.impacts}):
        return file
    model = resilience_page(view, by, page, ROWS)
    return render_template(
        "resilience.html",
        model=model,
        outdated=services().version not in {"", view.version},
        domains=PLURALS,
        switches=SWITCHES,
    )


def waiting(title: str, text: str, error: SourceError) -> Response:
    """Return a page without an answer. The header Refresh reloads it, also in a browser without scripts."""
    page = make_response(render_template("waiting.html", title=title, text=text, reason=error.detail or error), 503)
    page.headers["Refresh"] = page.headers["Retry-After"] = _RETRY_S
    return page
