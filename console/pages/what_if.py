"""The page What if: what a change would move. The address carries the question, so that it can be sent to others."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from berthmaster.native_api.fleet import FleetCluster
from berthmaster.native_api.what_if import PlanRequest
from console.context import services, visitor
from console.pages import downloads
from console.pages.plan_model import MAX_ROWS, MORE_ROWS, PlanView, plan_view
from console.pages.what_if_model import domains_of, form_view
from console.query import PageQuery
from console.question import MAX_ADDRESS, WhatIfQuestion, decoded, encoded, question_of
from console.question_reading import FormProblem, ReadQuestion, question_words, read, refusals
from console.security import has_form_token
from console.source import SourceError

BLUEPRINT: Final = Blueprint("what_if", __name__)
ADDRESS: Final = "/what-if"
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
    """Show the form, and the answer to the question of the address."""
    query = PageQuery(request.args)
    if lost := query.text("lose"):
        question = WhatIfQuestion(lose=tuple(lost.replace(",", " ").split()))
        return redirect(url_for("what_if.show", question=encoded(question)))
    text = request.args.get("question", "")
    question = decoded(text) if text else WhatIfQuestion()
    return _page(question)


@BLUEPRINT.post(ADDRESS)
def ask() -> Response | str | tuple[str, int]:
    """Read the form. A valid question becomes an address, or is answered here if it is too long for one.

    Otherwise the form comes back with what is wrong, so that nothing of it is lost.
    """
    question = question_of(request.form)
    if not has_form_token():
        return _page(question, FormProblem("", _OUTDATED), HTTPStatus.FORBIDDEN)
    text = encoded(question)
    if len(text) > MAX_ADDRESS:
        return _page(question)
    found, _ = _read(question)
    if found.problems:
        return _page(question)
    address = url_for("what_if.show") if question.empty else url_for("what_if.show", question=text)
    return redirect(address, HTTPStatus.SEE_OTHER)


def _read(question: WhatIfQuestion) -> tuple[ReadQuestion, Sequence[FleetCluster]]:
    """Return the question as the extender gets it, and the fleet. Without the fleet, the question has a problem."""
    try:
        clusters = services().source.fleet().clusters
    except SourceError as error:
        return ReadQuestion(problems=[FormProblem("", str(error))], status=_status_of(error)), []
    names = {each.name for each in clusters}
    return read(question, names, visitor().may_see, domains_of(clusters)), clusters


def _page(
    question: WhatIfQuestion, problem: FormProblem | None = None, status: int = HTTPStatus.BAD_REQUEST
) -> Response | str | tuple[str, int]:
    found, clusters = _read(question)
    if problem is not None:
        found.problems.insert(0, problem)
    plan, long = None, len(encoded(question)) > MAX_ADDRESS
    if not question.empty and not found.problems:
        plan = _plan(question, found, MORE_ROWS if long else MAX_ROWS)
    if plan is not None and (file := downloads.asked(plan.files())):
        return file
    page = render_template(
        "what_if.html",
        form=form_view(question, clusters, found.problems),
        asked=question_words(question),
        notes=found.notes,
        plan=plan,
        fleet_names={each.name for each in clusters},
        long=long,
    )
    return (page, found.status or status) if found.problems else page


def _plan(question: WhatIfQuestion, found: ReadQuestion, rows: int) -> PlanView | None:
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
    return plan_view(answer, restricted=visitor().namespaces is not None, max_rows=rows)


def _status_of(error: SourceError) -> int:
    return HTTPStatus.BAD_REQUEST if error.status in _INVALID else HTTPStatus.SERVICE_UNAVAILABLE
