"""The page Workloads: search, filters, order and pages, all of them in the address."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from flask import Blueprint, Response, render_template, request
from msgspec.structs import replace

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
from console.search_terms import named_in

BLUEPRINT: Final = Blueprint("workloads", __name__)
BLUEPRINT.add_url_rule("/workloads/<namespace>/<binding>", "one", one)
SORTS: Final = tuple(each.value for each in SortKey)
RESTRICTIONS: Final[Mapping[Restriction, str]] = {
    Restriction.NOT_PREFERRED: "not in its preferred group",
    Restriction.STOPPED: "without a copy that runs",
    Restriction.NOWHERE: "nowhere",
    Restriction.SHORT: "too few replicas",
    Restriction.MOVING: "moving",
    Restriction.HELD_DOWN: "held down",
    Restriction.SUSPENDED: "suspended",
}
_FIGURES: Final[Mapping[Restriction, str]] = {
    Restriction.STOPPED: "bad",
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
_MAX_OPTIONS: Final = 100


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


@BLUEPRINT.app_template_filter()
def state_badge(row: WorkloadRow) -> tuple[str, str]:
    return _STATES[row.state]


@BLUEPRINT.app_template_filter()
def group_text(row: WorkloadRow) -> str:
    """Return the name of a workload's group and its position among all groups of the placement."""
    if not row.clusters:
        return ""
    if row.group is None:
        return "not known" if row.groups else ""
    where = "not in its policy now" if row.group_index is None else f"{row.group_index + 1} of {row.groups}"
    return f"{row.group} ({where})"


@BLUEPRINT.app_template_filter()
def replicas_text(row: WorkloadRow) -> str:
    """Return the assigned and the desired replicas; empty for a workload without replicas."""
    assigned, replicas = sum(row.clusters.values()), row.replicas
    if not replicas:
        return ""
    if assigned < replicas:
        return f"{assigned:,} of {replicas:,}"
    if assigned == replicas:
        return f"{assigned:,}"
    if all(count == replicas for count in row.clusters.values()):
        return f"{replicas:,} on each cluster"
    return f"{assigned:,}, {replicas:,} desired"


def suggestions(counts: Mapping[str, int], chosen: str) -> dict[str, str]:
    """Return the values of a filter and their texts, the most frequent first. The chosen value is one of them."""
    shown = {name: f"{name} ({count:,})" for name, count in islice(counts.items(), _MAX_OPTIONS)}
    return shown if not chosen or chosen in shown else {chosen: chosen, **shown}


@BLUEPRINT.get("/workloads")
def show() -> Response | str:
    query = PageQuery(request.args)
    question = _question(query)
    ask = services().source.workloads
    rows = downloads.whole(lambda after, most: ask(replace(question, offset=after, limit=most)).items)
    if file := downloads.asked({"workloads": rows}):
        return file
    found, paging = lists.asked(
        query.page(),
        question.limit,
        lambda offset: ask(replace(question, offset=offset)),
        lambda answer: (answer.matched, answer.total),
    )
    return render_template(
        "workloads.html", rows=found.items, facets=found.facets, suggested=suggestions,
        restrictions=RESTRICTIONS, question=question, gaps=found.gaps, paging=paging,
        sort=("-" if question.descending else "") + question.sort.value, text=query.text("q"),
    )  # fmt: skip


def _question(query: PageQuery) -> WorkloadQuery:
    sort, meant = query.sort(SORTS, SortKey.NAMESPACE.value), named_in(query.text("q"))
    namespace = query.text("namespace")
    # A namespace that the search names as a whole has the effect of the field, unless the field has one.
    alone = meant.exact and not namespace
    return WorkloadQuery(
        q=meant.query,
        namespace=meant.namespace if alone else namespace,
        policy=query.text("policy"),
        cluster=query.text("cluster"),
        group=query.text("group"),
        label=query.text("label"),
        owner=query.text("owner"),
        parts=query.choice("parts", ("1",), "") == "1" and not alone,
        only=frozenset(map(Restriction, query.choices("only", [each.value for each in RESTRICTIONS]))),
        sort=SortKey(sort.removeprefix("-")),
        descending=sort.startswith("-"),
        limit=services().page_rows,
    )
