"""The Flask application, and the short way that most requests take through it.

Flask owns every path: it finds routes with names in them and refuses what no route is for. What a control plane asks
are POSTs to exact paths, and Flask's own dispatch costs more than a decision: ``ShortWay`` therefore stands in front of
it as WSGI middleware, for these only, with the same frame behind it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from extender.frame import Frame
from extender.protocols.route import Reply, Route

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_STATUS_LINES: Final = {int(status): f"{int(status)} {status.phrase}" for status in HTTPStatus}
_BACKLOG_BYTES: Final = 8 * 2**20
"""How much of a stream waits for a client that reads only once it has sent everything."""
_REFUSALS: Final = {
    404: "there is no such path; /openapi.json and docs/extender.md list them all",
    405: "this path knows another method",
    500: "the service failed; its log says why",
}


def create_app(frame: Frame, routes: Sequence[Route]) -> Flask:
    """The application that serves the routes of all protocols.

    Args:
        frame: what every request goes through.
        routes: no two for the same method and path.

    Raises:
        ValueError: two routes are for the same method and path.
    """
    app = Flask("berthmaster.extender", static_folder=None)
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    known: dict[tuple[str, str], Route] = {}
    for route in routes:
        if (route.method, route.path) in known:
            raise ValueError(f"two routes for {route.method} {route.path}")
        known[route.method, route.path] = route
        rule = route.path.replace("{", "<").replace("}", ">")
        view = _view(frame, route)
        app.add_url_rule(
            rule, f"{route.method} {route.path}", view, methods=[route.method], provide_automatic_options=False
        )
    for status, detail in _REFUSALS.items():
        app.register_error_handler(status, _refusing(frame, status, detail))
    exact = {key: route for key, route in known.items() if "{" not in route.path}
    app.wsgi_app = ShortWay(app.wsgi_app, frame, exact)  # type: ignore[method-assign]  # how Flask wants it
    return app


class ShortWay:
    """Middleware that answers what has an exact path and hands on everything else."""

    def __init__(self, others: "WSGIApplication", frame: Frame, routes: dict[tuple[str, str], Route]) -> None:
        self._others = others
        self._frame = frame
        self._routes = routes

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """One WSGI request."""
        route = self._routes.get((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        if route is None:
            return self._others(environ, start_response)
        reply = self._frame.answer(route, environ)
        headers = [("Content-Type", reply.content_type), *reply.headers]
        if isinstance(reply.body, bytes):
            headers.append(("Content-Length", str(len(reply.body))))
            start_response(_STATUS_LINES[reply.status], headers)
            return [reply.body]
        start_response(_STATUS_LINES[reply.status], headers)
        return _streamed(reply.body, environ.get("gunicorn.socket"))


def _streamed(pieces: Iterator[bytes], client: Any) -> Iterator[bytes]:  # noqa: ANN401 - berthmaster.serving.channel's, or None
    """The pieces, each sent when it is there and within a deadline of its own."""
    if client is not None:
        client.stream(_BACKLOG_BYTES)
    for piece in pieces:
        if client is not None:
            client.extend()
        yield piece


def _view(frame: Frame, route: Route) -> Callable[..., Response]:
    def view(**path_values: str) -> Response:
        return _response(frame.answer(route, request.environ, path_values))

    return view


def _refusing(frame: Frame, status: int, detail: str) -> Callable[[Any], Response]:
    def refuse(error: Any) -> Response:  # noqa: ANN401 - Flask's exceptions
        response = _response(frame.refuse(request.environ, status, detail))
        allow = error.get_response().headers.get("Allow") if isinstance(error, HTTPException) else None
        if allow and response.status_code == status:
            response.headers["Allow"] = allow
        return response

    return refuse


def _response(reply: Reply) -> Response:
    response = Response(reply.body, reply.status, content_type=reply.content_type)
    for name, value in reply.headers:
        response.headers[name] = value
    return response
