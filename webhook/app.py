"""The Flask application, and the short way that reviews take through it.

Flask owns every path, and answers whatever is not a plain review. A review is most of what comes, and Flask's own
dispatch costs more than the decision: ``ShortWay`` therefore stands in front of it as WSGI middleware, for POSTs to
the paths of the table only, with the same handler behind it.
"""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from flask import Flask, Response, request
from werkzeug.exceptions import MethodNotAllowed

from berthmaster.serving.body import BodyError, read_body, read_head
from berthmaster.serving.channel import answer_last
from webhook.admission.reviews import ROUTES
from webhook.handler import Answer, Reviewer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

JSON: Final = "application/json"
_STATUS_LINES: Final = {int(status): f"{int(status)} {status.phrase}" for status in HTTPStatus}


def create_app(reviewer: Reviewer, *, body_bytes: int) -> Flask:
    """The application.

    Args:
        reviewer: what answers reviews.
        body_bytes: the largest body that is read.
    """
    app = Flask("berthmaster.webhook", static_folder=None)

    def review(path: str) -> Response:
        answer = _answered(reviewer, path, request.environ, body_bytes)
        return Response(answer.body, answer.status, mimetype=JSON)

    for path in ROUTES:
        app.add_url_rule(path, endpoint=path, view_func=_bound(review, path), methods=["POST"])
    for status, problem in {
        404: "there is no such path; docs/webhook.md lists them all",
        405: "reviews are posted",
        500: "the webhook failed",
    }.items():
        app.register_error_handler(status, _refusing(reviewer, status, problem))
    app.wsgi_app = ShortWay(app.wsgi_app, reviewer, body_bytes)  # type: ignore[method-assign]  # how Flask wants it
    return app


class ShortWay:
    """Middleware that answers reviews itself and hands on everything else."""

    def __init__(self, others: "WSGIApplication", reviewer: Reviewer, body_bytes: int) -> None:
        self._others = others
        self._reviewer = reviewer
        self._body_bytes = body_bytes

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """One WSGI request."""
        path = environ["PATH_INFO"]
        if path not in ROUTES or environ["REQUEST_METHOD"] != "POST":
            return self._others(environ, start_response)
        answer = _answered(self._reviewer, path, environ, self._body_bytes)
        headers = [("Content-Type", JSON), ("Content-Length", str(len(answer.body)))]
        start_response(_STATUS_LINES[answer.status], headers)
        return [answer.body]


def _answered(reviewer: Reviewer, path: str, environ: "WSGIEnvironment", body_bytes: int) -> Answer:
    try:
        body = read_body(environ, body_bytes)
    except BodyError as error:
        answer_last(environ)
        return reviewer.refuse(error.status, str(error), error.got)
    return reviewer.answer(path, environ.get("CONTENT_TYPE", ""), body)


def _bound(view: Callable[[str], Response], path: str) -> Callable[[], Response]:
    return lambda: view(path)


def _refusing(reviewer: Reviewer, status: int, problem: str) -> Callable[[Any], Response]:
    def refuse(error: Any) -> Response:  # noqa: ANN401 - Flask's exceptions
        answer = reviewer.refuse(status, problem, read_head(request.environ))
        answer_last(request.environ)
        headers = {"Allow": "POST"} if isinstance(error, MethodNotAllowed) else None
        return Response(answer.body, status, mimetype=JSON, headers=headers)

    return refuse
