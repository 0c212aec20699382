"""The page Workload: where one workload is and why, now or at a recorded decision, and why not on a cluster."""

from http import HTTPStatus
from typing import Any, Final

from flask import abort, render_template, request

from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.native_api.wire import BindingView, HistoryPage
from console.context import services, visitor
from console.offers import Offered, optional
from console.pages.policies_model import policy_address
from console.pages.workload_model import WorkloadFacts, WorkloadQuestion, workload_page
from console.pages.workload_words import sentence
from console.query import PageQuery

_PARAMETERS: Final = ("record", "why-not", "group", "clusters", "after")
_RECORDS: Final = 20
_ALL: Final = "all"
_NOTHING: Final[Offered[Any]] = Offered(None, "")
_TOO_LARGE: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
"""A placement with very many groups is not explained."""
_NO_ANSWER: Final = (*_TOO_LARGE, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)
"""There is no such cluster, or another such question is being answered."""


def one(namespace: str, binding: str) -> str:
    """Show the page."""
    query = PageQuery(request.args, _PARAMETERS)
    place = "" if namespace == CLUSTER_SCOPED else namespace
    if not visitor().may_see(place):
        abort(404, "There is no such workload, or you may not see it.")
    source, record, cluster = services().source, query.text("record"), query.text("why-not")
    group = query.text("group") or None
    everything = query.choice("clusters", (_ALL,), "") == _ALL
    known = source.binding(binding, place)
    history = optional(lambda: _history(known, query.text("after")))
    decision = _NOTHING if record else optional(lambda: source.decision(binding, place), _TOO_LARGE)
    reviews = _NOTHING if record or not known.policy else optional(lambda: _reviews(known.policy or ""))
    claims = _NOTHING if record else optional(lambda: source.claims(binding, place))
    why_not = _NOTHING
    if cluster:
        why_not = optional(lambda: source.why_not(cluster, binding, place, record=record), _NO_ANSWER)
    facts = WorkloadFacts(
        binding=known,
        explained=decision.answer,
        outlook=None if record else source.outlook(binding, place, group),
        claims=claims.answer,
        history=() if history.answer is None else history.answer.items,
        reviews=() if reviews.answer is None else reviews.answer.items,
        past=source.recorded_decision(record, binding, place) if record else None,
        why_not=why_not.answer,
    )
    parts = {"history": history, "decision": decision, "why_not": why_not}
    return render_template(
        "workload.html",
        page=workload_page(facts, WorkloadQuestion(group, everything), services().clock.now()),
        binding=known,
        place=namespace,
        policy_address=policy_address,
        hints={name: sentence(each.hint) for name, each in parts.items()},
        record=record,
        cluster=cluster,
        earlier=None if history.answer is None else history.answer.next,
        after=query.text("after"),
    )


def _history(known: BindingView, after: str) -> HistoryPage:
    resource = known.resource
    return services().source.history(resource.namespace, resource.kind, resource.name, after=after, limit=_RECORDS)


def _reviews(policy: str) -> HistoryPage:
    """Return what is on record about a policy, such as plans that were accepted for its changes."""
    kind, _, resource = policy.partition(" ")
    namespace, _, name = resource.rpartition("/")
    if not visitor().may_see(namespace):
        return HistoryPage([], None)
    return services().source.history(namespace, kind, name, limit=_RECORDS)
