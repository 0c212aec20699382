"""The page What if: what a change would move. The address carries the question, so that it can be sent to others."""

from http import HTTPStatus
from typing import Final

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from berthmaster.native_api.what_if import PlanRequest
from console.context import services, visitor
from console.pages.plan_model import MAX_ROWS, MORE_ROWS, PlanView, plan_view
from console.pages.what_if_model import form_view
from console.query import PageQuery
from console.question import WhatIfQuestion, decoded, encoded, question_of
from console.question_reading import ReadQuestion, question_words, read, refusals
from console.source import SourceError

BLUEPRINT: Final = Blueprint("what_if", __name__)
_INVALID: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""The statuses by which the extender says that the question is wrong, not that it cannot answer now."""


@BLUEPRINT.get("/what-if")
def show() -> Response | str | tuple[str, int]:
    """Show the form, and the answer to the question of the address."""
    query = PageQuery(request.args)
    rows = MORE_ROWS if query.choice("rows", ("more",), "") else MAX_ROWS
    if lost := query.text("lose"):
        question = WhatIfQuestion(lose=tuple(lost.replace(",", " ").split()))
        return redirect(url_for("what_if.show", question=encoded(question)))
    text = request.args.get("question", "")
    question = decoded(text) if text else WhatIfQuestion()
    return _page(question, rows)


@BLUEPRINT.post("/what-if")
def ask() -> Response | str | tuple[str, int]:
    """Read the form. A valid question becomes an address; otherwise the form comes back with what is wrong."""
    question = question_of(request.form)
    clusters = services().source.fleet().clusters
    found = read(question, {each.name for each in clusters}, visitor().may_see)
    if found.problems:
        return _page(question, MAX_ROWS)
    if question.empty:
        return redirect(url_for("what_if.show"))
    return redirect(url_for("what_if.show", question=encoded(question)), HTTPStatus.SEE_OTHER)


def _page(question: WhatIfQuestion, rows: int) -> str | tuple[str, int]:
    fleet = services().source.fleet()
    found = read(question, {each.name for each in fleet.clusters}, visitor().may_see)
    plan = None
    if not question.empty and not found.problems:
        plan = _plan(question, found, rows)
    page = render_template(
        "what_if.html",
        form=form_view(question, fleet.clusters, found.problems),
        asked=question_words(question),
        notes=found.notes,
        plan=plan,
        all_rows=rows == MORE_ROWS,
    )
    return (page, HTTPStatus.BAD_REQUEST) if found.problems else page


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
        if error.status not in _INVALID:
            raise
        found.problems += refusals(error, found)
        return None
    return plan_view(answer, restricted=visitor().namespaces is not None, max_rows=rows)
