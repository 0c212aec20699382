"""The page Workloads: search, filters, order and pages, all of them in the address."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from flask import Blueprint, Response, render_template, request
from msgspec.structs import replace

from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.native_api.fleet import (
    Restriction,
    SortKey,
    WorkloadPage,
    WorkloadQuery,
    WorkloadRow,
    WorkloadState,
)
from console.context import services
from console.pages import downloads, lists
from console.pages.workload import one
from console.query import PageQuery

SORTS: Final = tuple(each.value for each in SortKey)
RESTRICTIONS: Final[Mapping[Restriction, str]] = {
    Restriction.NOT_PREFERRED: "not in its preferred group",
    Restriction.NOWHERE: "nowhere",
    Restriction.SHORT: "too few replicas",
    Restriction.MOVING: "moving",
    Restriction.HELD_DOWN: "held down",
    Restriction.SUSPENDED: "suspended",
}
_FIGURES: Final[Mapping[Restriction, str]] = {
    Restriction.NOWHERE: "bad",
    Restriction.SHORT: "bad",
    Restriction.NOT_PREFERRED: "warn",
    Restriction.MOVING: "",
    Restriction.HELD_DOWN: "",
}
_STATES: Final[Mapping[WorkloadState, tuple[str, str]]] = {
    WorkloadState.PLACED: ("good", "placed"),
    WorkloadState.NOWHERE: ("bad", "nowhere"),
    WorkloadState.SHORT: ("warn", "too few replicas"),
    WorkloadState.PENDING: ("busy", "waits for its scheduler"),
    WorkloadState.SUSPENDED: ("off", "suspended"),
    WorkloadState.DELETING: ("off", "deleting"),
    WorkloadState.UNKNOWN: ("off", "not known"),
}
_SHOWN_CLUSTERS: Final = 4
_MAX_OPTIONS: Final = 100


class RowView(NamedTuple):
    """One row of the table."""

    row: WorkloadRow
    place: str
    badge: tuple[str, str]
    marks: tuple[tuple[str, str], ...]
    group: str
    clusters: tuple[tuple[str, str], ...]
    more: int
    replicas: str


def workload_figures(found: WorkloadPage) -> list[tuple[int, str, str, str]]:
    """Return how many workloads the visitor may see, and how many of them are not as they should be.

    A figure is a number, its text, the kind of its badge, and the restriction that selects what it counts.
    """
    counts = found.facets.only
    return [
        (found.total, "workload" if found.total == 1 else "workloads", "", ""),
        *(
            (counts[each.value], RESTRICTIONS[each], kind, each.value)
            for each, kind in _FIGURES.items()
            if counts.get(each.value)
        ),
    ]


def row_view(row: WorkloadRow) -> RowView:
    """Return one row of the table."""
    shown = sorted(row.clusters.items(), key=lambda pair: (-pair[1], pair[0]))
    marks = []
    if row.moving:
        marks.append(("busy", "moving"))
    if row.held_down:
        marks.append(("warn", "held down"))
    if row.preferred is False:
        marks.append(("warn", "not in its preferred group"))
    return RowView(
        row=row,
        place=row.namespace or CLUSTER_SCOPED,
        badge=_STATES[row.state],
        marks=tuple(marks),
        group=group_text(row.group, row.group_index, row.groups) if row.clusters else "",
        clusters=tuple((name, str(count) if count else "") for name, count in shown[:_SHOWN_CLUSTERS]),
        more=max(0, len(shown) - _SHOWN_CLUSTERS),
        replicas=replicas_text(row.clusters, row.replicas),
    )


def group_text(group: str | None, index: int | None, groups: int) -> str:
    """Return the name of a group and its position among all groups of the placement."""
    if group is None:
        return "not known" if groups else ""
    return f"{group} (not in its policy now)" if index is None else f"{group} ({index + 1} of {groups})"


def replicas_text(clusters: Mapping[str, int], replicas: int) -> str:
    """Return the assigned and the desired replicas; empty for a workload without replicas."""
    if not replicas:
        return ""
    assigned = sum(clusters.values())
    if assigned < replicas:
        return f"{assigned:,} of {replicas:,}"
    if assigned == replicas:
        return f"{assigned:,}"
    if all(count == replicas for count in clusters.values()):
        return f"{replicas:,} on each cluster"
    return f"{assigned:,}, {replicas:,} desired"


def suggestions(counts: Mapping[str, int], chosen: str) -> dict[str, str]:
    """Return the values of a filter and their texts, the most frequent first. The chosen value is one of them."""
    shown = {name: f"{name} ({count:,})" for name, count in islice(counts.items(), _MAX_OPTIONS)}
    return shown if not chosen or chosen in shown else {chosen: chosen, **shown}


BLUEPRINT: Final = Blueprint("workloads", __name__)
BLUEPRINT.add_url_rule("/workloads/<namespace>/<binding>", "one", one)


@BLUEPRINT.get("/workloads")
def show() -> Response | str:
    """Show the page, or all rows as a file."""
    query = PageQuery(request.args)
    question = _question(query)
    ask = services().source.workloads
    rows = partial(downloads.whole, lambda after, most: ask(replace(question, offset=after, limit=most)).items)
    if file := downloads.asked({"workloads": rows}):
        return file
    found, paging = lists.asked(
        query.page(),
        question.limit,
        lambda offset: ask(replace(question, offset=offset)),
        lambda answer: (answer.matched, answer.total),
    )
    return render_template(
        "workloads.html", rows=map(row_view, found.items), facets=found.facets, suggested=suggestions,
        restrictions=RESTRICTIONS, question=question, gaps=found.gaps, paging=paging,
        sort=("-" if question.descending else "") + question.sort.value,
    )  # fmt: skip


def _question(query: PageQuery) -> WorkloadQuery:
    sort = query.sort(SORTS, SortKey.NAMESPACE.value)
    return WorkloadQuery(
        q=query.text("q"),
        namespace=query.text("namespace"),
        policy=query.text("policy"),
        cluster=query.text("cluster"),
        group=query.text("group"),
        parts=query.choice("parts", ("1",), "") == "1",
        only=frozenset(map(Restriction, query.choices("only", [each.value for each in RESTRICTIONS]))),
        sort=SortKey(sort.removeprefix("-")),
        descending=sort.startswith("-"),
        limit=services().page_rows,
    )
