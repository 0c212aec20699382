"""The page History: what moved in the fleet in a range of time, and why, by cluster, policy and namespace."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, get_args

from flask import Blueprint, Response, render_template, request

from berthmaster.ledger.outcomes import MOVED, RecordOutcome
from berthmaster.model.meta import timestamp_text
from berthmaster.model.note import NoteKind
from berthmaster.native_api.days import FleetDays
from berthmaster.native_api.wire import HistoryPage, HistoryQuery
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.views.words import trigger_words
from console.context import services
from console.optional_answers import NOT_HERE, Offered, optional
from console.pages import downloads
from console.pages.week import shown_week
from console.pages.workload_words import sentence
from console.query import PageQuery
from console.search_terms import named_in

BLUEPRINT: Final = Blueprint("history", __name__)
_RANGES: Final = {
    "1h": ("last hour", timedelta(hours=1)),
    "24h": ("last 24 hours", timedelta(hours=24)),
    "7d": ("last 7 days", timedelta(days=7)),
    "30d": ("last 30 days", timedelta(days=30)),
    "all": ("all records", None),
}
"""The ranges of time by the word in the address: the text, and how long; None for all."""
TRIGGERS: Final[Mapping[str, str]] = {
    **{each.value: trigger_words(each) for each in Trigger if each is not Trigger.NONE},
    MOVED: "a move took a step",
}
"""What a decision may be made for, by the word in the address."""
NOTES: Final = get_args(NoteKind)
_WEEK: Final = "7d"
_OUTCOMES: Final[Mapping[str, str]] = {
    RecordOutcome.LOST.value: "Lost all clusters",
    RecordOutcome.FEWER.value: "Fewer replicas",
    RecordOutcome.EVICTED.value: "Evicted",
    RecordOutcome.STEP.value: "Steps of moves",
    RecordOutcome.PLACED.value: "Placed",
}
"""What decisions of a day did, as the columns of the table. A decision is counted once."""
_USUAL: Final = "24h"
_EVERYTHING: Final = "everything"


@BLUEPRINT.get("/history")
def show() -> Response | str:
    query = PageQuery(request.args)
    within = query.choice("range", tuple(_RANGES), _USUAL)
    since, until = query.moment("from"), query.moment("to")
    length = _RANGES[within][1]
    if since is None and until is None and length is not None:
        since = services().clock.now() - length
    everything = query.choice("show", (_EVERYTHING,), "") == _EVERYTHING
    trigger, user, meant = query.text("trigger"), query.text("user"), named_in(query.text("workload"))
    question = HistoryQuery(
        namespace=query.text("namespace") or meant.namespace,
        kind=meant.kind,
        name=" ".join(meant.words),
        trigger=trigger,
        user=user,
        cluster=query.text("cluster"),
        policy=query.text("policy"),
        since=since,
        until=until,
        # Decisions are made by no person, and other records than decisions move nothing.
        moves=not (everything or user or trigger in NOTES),
        after=query.text("after"),
        limit=services().page_rows,
    )
    ask = services().source.history
    rows = downloads.records(lambda after, most: ask(question._replace(after=after, limit=most)))
    if file := downloads.asked({"records": rows}):
        return file
    found = optional(lambda: ask(question), NOT_HERE)
    week: Offered[FleetDays] = Offered(None, "")
    # The days are those of the whole fleet.
    if question == HistoryQuery(since=since, moves=True, limit=question.limit) and within == _WEEK and not found.hint:
        week = optional(services().source.days, NOT_HERE)
    return render_template(
        "history.html",
        found=found.answer or HistoryPage([], None),
        hint=sentence(found.hint),
        question=question,
        ranges=[(word, text) for word, (text, _) in _RANGES.items()],
        within=within,
        workload=query.text("workload"),
        triggers=TRIGGERS,
        week=None if week.answer is None else shown_week(week.answer),
        week_hint=sentence(week.hint),
        outcomes=_OUTCOMES,
        notes=NOTES,
        times={name: query.text(name) for name in ("from", "to")},
        everything=everything,
        command={
            "namespace": question.namespace, "cluster": question.cluster, "policy": question.policy.rpartition(" ")[2],
            "trigger": trigger, "user": user, "workload": (question.kind, question.name),
            "since": "" if question.since is None else timestamp_text(question.since),
            "until": "" if question.until is None else timestamp_text(question.until),
        },
    )  # fmt: skip
