"""The page Workload: where one workload is and why, now or at a recorded decision, and why not on a cluster."""

from collections.abc import Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from flask import Response, abort, render_template, request

from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.native_api.why import BindingManifests, BindingOverview
from berthmaster.native_api.wire import BindingView, HistoryPage, HistoryQuery
from berthmaster.scheduling.karmada.profile import rejection_phrase
from console.commands import NamedWorkload
from console.context import services, visitor
from console.optional_answers import NOT_HERE, Offered, optional
from console.pages import downloads
from console.pages.manifests import yaml_lines
from console.pages.record_words import departure_of
from console.pages.workload_answers import answers, past_answers
from console.pages.workload_model import ROWS, ShownWorkload
from console.pages.workload_words import sentence
from console.query import PageQuery

_RECORDS: Final = 20
_MEMBERS: Final = 3
"""The most clusters whose commands the page has."""
_ALL: Final = "all"
_YAML: Final = "yaml"
_EVENTS: Final = "events"
_NOTHING: Final[Offered[Any]] = Offered(None, "")
_NO_ANSWER: Final = (*NOT_HERE, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)
"""There is no such cluster, the placement has too many groups, or another such question is being answered."""

_NO_EVENTS: Final = (*NOT_HERE, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
"""No control plane is watched, it does not list its events, an older extender, or the visitor may not list them."""


def one(namespace: str, binding: str) -> Response | str:
    query = PageQuery(request.args)
    place = "" if namespace == CLUSTER_SCOPED else namespace
    if not visitor().may_see(place):
        abort(404, "There is no such workload, or you may not see it.")
    source, record, cluster, after = services().source, query.text("record"), query.text("why-not"), query.text("after")
    group = query.text("group") or None
    most = None if query.choice("clusters", (_ALL,), "") == _ALL or downloads.wanted() else ROWS
    if record:
        overview = BindingOverview(source.binding(binding, place), None, None, None, {}, "")
    else:
        overview = source.overview(binding, place, group, clusters=most)
    known, reviews, why_not, departed, departure = overview.binding, _NOTHING, _NOTHING, _NOTHING, None
    history = optional(lambda: _history(known, after), NOT_HERE)
    records = history.answer or HistoryPage([], None)
    if known.policy and history.answer is not None and not record:
        reviews = optional(partial(_reviews, known.policy), NOT_HERE)
    if cluster:
        why_not = optional(lambda: source.why_not(cluster, binding, place, record=record), _NO_ANSWER)
    if not record and not after:
        departure = departure_of(records.items, known.groups, known.observed_group)
    if departure is not None:
        left = departure.record.id
        departed = optional(lambda: source.recorded_decision(left, binding, place, of_page=True), _NO_ANSWER)
    past = source.recorded_decision(record, binding, place) if record else None
    page = ShownWorkload(overview, past, reviews.answer.items if reviews.answer else (), group, most)
    shows = "" if record else query.choice("show", (_YAML, _EVENTS), "")
    manifests = optional(lambda: source.manifests(binding, place)) if shows == _YAML else _NOTHING
    events = optional(lambda: source.events(binding, place), _NO_EVENTS) if shows == _EVENTS else _NOTHING
    tables: dict[str, Iterable[Any]] = {
        "clusters": () if page.shown is None else page.shown.clusters,
        "groups": page.groups,
        "copies": page.copies,
        "claims": page.claims,
        "changes": () if past is None or past.difference is None else past.difference.changes,
        "conditions": known.conditions,
        "events": () if events.answer is None else events.answer.items,
        "records": downloads.records(partial(_history, known)),
    }
    if file := downloads.asked(tables):
        return file
    resource = known.resource
    hints = {
        "history": history.hint,
        "events": events.hint,
        "reviews": reviews.hint,
        "why_not": why_not.hint,
        **overview.missing,
    }
    first = answers(overview, services().clock.now(), departure, departed.answer)
    return render_template(
        "workload.html",
        page=page,
        answers=first if past is None else past_answers(past),
        binding=known,
        place=namespace,
        past=past,
        why_not=why_not.answer,
        hints={name: sentence(hint) for name, hint in hints.items()},
        rejection_phrase=rejection_phrase,
        record=record,
        cluster=cluster,
        history=records,
        after=after,
        manifests=_in_yaml(manifests.answer),
        shows=shows,
        events=events.answer,
        named=NamedWorkload(
            resource.namespace, resource.kind, resource.name, known.name, sorted(known.clusters)[:_MEMBERS]
        ),
    )


def _in_yaml(found: BindingManifests | None) -> dict[str, Sequence[str]]:
    if found is None:
        return {}
    workload = {} if found.workload is None else {"The workload": yaml_lines(found.workload)}
    return {**workload, "The binding": yaml_lines(found.binding)}


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
