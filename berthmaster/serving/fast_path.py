"""Views, which Flask and the fast path share.

Flask owns the route table and can answer every path. Its dispatch costs more time than a typical answer. The
worker therefore calls the views of exact POST paths directly (``responses``), and leaves all other requests to Flask.
Both ways call the same view and send the same response.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from berthmaster.serving.responses import STATUS_LINES, HTTPReply, View

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_REFUSED: Final = (404, 405, 500)
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


class ViewApp(Flask):
    """A Flask application.

    Attributes:
        views: the views of the exact paths of POST requests.
    """

    views: Mapping[str, View]


def create_app(name: str, routes: Sequence[ViewRoute], refuse: Refuse) -> ViewApp:
    """Create an application that answers requests with views.

    Raises:
        ValueError: two routes have the same method and path.
    """
    app = ViewApp(name, static_folder=None)
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    for method, path, view in routes:
        key = f"{method} {path}"
        if key in app.view_functions:
            raise ValueError(f"two routes for {key}")
        rule = path.replace("{", "<").replace("}", ">")
        app.add_url_rule(rule, key, _flask_view(view), methods=[method], provide_automatic_options=False)
    for status in _REFUSED:
        app.register_error_handler(status, _error_handler(refuse, status))
    app.views = {path: view for method, path, view in routes if method == "POST" and "{" not in path}
    return app


def _flask_view(view: View) -> Callable[..., Response]:
    return lambda **path_values: _response(view(request.environ, path_values))


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
    return Response(reply.body, STATUS_LINES[reply.status], list(reply.headers))
