"""The page Workload: where one workload is and why, now or at a recorded decision, and why not on a cluster."""

from collections.abc import Callable
from typing import Final, TypeVar

from flask import abort, render_template, request

from berthmaster.native_api.fleet import CLUSTER_SCOPED
from berthmaster.native_api.wire import BindingView, HistoryPage
from console.context import services, visitor
from console.pages.workload_model import WorkloadFacts, WorkloadQuestion, workload_page
from console.query import PageQuery
from console.source import SourceError

_PARAMETERS: Final = ("record", "why-not", "group", "clusters", "after")
_RECORDS: Final = 20
_ALL: Final = "all"
_OPTIONAL: Final = frozenset({400, 404, 409, 429})
"""The statuses of a part that the extender does not have, or not now. The rest of the page is shown."""

T = TypeVar("T")


class _Parts:
    """Asks for parts of the page. A part that the extender refuses becomes a hint."""

    def __init__(self) -> None:
        self.hints: dict[str, str] = {}

    def ask(self, name: str, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except SourceError as error:
            if error.status not in _OPTIONAL:
                raise
            self.hints[name] = str(error)
            return None


def one(namespace: str, binding: str) -> str:
    """Show the page."""
    query = PageQuery(request.args, _PARAMETERS)
    place = "" if namespace == CLUSTER_SCOPED else namespace
    if not visitor().may_see(place):
        abort(404, "There is no such workload, or you may not see it.")
    source, parts = services().source, _Parts()
    record, cluster, group = query.text("record"), query.text("why-not"), query.text("group") or None
    everything = query.choice("clusters", (_ALL,), "") == _ALL
    known = source.binding(binding, place)
    history = parts.ask("history", lambda: _history(known, query.text("after")))
    facts = WorkloadFacts(
        binding=known,
        explained=None if record else parts.ask("decision", lambda: source.decision(binding, place)),
        outlook=None if record else source.outlook(binding, place, group),
        claims=None if record else parts.ask("claims", lambda: source.claims(binding, place)),
        history=() if history is None else history.items,
        past=source.recorded_decision(record, binding, place) if record else None,
        why_not=parts.ask("why_not", lambda: source.why_not(cluster, binding, place, record=record))
        if cluster
        else None,
    )
    return render_template(
        "workload.html",
        page=workload_page(facts, WorkloadQuestion(group, everything), services().clock.now()),
        binding=known,
        place=namespace,
        hints=parts.hints,
        record=record,
        cluster=cluster,
        earlier=None if history is None else history.next,
        after=query.text("after"),
    )


def _history(known: BindingView, after: str) -> HistoryPage:
    resource = known.resource
    return services().source.history(resource.namespace, resource.kind, resource.name, after=after, limit=_RECORDS)
