"""The page Resilience: what each failure of a region, provider, zone or cluster alone would do."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from flask import Blueprint, Response, make_response, render_template, request

from berthmaster.native_api.why import ImpactView
from berthmaster.native_api.wire import Progress
from berthmaster.simulation.plan_answer import Switch
from berthmaster.views.assumption_texts import failover_lines
from berthmaster.views.heat_map import TITLE
from console.context import services
from console.markup import drawn
from console.pages import downloads, lists
from console.pages.plan_model import as_choice
from console.pages.resilience_picture import picture_of
from console.query import PageQuery
from console.question import MAX_ENTRIES, WhatIfQuestion, encoded
from console.source import SourceError

BLUEPRINT: Final = Blueprint("resilience", __name__)
_MOST: Final = 1000
_LEAST_S: Final = 3
_MOST_S: Final = 15
DOMAINS: Final = ("region", "provider", "zone", "cluster")
SWITCHES: Final = {"auto": "Failover as configured", "on": "Failover assumed on", "off": "Failover assumed off"}
PLURALS: Final = {"region": "regions", "provider": "providers", "zone": "zones", "cluster": "clusters"}
ROWS: Final = 15
"""The most failures of one page of the table. Each names workloads and clusters, so that few make a large page."""
_NAMED: Final = 5
_EFFECTS: Final = ("has no other copy", "runs nowhere", "has too few replicas", "stays on a lost cluster")
"""What a failure does to a workload, the worst first."""


def hurt(impact: ImpactView) -> tuple[Sequence[tuple[str, str]], int, bool]:
    """Return what a failure does to workloads.

    Returns:
        Some of the workloads that it leaves without a place or with too few replicas, each with its worst effect; how
        many other ones there are at least; and whether that is exact.
    """
    names = (impact.only_copy, impact.nowhere, impact.short, impact.staying)
    worst: dict[str, str] = {}
    for some, effect in zip(names, _EFFECTS, strict=True):
        worst |= dict.fromkeys((each for each in some if each not in worst), effect)
    named = list(islice(worst.items(), _NAMED))
    return named, max(len(worst), *impact.counts) - len(named), impact.counts == tuple(map(len, names))


def question_of(impact: ImpactView) -> str:
    few = len(impact.clusters) <= MAX_ENTRIES
    lost = tuple(impact.clusters) if few else (f"{impact.domain.value}={impact.name}",)
    return encoded(WhatIfQuestion(lose=lost, failover=impact.assumptions.failover))


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
    if file := downloads.asked({"failures": view.impacts}):
        return file
    # The extender leaves out the names that the visitor may not see. Its counts are of everything.
    shown, paging = lists.cut(view.impacts, page, ROWS, len(view.impacts))
    largest = max((len(each.clusters) for each in view.impacts), default=0)
    return render_template(
        "resilience.html",
        view=view,
        by=by,
        opening=failover_lines(view.assumptions, largest, as_choice),
        picture_title=TITLE,
        picture=drawn(picture_of(view, by)),
        impacts=shown,
        hurt=hurt,
        question_of=question_of,
        paging=paging,
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
