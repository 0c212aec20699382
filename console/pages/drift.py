"""The page Drift: which workloads do not satisfy their policies any more, and what a repair would move."""

from collections.abc import Mapping
from typing import Final

from flask import Blueprint, Response, render_template, request

from berthmaster.native_api.drift import DRIFT_SORTS, DriftQuery
from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.simulation.drift import WorkloadDrift
from berthmaster.views.texts import cost_text
from berthmaster.views.words import drift_words
from console.context import services
from console.pages import downloads, lists
from console.pages.resilience import waiting
from console.query import PageQuery
from console.source import SourceError

BLUEPRINT: Final = Blueprint("drift", __name__)
KINDS: Final[Mapping[str, str]] = {each.value: drift_words(each) for each in DriftKind}
_FEW: Final = 5
"""The rows of a summary. Its file has the others."""


@BLUEPRINT.get("/drift")
def show() -> Response | str:
    """Show the drift, the most moves first. While the extender computes it, the page asks again by itself."""
    query, size = PageQuery(request.args), services().page_rows
    wanted = DriftQuery(
        q=query.text("q"),
        kind=query.choice("kind", tuple(KINDS), ""),
        policy=query.text("policy"),
        cluster=query.text("cluster"),
        sort=query.sort(DRIFT_SORTS),
        limit=size,
        stale=True,
    )
    ask = services().source.drift
    try:
        view, paging = lists.asked(
            query.page(),
            size,
            lambda offset: ask(wanted._replace(offset=offset)),
            lambda found: (found.matched, found.total.drifted),
        )
    except SourceError as error:
        if error.progress is None or downloads.wanted():
            raise
        return waiting("Drift", "Which workloads are not as their policies ask.", error.progress)
    rows = downloads.whole(lambda after, most: ask(wanted._replace(offset=after, limit=most)).workloads)
    tables = {"workloads": rows, "policies": view.policies, "groups": view.groups, "clusters": view.clusters}
    if file := downloads.asked(tables):
        return file
    return render_template(
        "drift.html",
        view=view,
        wanted=wanted,
        changes_of=changes_of,
        paging=paging,
        kinds=KINDS,
        few=_FEW,
        costs=[
            f"{title} {cost_text(cost)}."
            for title, cost in (("A minimal repair", view.cost), ("A full repair", view.full_cost))
            if cost is not None
        ],
        outdated=services().version not in {"", view.version},
    )


def changes_of(drift: WorkloadDrift) -> list[tuple[str, int, int]]:
    """Return the clusters that a minimal repair changes, with the replicas before and after it; most changes first."""
    before, after = drift.clusters, drift.minimal
    changed = [
        (name, before.get(name, 0), after.get(name, 0))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    return sorted(changed, key=lambda each: -abs(each[2] - each[1]))
