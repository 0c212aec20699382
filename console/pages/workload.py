"""The page Workload: where one workload is and why, now or at a recorded decision, and why not on a cluster."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from flask import Response, abort, render_template, request

from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.native_api.wire import BindingView, HistoryPage, HistoryQuery
from console.context import NO_LEDGER, Offered, optional, services, visitor
from console.pages import downloads
from console.pages.workload_model import ROWS, WorkloadFacts, WorkloadPart, WorkloadQuestion, workload_page
from console.pages.workload_words import departure_of, sentence
from console.query import PageQuery

_RECORDS: Final = 20
_ALL: Final = "all"
_NOTHING: Final[Offered[Any]] = Offered(None, "")
_NO_ANSWER: Final = (*NO_LEDGER, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)
"""There is no such cluster, the placement has too many groups, or another such question is being answered."""


def one(namespace: str, binding: str) -> Response | str:
    """Show the page, or one of its tables as a file."""
    query = PageQuery(request.args)
    place = "" if namespace == CLUSTER_SCOPED else namespace
    if not visitor().may_see(place):
        abort(404, "There is no such workload, or you may not see it.")
    source, record, cluster = services().source, query.text("record"), query.text("why-not")
    group = query.text("group") or None
    everything = query.choice("clusters", (_ALL,), "") == _ALL
    most = None if everything or downloads.wanted() else ROWS
    overview = None if record else source.overview(binding, place, group, clusters=most)
    known = source.binding(binding, place) if overview is None else overview.binding
    history = optional(lambda: _history(known, query.text("after")), NO_LEDGER)
    reviews = _NOTHING
    if overview is not None and known.policy and history.answer is not None:
        policy = known.policy
        reviews = optional(lambda: _reviews(policy), NO_LEDGER)
    why_not = _NOTHING
    if cluster:
        why_not = optional(lambda: source.why_not(cluster, binding, place, record=record), _NO_ANSWER)
    departure, departed = None, _NOTHING
    if overview is not None and history.answer is not None and not query.text("after"):
        departure = departure_of(history.answer.items, known.groups, known.observed_group)
    if departure is not None:
        left = departure.record.id
        departed = optional(lambda: source.recorded_decision(left, binding, place, of_page=True), _NO_ANSWER)
    facts = WorkloadFacts(
        binding=known,
        explained=None if overview is None else overview.decision,
        outlook=None if overview is None else overview.outlook,
        claims=None if overview is None else overview.claims,
        history=() if history.answer is None else history.answer.items,
        reviews=() if reviews.answer is None else reviews.answer.items,
        past=source.recorded_decision(record, binding, place) if record else None,
        why_not=why_not.answer,
        departure=departure,
        departed=departed.answer,
        room=None if overview is None else overview.room,
        drift=None if overview is None else overview.drift,
    )
    page = workload_page(facts, WorkloadQuestion(group, everything), services().clock.now())
    if file := downloads.asked(_tables(page, facts)):
        return file
    hints = {"history": history.hint, "reviews": reviews.hint, "why_not": why_not.hint}
    hints |= {} if overview is None else overview.missing
    return render_template(
        "workload.html",
        page=page,
        binding=known,
        place=namespace,
        past=facts.past,
        why_not=why_not.answer,
        hints={name: sentence(hint) for name, hint in hints.items()},
        record=record,
        cluster=cluster,
        earlier=None if history.answer is None else history.answer.next,
        after=query.text("after"),
    )


def _tables(page: WorkloadPart, facts: WorkloadFacts) -> Mapping[str, Callable[[], Iterable[Any]]]:
    difference = None if facts.past is None else facts.past.difference
    return {
        "clusters": lambda: page.diagnosed,
        "groups": lambda: page.groups,
        "copies": lambda: page.copies,
        "claims": lambda: page.claims,
        "changes": lambda: () if difference is None else difference.changes,
        "conditions": lambda: facts.binding.conditions,
        "records": lambda: downloads.records(partial(_history, facts.binding)),
    }


def _history(known: BindingView, after: str, limit: int = _RECORDS) -> HistoryPage:
    resource = known.resource
    named = HistoryQuery(resource.namespace, resource.kind, resource.name, after=after, limit=limit)
    return services().source.history(named)


def _reviews(policy: str) -> HistoryPage:
    """Return what is on record about a policy, such as plans that were accepted for its changes."""
    kind, _, resource = policy.partition(" ")
    namespace, _, name = resource.rpartition("/")
    if not visitor().may_see(namespace):
        return HistoryPage([], None)
    return services().source.history(HistoryQuery(namespace, kind, name, limit=_RECORDS))
