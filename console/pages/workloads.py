"""The page Workloads: search, filters, order and pages, all of them in the address."""

from functools import partial
from typing import Final

from flask import Blueprint, Response, render_template, request
from msgspec.structs import replace

from berthmaster.native_api.fleet import Restriction, SortKey, WorkloadQuery
from console.context import services
from console.pages import downloads, lists
from console.pages.workload import one
from console.pages.workloads_model import RESTRICTIONS, SORTS, workloads_page
from console.query import PageQuery

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
        "workloads.html", page=workloads_page(found, question), question=question, gaps=found.gaps, paging=paging,
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
