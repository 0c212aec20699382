"""The page What if: what a change would move. The address carries the question, so that it can be sent to others."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from berthmaster.native_api.fleet import FleetCluster
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.views.plan_drawing import TITLE
from berthmaster.views.plan_sections import INCOMPLETE
from console import question as questions
from console.context import services, visitor
from console.pages import downloads
from console.pages.plan_model import MAX_ROWS, MORE_ROWS, PlanView
from console.query import PageQuery
from console.security import has_form_token
from console.source import SourceError

SWITCHES: Final = {"auto": "as configured", "on": "assumed on", "off": "assumed off"}
MAX_BOXES: Final = 400
"""The most regions, providers, zones and clusters that the form lists together. Other names are written."""


class FormBoxes(NamedTuple):
    """What the form lists to choose from.

    Attributes:
        regions: the clusters by region, each with a note; empty for a large fleet.
        domains: whole regions, zones and providers, with the number of their clusters, by the kind.
        more: the names of clusters to lose that are not among the boxes.
    """

    regions: Mapping[str, Sequence[tuple[str, str]]]
    domains: Mapping[str, Mapping[str, int]]
    more: str


def form_boxes(question: questions.WhatIfQuestion, clusters: Sequence[FleetCluster]) -> FormBoxes:
    """Return the boxes of the form. Nothing of a wrong question is lost."""
    every = {word: len(names) for word, names in domains_of(clusters).items()}
    domains: dict[str, dict[str, int]] = {}
    left = MAX_BOXES
    for kind in _DOMAINS:
        found = {word: count for word, count in every.items() if word.startswith(f"{kind}=")}
        domains[kind] = found if len(found) <= left else {}
        left -= len(domains[kind])
    regions = _regions(clusters) if len(clusters) <= left else {}
    listed = {name for found in regions.values() for name, _ in found}.union(*domains.values())
    return FormBoxes(regions, domains, " ".join(name for name in question.lose if name not in listed))


_DOMAINS: Final = ("region", "provider", "zone")


def domains_of(clusters: Sequence[FleetCluster]) -> Mapping[str, Sequence[str]]:
    """Return the clusters of each region, zone and provider by words such as ``region=eu-west-1``.

    A domain whose name a question cannot carry, because it has a space or a comma, is left out.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for each in clusters:
        for kind, names in zip(_DOMAINS, ((each.region,), (each.provider,), each.zones), strict=True):
            for name in dict.fromkeys(names):
                if name and not questions.SEPARATORS.search(name):
                    found[f"{kind}={name}"].append(each.name)
    return dict(sorted(found.items()))


def _regions(clusters: Sequence[FleetCluster]) -> dict[str, list[tuple[str, str]]]:
    regions: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for each in clusters:
        regions[each.region].append((each.name, _note(each)))
    # Clusters without a region come last.
    return dict(sorted(regions.items(), key=lambda item: (not item[0], item[0])))


def _note(cluster: FleetCluster) -> str:
    if cluster.deleting:
        return "leaving"
    if not cluster.ready:
        return "not ready"
    return "draining" if cluster.draining else ""


BLUEPRINT: Final = Blueprint("what_if", __name__)
ADDRESS: Final = "/what-if"
_FORBIDDEN: Final = HTTPStatus.FORBIDDEN
_OUTDATED: Final = "the form is out of date, for example because the console has restarted; send it once more"
_INVALID: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""The statuses by which the extender says that the question is wrong, not that it cannot answer now."""


@BLUEPRINT.get(ADDRESS)
def show() -> Response | str | tuple[str, int]:
    query = PageQuery(request.args)
    if lost := query.text("lose"):
        question = questions.WhatIfQuestion(lose=tuple(lost.replace(",", " ").split()))
        return redirect(url_for("what_if.show", question=questions.encoded(question)))
    text = request.args.get("question", "")
    question = questions.decoded(text) if text else questions.WhatIfQuestion()
    return _page(question)


@BLUEPRINT.post(ADDRESS)
def ask() -> Response | str | tuple[str, int]:
    """Read the form. A valid question becomes an address, or is answered here if it is too long for one.

    Otherwise the form comes back with what is wrong, so that nothing of it is lost.
    """
    valid, question = has_form_token(), questions.question_of(request.form)
    if not valid:
        return _form(
            question, questions.ReadQuestion(problems=[questions.FormProblem("", _OUTDATED)], status=_FORBIDDEN)
        )
    text = questions.encoded(question)
    if len(text) > questions.MAX_ADDRESS:
        return _page(question)
    found, _ = _read(question)
    if found.problems:
        return _page(question)
    address = url_for("what_if.show") if question.empty else url_for("what_if.show", question=text)
    return redirect(address, HTTPStatus.SEE_OTHER)


def _read(question: questions.WhatIfQuestion) -> tuple[questions.ReadQuestion, Sequence[FleetCluster]]:
    """Return the question as the extender gets it, and the fleet. Without the fleet, the question has a problem."""
    try:
        clusters = services().source.fleet().clusters
    except SourceError as error:
        return questions.ReadQuestion(problems=[questions.FormProblem("", str(error))], status=_status_of(error)), []
    names = {each.name for each in clusters}
    return questions.read(question, names, visitor().may_see, domains_of(clusters)), clusters


def _page(question: questions.WhatIfQuestion) -> Response | str | tuple[str, int]:
    found, clusters = _read(question)
    plan = None
    if not question.empty and not found.problems:
        plan = _plan(question, found)
    if plan is not None and (file := downloads.asked(plan.files())):
        return file
    return _form(question, found, clusters, plan)


def _form(
    question: questions.WhatIfQuestion,
    found: questions.ReadQuestion,
    clusters: Sequence[FleetCluster] = (),
    plan: PlanView | None = None,
) -> str | tuple[str, int]:
    """Return the page with the form as it was written, and with what is wrong or the answer."""
    long = len(questions.encoded(question)) > questions.MAX_ADDRESS
    page = render_template(
        "what_if.html",
        question=question,
        boxes=form_boxes(question, clusters),
        problems=found.problems,
        switches=SWITCHES,
        asked=questions.question_words(question),
        notes=found.notes,
        plan=plan,
        incomplete=INCOMPLETE,
        drawing_title=TITLE,
        most=MORE_ROWS if long else MAX_ROWS,
        fleet_names={each.name for each in clusters},
        long=long,
    )
    return (page, found.status or HTTPStatus.BAD_REQUEST) if found.problems else page


def _plan(question: questions.WhatIfQuestion, found: questions.ReadQuestion) -> PlanView | None:
    """Ask for the plan. What the extender refuses becomes a problem of a field, so that nothing of the form is lost."""
    try:
        answer = services().source.plan(
            PlanRequest(
                tuple(found.create),
                delete=tuple(found.delete),
                changes=tuple(found.changes),
                failover=question.failover,
                preemption=question.preemption,
            )
        )
    except SourceError as error:
        found.problems += questions.refusals(error, found)
        found.status = _status_of(error)
        return None
    return PlanView(answer, visitor().namespaces is not None)


def _status_of(error: SourceError) -> int:
    return HTTPStatus.BAD_REQUEST if error.status in _INVALID else HTTPStatus.SERVICE_UNAVAILABLE
