"""The page What if: what a change would move. The address carries the question, so that it can be sent to others."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from berthmaster.native_api.fleet import FleetCluster
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.simulation.change_texts import CHANGE_TEXTS
from berthmaster.views.plan_drawing import TITLE
from berthmaster.views.plan_sections import INCOMPLETE
from console import question as questions
from console.context import services, visitor
from console.pages import downloads
from console.pages.form_boxes import domains_of, form_boxes
from console.pages.plan_model import MAX_ROWS, MORE_ROWS, PlanView
from console.query import PageQuery
from console.read_question import FormProblem, ReadQuestion, question_words, read, refusals
from console.security import has_form_token
from console.source import SourceError

SWITCHES: Final = {"auto": "as configured", "on": "assumed on", "off": "assumed off"}
BLUEPRINT: Final = Blueprint("what_if", __name__)
ADDRESS: Final = "/what-if"
_COMMON: Final = [each for each in CHANGE_TEXTS if each.is_common and each.field != "lose"]
_RARE: Final = [each for each in CHANGE_TEXTS if not each.is_common]
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
        return _form(question, ReadQuestion(problems=[FormProblem("", _OUTDATED)], status=_FORBIDDEN))
    text = questions.encoded(question)
    if len(text) > questions.MAX_ADDRESS:
        return _page(question)
    found, _ = _read(question)
    if found.problems:
        return _page(question)
    address = url_for("what_if.show") if question.empty else url_for("what_if.show", question=text)
    return redirect(address, HTTPStatus.SEE_OTHER)


def _read(question: questions.WhatIfQuestion) -> tuple[ReadQuestion, Sequence[FleetCluster]]:
    """Return the question as the extender gets it, and the fleet. Without the fleet, the question has a problem."""
    try:
        clusters = services().source.fleet().clusters
    except SourceError as error:
        return ReadQuestion(problems=[FormProblem("", str(error))], status=_status_of(error)), []
    names = {each.name for each in clusters}
    return read(question, names, visitor().may_see, domains_of(clusters)), clusters


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
    found: ReadQuestion,
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
        common=_COMMON,
        rare=_RARE,
        opens=bool(question.deleted) or any(getattr(question, each.field) for each in _RARE),
        switches=SWITCHES,
        asked=question_words(question),
        notes=found.notes,
        plan=plan,
        incomplete=INCOMPLETE,
        drawing_title=TITLE,
        most=MORE_ROWS if long else MAX_ROWS,
        fleet_names={each.name for each in clusters},
        long=long,
    )
    return (page, found.status or HTTPStatus.BAD_REQUEST) if found.problems else page


def _plan(question: questions.WhatIfQuestion, found: ReadQuestion) -> PlanView | None:
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
        found.problems += refusals(error, found)
        found.status = _status_of(error)
        return None
    return PlanView(answer, visitor().namespaces is not None)


def _status_of(error: SourceError) -> int:
    return HTTPStatus.BAD_REQUEST if error.status in _INVALID else HTTPStatus.SERVICE_UNAVAILABLE
