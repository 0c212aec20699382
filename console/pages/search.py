"""The page Search: workloads, clusters, policies and pages whose name contains a text."""

from typing import Final, NamedTuple

from flask import Blueprint, render_template, request, url_for

from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.native_api.fleet import WorkloadQuery, WorkloadRow
from berthmaster.native_api.why import PolicyQuery
from berthmaster.views.policy_rows import PolicyRow
from console.context import optional, services
from console.query import PageQuery

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
    address: str = ""
    hint: str = ""


@BLUEPRINT.get("/search")
def show() -> str:
    """Show the results."""
    text = PageQuery(request.args).text("q")
    found = [_workloads(text), _clusters(text), _policies(text)] if text else []
    return render_template("search.html", text=text, found=found)


def _workloads(text: str) -> Hits:
    asked = optional(lambda: services().source.workloads(WorkloadQuery(q=text, limit=_SHOWN)))
    hits = [
        _hit(each, url_for("workloads.one", namespace=each.namespace or CLUSTER_SCOPED, binding=each.binding))
        for each in (asked.answer.items if asked.answer else ())
    ]
    matched = asked.answer.matched if asked.answer else 0
    return _hits("Workloads", hits, asked.hint, matched, url_for("workloads.show", q=text))


def _clusters(text: str) -> Hits:
    asked = optional(services().source.fleet)
    names = [each.name for each in (asked.answer.clusters if asked.answer else ()) if text.lower() in each.name.lower()]
    hits = [Hit(name, "cluster", url_for("fleet.one", name=name)) for name in names[:_SHOWN]]
    return _hits("Clusters", hits, asked.hint, len(names), url_for("fleet.show", q=text))


def _policies(text: str) -> Hits:
    asked = optional(lambda: services().source.policies(PolicyQuery(text, limit=_SHOWN)))
    hits = [
        _hit(each, url_for("policies.one", namespace=each.namespace or CLUSTER_SCOPED, name=each.name))
        for each in (asked.answer.items if asked.answer else ())
    ]
    matched = asked.answer.matched if asked.answer else 0
    return _hits("Policies", hits, asked.hint, matched, url_for("policies.show", q=text))


def _hit(row: WorkloadRow | PolicyRow, address: str) -> Hit:
    return Hit("/".join(filter(None, (row.namespace, row.name))), row.kind, address)


def _hits(title: str, hits: list[Hit], hint: str, matched: int, address: str) -> Hits:
    return Hits(title, hits, matched, address if matched > len(hits) else "", hint)
