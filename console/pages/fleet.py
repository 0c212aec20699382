"""The page Fleet: all clusters as tiles or as a table, and one cluster alone."""

from typing import Final

from flask import Blueprint, abort, render_template, request

from berthmaster.native_api.fleet import SortKey, WorkloadQuery
from console.context import services, visitor
from console.pages.fleet_model import SORTS, STATES, VIEWS, FleetQuestion, fleet_page
from console.pages.fleet_tiles import cluster_page
from console.pages.workloads_model import workloads_page
from console.query import PageQuery

BLUEPRINT: Final = Blueprint("fleet", __name__)
_PARAMETERS: Final = ("view", "q", "region", "provider", "state", "sort", "page")
_WORKLOADS: Final = 10


@BLUEPRINT.get("/fleet")
def show() -> str:
    """Show all clusters."""
    query = PageQuery(request.args, _PARAMETERS)
    question = FleetQuestion(
        view=query.choice("view", VIEWS, VIEWS[0]),
        q=query.text("q"),
        region=query.text("region"),
        provider=query.text("provider"),
        state=query.choice("state", STATES, ""),
        sort=query.sort(SORTS, "name"),
        page=query.page(),
    )
    found = services().source.fleet()
    # The numbers of workloads are about all namespaces.
    page = fleet_page(found, question, counted=visitor().namespaces is None)
    return render_template("fleet.html", page=page, question=question, gaps=found.gaps)


@BLUEPRINT.get("/fleet/<name>")
def one(name: str) -> str:
    """Show one cluster."""
    PageQuery(request.args, ())
    found = services().source.fleet()
    page = cluster_page(found, name, counted=visitor().namespaces is None)
    if page is None:
        abort(404, f"There is no cluster {name!r} in the fleet.")
    question = WorkloadQuery(cluster=name, sort=SortKey.NAMESPACE, limit=_WORKLOADS)
    workloads = workloads_page(services().source.workloads(question), question)
    return render_template("cluster.html", page=page, workloads=workloads, gaps=found.gaps)
