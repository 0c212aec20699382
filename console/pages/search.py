"""The page Search: workloads, clusters, policies and pages whose name contains a text."""

from typing import Final, NamedTuple

from flask import Blueprint, render_template, request, url_for

from berthmaster.model.meta import CLUSTER_SCOPED, object_name
from berthmaster.native_api.fleet import WorkloadPage, WorkloadQuery
from berthmaster.native_api.policies import PolicyList, PolicyQuery
from console.context import services
from console.optional_answers import Offered, optional
from console.query import PageQuery
from console.search_terms import named_in

BLUEPRINT: Final = Blueprint("search", __name__)
_SHOWN: Final = 10


class Hit(NamedTuple):
    """One result: its name, what it is, and its address."""

    name: str
    what: str
    address: str


class Hits(NamedTuple):
    """The results of one kind."""

    title: str
    hits: list[Hit]
    matched: int
    address: str
    hint: str


@BLUEPRINT.get("/search")
def show() -> str:
    text, source = PageQuery(request.args).text("q"), services().source
    found: list[Hits] = []
    if text:
        meant = named_in(text)
        query = WorkloadQuery(q=meant.query, namespace=meant.namespace if meant.exact else "", limit=_SHOWN)
        workloads = optional(lambda: source.workloads(query))
        # A policy has no kind that people write. Its name is NAMESPACE/NAME.
        name = object_name(meant.namespace, " ".join(meant.words))
        policies = optional(lambda: source.policies(PolicyQuery(name, limit=_SHOWN)))
        found = [
            _listed("workloads", "binding", workloads, text),
            _clusters(" ".join(meant.words)),
            _listed("policies", "name", policies, text),
        ]
    return render_template("search.html", text=text, found=found)


def _clusters(text: str) -> Hits:
    asked = optional(services().source.fleet)
    clusters = asked.answer.clusters if asked.answer and text else ()
    names = [each.name for each in clusters if text.lower() in each.name.lower()]
    hits = [Hit(name, "cluster", url_for("fleet.one", name=name)) for name in names[:_SHOWN]]
    return Hits("Clusters", hits, len(names), url_for("fleet.show", q=text), asked.hint)


def _listed(page: str, key: str, asked: Offered[WorkloadPage] | Offered[PolicyList], text: str) -> Hits:
    """Return the results of a page with a list. ``key`` is what its addresses name one object by."""
    rows, matched = ((), 0) if asked.answer is None else (asked.answer.items, asked.answer.matched)
    hits = []
    for row in rows:
        place = {"namespace": row.namespace or CLUSTER_SCOPED, key: getattr(row, key)}
        hits.append(Hit(object_name(row.namespace, row.name), row.kind, url_for(f"{page}.one", **place)))
    return Hits(page.capitalize(), hits, matched, url_for(f"{page}.show", q=text), asked.hint)
