"""Views that Flask and the fast path share.

Flask owns the route table and can answer every path. Its dispatch costs more time than a typical answer. ``FastPath``
is WSGI middleware in front of Flask: it calls the views of exact POST paths directly, and leaves all other requests to
Flask. Both ways call the same view and send the same response.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_STATUS_LINES: Final = {int(status): f"{int(status)} {status.phrase}" for status in HTTPStatus}
_REFUSED: Final = (404, 405, 500)
_NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})


class HTTPReply(NamedTuple):
    """The response of a view. ``body`` is the whole body, or an iterator whose pieces are sent one by one."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | Iterator[bytes]


View = Callable[["WSGIEnvironment", Mapping[str, str]], HTTPReply]
"""Answer a request, given its WSGI environment and the values of the ``{names}`` in its path. Must not raise."""
Refuse = Callable[["WSGIEnvironment", int], HTTPReply]
"""Answer a request that no view answers, with status 404, 405 or 500."""


class ViewRoute(NamedTuple):
    """One entry of the route table.

    Attributes:
        path: an exact path, or a path with ``{names}`` that each match one segment.
    """

    method: str
    path: str
    view: View


def create_app(name: str, routes: Iterable[ViewRoute], refuse: Refuse) -> Flask:
    """Create a Flask application with a fast path.

    Raises:
        ValueError: two routes have the same method and path.
    """
    app = Flask(name, static_folder=None)
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    for method, path, view in routes:
        key = f"{method} {path}"
        if key in app.view_functions:
            raise ValueError(f"two routes for {key}")
        rule = path.replace("{", "<").replace("}", ">")
        app.add_url_rule(rule, key, _FlaskView(view), methods=[method], provide_automatic_options=False)
    for status in _REFUSED:
        app.register_error_handler(status, _error_handler(refuse, status))
    app.wsgi_app = FastPath(app)  # type: ignore[method-assign]  # how Flask adds middleware
    return app


class FastPath:
    """WSGI middleware that calls the views of exact POST paths without Flask's dispatch."""

    def __init__(self, app: Flask) -> None:
        """Take the views from the route table of an application of ``create_app``."""
        self.flask = app.wsgi_app
        views = ((rule, app.view_functions[rule.endpoint]) for rule in app.url_map.iter_rules())
        self._views: dict[str, View] = {
            rule.rule: view.view
            for rule, view in views
            if isinstance(view, _FlaskView) and "POST" in (rule.methods or ()) and not rule.arguments
        }

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        view = self._views.get(environ["PATH_INFO"])
        if view is None or environ["REQUEST_METHOD"] != "POST":
            return self.flask(environ, start_response)
        status, headers, body = view(environ, _NO_VALUES)
        if isinstance(body, bytes):
            start_response(_STATUS_LINES[status], [*headers, ("Content-Length", str(len(body)))])
            return [body]
        start_response(_STATUS_LINES[status], list(headers))
        return body


class _FlaskView:
    def __init__(self, view: View) -> None:
        self.view = view

    def __call__(self, **path_values: str) -> Response:
        return _response(self.view(request.environ, path_values))


def _error_handler(refuse: Refuse, status: int) -> Callable[[Any], Response]:
    def handle(error: Any) -> Response:  # noqa: ANN401 - Flask's exceptions
        response = _response(refuse(request.environ, status))
        allow = error.get_response().headers.get("Allow") if isinstance(error, HTTPException) else None
        if allow and response.status_code == status:
            response.headers["Allow"] = allow
        return response

    return handle


def _response(reply: HTTPReply) -> Response:
    # Flask would write the reason phrase of a plain number in capitals.
    return Response(reply.body, _STATUS_LINES[reply.status], list(reply.headers))


_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


def request_id_of(environ: Mapping[str, Any]) -> str:
    """Return the client's ``X-Request-Id`` if it is safe to repeat, or a new id."""
    given: str = environ.get("HTTP_X_REQUEST_ID", "")
    return given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
