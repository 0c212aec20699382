"""The extender's WSGI application: all routes, and the middleware that every request passes.

The middleware checks authentication, content type, size and deadline before a handler runs. After that it adds the
request id, counts, logs, and gives every refusal the shape of its protocol.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import msgspec
from flask import Flask

from berthmaster.model.errors import InputError, shown
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits
from berthmaster.native_api.wire import InvalidField, Problem
from berthmaster.runtime.logs import BurstFilter, fields
from berthmaster.runtime.memory import release_unused
from berthmaster.runtime.traces import span
from berthmaster.serving.bodies import BodyError, begun_at, has_gone, read_body
from berthmaster.serving.fast_path import ViewRoute
from berthmaster.serving.fast_path import create_app as create_flask_app
from berthmaster.serving.request_id import request_id_of
from berthmaster.serving.responses import HTTPReply
from extender.protocols import kube_scheduler, kubeadmiral, native
from extender.protocols.problem import Refusal, problem, problem_of
from extender.protocols.request_size import sized
from extender.protocols.route import Reply, Route, problem_reply
from extender.protocols.services import Call, Services

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_MAX_PARAMETERS: Final = 20
_RELEASED_BYTES: Final = 2**20
"""From this size of a request on, the memory that its answer took is returned to the system."""
_MAX_LOGGED: Final = 512
"""The most characters of the cause of a refusal in the log."""
_REFUSALS_PER_S: Final = 50.0
_REFUSAL_BURST: Final = 500
_PROBLEMS: Final = {
    404: "unknown path; /openapi.json and docs/extender.md list all paths",
    405: "method not allowed; the Allow header lists the methods of this path",
    500: "internal error; the log of the service has the details",
}
_UNAUTHENTICATED: Final = "a valid bearer token is required"
_CHALLENGE: Final = (("WWW-Authenticate", 'Bearer realm="berthmaster"'),)

Authenticate = Callable[["WSGIEnvironment"], bool]


def all_routes(
    *,
    pass_in_doubt: bool = True,
    kube_scheduler_options: kube_scheduler.KubeSchedulerOptions | None = None,
    limits: PlacementLimits = DEFAULT_LIMITS,
    planner: native.Planner | None = None,
    drifts: native.Drifts | None = None,
) -> Sequence[Route]:
    """Return the routes of all protocols. Each call creates routes with caches of their own."""
    return [
        *native.routes(planner, drifts),
        *kubeadmiral.routes(pass_in_doubt=pass_in_doubt, limits=limits),
        *kube_scheduler.routes(kube_scheduler_options),
    ]


def create_app(middleware: "Middleware", routes: Sequence[Route]) -> Flask:
    """Create the application."""
    views = [ViewRoute(route.method, route.path, partial(middleware.answer, route)) for route in routes]
    return create_flask_app("berthmaster.extender", views, middleware.refuse)


class Middleware:
    """Answer requests for routes. Safe for several threads."""

    def __init__(
        self,
        services: Services,
        *,
        request_timeout_s: float,
        stream_timeout_s: float,
        authenticate: Authenticate = lambda _environ: True,
    ) -> None:
        """Set up the middleware. ``stream_timeout_s`` is the time limit for a streamed reply."""
        self._services = services
        self._request_timeout_s = request_timeout_s
        self._stream_timeout_s = stream_timeout_s
        self._authenticate = authenticate
        self._log_limit = BurstFilter(_REFUSALS_PER_S, _REFUSAL_BURST)

    def answer(self, route: Route, environ: "WSGIEnvironment", path_values: Mapping[str, str]) -> HTTPReply:
        """Return the reply of a route. Never raises; a stream may end early."""
        begun = self._services.clock.monotonic_s()
        request_id, why = request_id_of(environ), ""
        try:
            self._check(route, environ)
            call = self._call(route, environ, request_id, begun, path_values)
            with span(route.path, environ.get("HTTP_TRACEPARENT"), request_id=request_id):
                reply = self._handled(route, call)
        except (InputError, Refusal, BodyError) as error:
            refusal, headers = _problem_of(error, request_id, route)
            why = refusal.detail
            reply = self._refused(route, refusal, request_id, headers)
        except Exception:  # the crash handler: the client must get an answer in the shape of its protocol
            self._services.log.exception("request failed", extra=fields(request_id=request_id, path=route.path))
            reply = self._refused(route, problem(500, _PROBLEMS[500], request_id), request_id)
        elapsed_s = self._services.clock.monotonic_s() - begun
        self._services.metrics.answered(route.protocol, route.path, reply.status, elapsed_s)
        self._log(route.path, reply.status, request_id, elapsed_s, why)
        return _http_reply(reply, request_id)

    def _handled(self, route: Route, call: Call) -> Reply:
        if not call.body:
            return route.handler(self._services, call)
        try:
            with sized(
                self._services, call, call.body, brings_fleet=route.brings_fleet, decodes_parts=route.decodes_parts
            ):
                return route.handler(self._services, call)
        finally:
            if len(call.body) > _RELEASED_BYTES:
                release_unused()

    def refuse(self, environ: "WSGIEnvironment", status: int) -> HTTPReply:
        """Return the reply to a request without a route. Clients without a valid token always get status 401."""
        request_id = request_id_of(environ)
        if not self._authenticate(environ):
            reply = problem_reply(problem(401, _UNAUTHENTICATED, request_id))._replace(headers=_CHALLENGE)
        else:
            reply = problem_reply(problem(status, _PROBLEMS[status], request_id))
        self._services.metrics.answered("", "", reply.status, 0.0)
        self._log(environ.get("PATH_INFO", "")[:256], reply.status, request_id, 0.0)
        return _http_reply(reply, request_id)

    def _refused(
        self, route: Route, refusal: Problem, request_id: str, headers: tuple[tuple[str, str], ...] = ()
    ) -> Reply:
        """Refuse a request in the shape of its route. A route may answer in doubt instead: its status is below 400."""
        reply = route.refuse(refusal)
        if reply.status < 400:
            verb = route.path.rpartition("/")[2]
            self._services.metrics.doubted(route.protocol, verb)
            log_fields = fields(request_id=request_id)
            self._services.log.warning(
                "%s: the request could not be decided: %s", verb, refusal.detail, extra=log_fields
            )
        return reply._replace(headers=(*reply.headers, *headers))

    def _check(self, route: Route, environ: "WSGIEnvironment") -> None:
        if not self._authenticate(environ):
            raise Refusal(401, _UNAUTHENTICATED, headers=_CHALLENGE)
        if route.accepts:
            content_type = environ.get("CONTENT_TYPE", "")
            if content_type.partition(";")[0].strip().lower() not in route.accepts:
                accepted = " or ".join(route.accepts)
                raise Refusal(415, f"content type {shown(content_type)} is not accepted; accepted is {accepted}")

    def _call(
        self, route: Route, environ: "WSGIEnvironment", request_id: str, begun: float, path_values: Mapping[str, str]
    ) -> Call:
        query = _query(environ, route.query)
        first_byte = begun_at(environ)
        begun = begun if first_byte is None else first_byte
        timeout_s = self._stream_timeout_s if route.streamed else self._request_timeout_s
        body = read_body(environ, self._services.limits.body_bytes) if route.method == "POST" else b""
        return Call(request_id, begun + timeout_s, body, query, path_values, partial(has_gone, environ))

    def _log(self, path: str, status: int, request_id: str, elapsed_s: float, why: str = "") -> None:
        """Log a reply. Some clients, such as kube-scheduler, report only the status of a refusal."""
        level = logging.DEBUG if status < 400 else logging.INFO
        if not self._services.log.isEnabledFor(level):
            return
        suppressed = 0 if status < 400 else self._log_limit.take()
        if suppressed is not None:
            message = "request answered" if status < 400 else "request refused"
            elapsed_ms = round(elapsed_s * 1e3, 3)
            log_fields = fields(path=path, status=status, request_id=request_id, elapsed_ms=elapsed_ms)
            named = f"{message}: {why[:_MAX_LOGGED]}" if why else message
            self._services.log.log(level, "%s", named, extra={**log_fields, "suppressed": suppressed})


def _query(environ: "WSGIEnvironment", known: Collection[str] | None) -> Mapping[str, str]:
    text = environ.get("QUERY_STRING", "")
    if not text:
        return {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise Refusal(400, f"more than {_MAX_PARAMETERS} query parameters") from None
    unknown = next((name for name, _ in pairs if known is not None and name not in known), None)
    if unknown is not None:
        accepted = f"accepted are {', '.join(sorted(known or ()))}" if known else "this path has none"
        error = InvalidField(f"?{unknown}", f"unknown query parameter; {accepted}")
        raise Refusal(400, f"query parameter {shown(unknown)}: {error.detail}", errors=[error])
    return dict(reversed(pairs))


def _problem_of(
    error: InputError | Refusal | BodyError, request_id: str, route: Route
) -> tuple[Problem, tuple[tuple[str, str], ...]]:
    if isinstance(error, BodyError):
        found = problem(error.status, str(error), request_id)
    else:
        found = problem_of(error, request_id)
    headers = () if isinstance(error, InputError) else error.headers
    if found.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and route.when_too_large:
        found = msgspec.structs.replace(found, detail=f"{found.detail}; {route.when_too_large}")
    return found, headers


def _http_reply(reply: Reply, request_id: str) -> HTTPReply:
    headers = (("Content-Type", reply.content_type), *reply.headers, ("X-Request-Id", request_id))
    return HTTPReply(reply.status, headers, reply.body)
