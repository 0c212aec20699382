"""The webhook's WSGI application: a view for each path of a review. Every refusal is a review, too."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from flask import Flask

from berthmaster.runtime.traces import span
from berthmaster.serving.bodies import BodyError, begun_at, read_body, read_head
from berthmaster.serving.fast_path import ViewRoute
from berthmaster.serving.fast_path import create_app as create_flask_app
from berthmaster.serving.responses import HTTPReply
from webhook.admission.catalog import ROUTES
from webhook.reviewer import Reviewer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_PROBLEMS: Final = {
    404: "unknown path; docs/webhook.md lists all paths",
    405: "method not allowed; send reviews with POST",
    500: "internal error; the log of the webhook has the details",
}


def create_app(reviewer: "Reviewer", *, body_bytes: int) -> Flask:
    """Create the application."""

    def view(path: str, environ: "WSGIEnvironment", _path_values: Mapping[str, str]) -> HTTPReply:
        begun_s = begun_at(environ)
        try:
            body = read_body(environ, body_bytes)
        except BodyError as error:
            reply = reviewer.refuse(path, error.status, str(error), error.received)
            return reply._replace(headers=(*reply.headers, *error.headers))
        with span("review", environ.get("HTTP_TRACEPARENT"), path=path):
            return reviewer.answer(path, environ.get("CONTENT_TYPE", ""), body, begun_s)

    def refuse(environ: "WSGIEnvironment", status: int) -> HTTPReply:
        return reviewer.refuse(environ["PATH_INFO"][:256], status, _PROBLEMS[status], read_head(environ))

    routes = [ViewRoute("POST", path, partial(view, path)) for path in ROUTES]
    return create_flask_app("berthmaster.webhook", routes, refuse)
