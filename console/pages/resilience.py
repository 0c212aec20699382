"""The page Resilience: what each failure of a region, provider, zone or cluster alone would do."""

from typing import Final

from flask import Blueprint, Response, make_response, render_template, request

from berthmaster.native_api.wire import Progress
from berthmaster.simulation.plan_answer import Switch
from console.context import services
from console.pages import downloads
from console.pages.resilience_model import DOMAINS, PLURALS, ROWS, SWITCHES, resilience_page
from console.query import PageQuery
from console.source import SourceError

BLUEPRINT: Final = Blueprint("resilience", __name__)
_MOST: Final = 1000
_LEAST_S: Final = 3
_MOST_S: Final = 15


@BLUEPRINT.get("/resilience")
def show() -> Response | str:
    """Show the failures, the worst first. While the extender simulates them, the page asks again by itself."""
    query = PageQuery(request.args)
    failover = Switch(query.choice("failover", [each.value for each in Switch], Switch.AUTO.value))
    by, page = query.choice("by", DOMAINS, DOMAINS[0]), query.page()
    try:
        view = services().source.resilience([by], limit=_MOST, failover=failover)
    except SourceError as error:
        if error.progress is None or downloads.wanted():
            raise
        text = "What the loss of each single cluster, zone, region or provider would do now. Nothing is changed."
        return waiting("Resilience", text, error.progress, by=by, failover=failover, domains=PLURALS, switches=SWITCHES)
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


def waiting(title: str, text: str, progress: Progress, **navigation: object) -> Response:
    """Return a page with the progress of its answer. The header Refresh reloads it, also in a browser without scripts.

    The page asks again when the result may be there, and at the latest after some seconds.
    """
    passed_s = (services().clock.now() - progress.begun_at).total_seconds()
    rest_s = passed_s * (progress.total - progress.done) / progress.done if progress.done else passed_s
    page = make_response(render_template("waiting.html", title=title, text=text, progress=progress, **navigation))
    page.headers["Refresh"] = str(round(min(max(rest_s, _LEAST_S), _MOST_S)))
    return page
