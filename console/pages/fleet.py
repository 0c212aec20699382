"""The page Fleet: all clusters as a map or as a table, and one cluster alone."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from flask import Blueprint, Response, abort, current_app, render_template, request
from flask.blueprints import BlueprintSetupState
from markupsafe import Markup

from berthmaster.native_api.drift import DriftQuery
from berthmaster.native_api.fleet import FleetView, SortKey, WorkloadQuery
from berthmaster.native_api.problems import MAX_PROBLEMS
from berthmaster.native_api.wire import HistoryQuery
from console.answer_cache import AnswerCache
from console.context import services, visitor
from console.optional_answers import NOT_HERE, optional
from console.pages import downloads, fleet_model
from console.pages.problems import RECORDS, SHOWN, WINDOW, ProblemSection, sections
from console.pages.workload_words import sentence
from console.pages.workloads import workload_figures
from console.query import PageQuery

BLUEPRINT: Final = Blueprint("fleet", __name__)
_WORKLOADS: Final = 10
_KEPT: Final = 8
_CACHE: Final = "berthmaster fleet"


class _Drawn(NamedTuple):
    """A page model and its map as HTML. Both take time for a large fleet, and visitors share them."""

    page: fleet_model.FleetPage
    map: Markup


@BLUEPRINT.record_once
def _prepare(state: BlueprintSetupState) -> None:
    state.app.extensions[_CACHE] = AnswerCache(_KEPT)


@BLUEPRINT.get("/fleet")
def show() -> Response | str:
    """Show all clusters, or those that the filters accept as a file."""
    query = PageQuery(request.args)
    question = fleet_model.FleetQuestion(
        view=query.choice("view", fleet_model.VIEWS, fleet_model.VIEWS[0]),
        q=query.text("q"),
        region=query.text("region"),
        provider=query.text("provider"),
        state=query.choice("state", fleet_model.STATES, ""),
        sort=query.sort(fleet_model.SORTS, "state"),
        page=query.page(),
    )
    found = services().source.fleet()
    # The numbers of workloads are about all namespaces.
    counted = visitor().namespaces is None
    if file := downloads.asked(
        {"clusters": fleet_model.listed_clusters(found, question, counted=counted) if downloads.wanted() else ()}
    ):
        return file
    cache: AnswerCache = current_app.extensions[_CACHE]
    page, drawn_map = cache.answer(
        (question, counted), found.version, lambda: _drawn(found, question, counted=counted), lambda _: found.version
    )
    known = optional(lambda: services().source.workloads(WorkloadQuery(limit=1)))
    drift = optional(lambda: services().source.drift(DriftQuery(limit=0, stale=True)), NOT_HERE)
    return render_template(
        "fleet.html", page=page, map=drawn_map, question=question, gaps=found.gaps, drift=drift.answer,
        # A table is an answer to another question.
        broken=_broken(query) if question.view == "map" else None,
        workloads=[] if known.answer is None else workload_figures(known.answer),
    )  # fmt: skip


class _Broken(NamedTuple):
    """The problems at the top of the page.

    Attributes:
        hint: why they are not known; empty if they are.
        unrecorded: why it is not known what changed before.
        all: whether the page has all that the extender lists.
    """

    sections: Sequence[ProblemSection]
    hint: str
    unrecorded: str
    all: bool


def _broken(query: PageQuery) -> _Broken:
    everything = query.choice("problems", ("all",), "") == "all"
    source, since = services().source, services().clock.now() - WINDOW
    known = optional(source.problems)
    recorded = optional(lambda: source.history(HistoryQuery(since=since, limit=RECORDS)), NOT_HERE)
    if known.answer is None:
        return _Broken((), sentence(known.hint), "", everything)
    records = recorded.answer.items if recorded.answer is not None else ()
    shown = sections(known.answer, records, MAX_PROBLEMS if everything else SHOWN)
    return _Broken(shown, "", sentence(recorded.hint), everything)


def _drawn(found: FleetView, question: fleet_model.FleetQuestion, *, counted: bool) -> _Drawn:
    page = fleet_model.fleet_page(found, question, services().page_rows, counted=counted)
    if question.view != "map":
        return _Drawn(page, Markup())
    looks = ("bad", "busy", "warn", *(f"l{level}" for level in range(fleet_model.LEVELS)))
    return _Drawn(page, Markup(render_template("fleet_map.html", page=page, looks=looks)))  # noqa: S704 - a template escapes


@BLUEPRINT.get("/fleet/<name>")
def one(name: str) -> str:
    found = services().source.fleet()
    cluster = next((each for each in found.clusters if each.name == name), None)
    if cluster is None:
        abort(404, f"There is no cluster {name!r} in the fleet.")
    question = WorkloadQuery(cluster=name, sort=SortKey.NAMESPACE, limit=_WORKLOADS)
    workloads = services().source.workloads(question)
    tile = fleet_model.Tile(cluster, visitor().namespaces is None)
    return render_template("cluster.html", tile=tile, cluster=cluster, workloads=workloads, gaps=found.gaps)
