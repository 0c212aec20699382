"""The frame around handlers: from a WSGI request to a call, from what a handler gives or raises to a reply.

It sees to authentication, content types, sizes and deadlines before, and to request ids, logs, metrics and refusals in
the protocol's own shape afterwards. Independent of any framework but WSGI.
"""

import logging
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl

from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.runtime.logs import fields
from berthmaster.serving.body import BodyError, lines, read_body
from berthmaster.serving.channel import answer_last
from extender.protocols.problem import InvalidField, Problem, Refusal, field_problem, problem
from extender.protocols.route import Call, Reply, Route, problem_reply
from extender.protocols.services import Services

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_MAX_PARAMETERS: Final = 20


class RequestMeter(Protocol):
    """Counts requests."""

    def answered(self, protocol: str, route: str, status: int, seconds: float) -> None:
        """A request was answered after so many seconds; the route is empty where there was none."""


Authenticate = Callable[["WSGIEnvironment"], bool]


class Frame:
    """Answers requests for routes. Threads may share it."""

    def __init__(
        self,
        services: Services,
        meter: RequestMeter,
        *,
        request_timeout_s: float,
        stream_timeout_s: float,
        authenticate: Authenticate = lambda _environ: True,
    ) -> None:
        """Set up the frame.

        Args:
            services: what handlers get.
            meter: counts requests.
            request_timeout_s: how long an answer may take.
            stream_timeout_s: how long a streamed request may take in all.
            authenticate: whether a request comes from somebody who may ask.
        """
        self._services = services
        self._meter = meter
        self._request_timeout_s = request_timeout_s
        self._stream_timeout_s = stream_timeout_s
        self._authenticate = authenticate

    def answer(self, route: Route, environ: "WSGIEnvironment", path_values: Mapping[str, str] | None = None) -> Reply:
        """The reply of a route. Never raises; a stream may end early."""
        begun = self._services.clock.monotonic_s()
        request_id = request_id_of(environ)
        unread = True
        try:
            self._admit(route, environ)
            call = self._call(route, environ, request_id, begun, path_values or {})
            unread = route.streamed
            reply = route.handler(self._services, call)
        except (InputError, Refusal, BodyError) as error:
            told, headers = _told(error, request_id)
            reply = self._refused(route, told, request_id, headers)
            if unread:
                answer_last(environ)
        except Exception:  # the crash handler: whoever asked gets an answer in its protocol's shape
            self._services.log.exception("a request failed", extra=fields(request_id=request_id, path=route.path))
            told = problem(500, "the service failed; its log says why", request_id)
            reply = self._refused(route, told, request_id)
            answer_last(environ)
        elapsed_s = self._services.clock.monotonic_s() - begun
        self._meter.answered(route.protocol, route.path, reply.status, elapsed_s)
        self._log(route.path, reply.status, request_id, elapsed_s)
        return _named(reply, request_id)

    def refuse(self, environ: "WSGIEnvironment", status: int, detail: str) -> Reply:
        """The reply to a request that no route is for; to those who may not ask, only that."""
        request_id = request_id_of(environ)
        if not self._authenticate(environ):
            reply = problem_reply(problem(401, _WHO, request_id))._replace(headers=_CHALLENGE)
        else:
            reply = problem_reply(problem(status, detail, request_id))
        self._meter.answered("", "", reply.status, 0.0)
        self._log(environ.get("PATH_INFO", "")[:256], reply.status, request_id, 0.0)
        answer_last(environ)
        return _named(reply, request_id)

    def _refused(
        self, route: Route, told: Problem, request_id: str, headers: tuple[tuple[str, str], ...] = ()
    ) -> Reply:
        """The reply of a route to a request that it does not answer; one that is no refusal is an answer in doubt."""
        reply = route.refuse(told)
        if reply.status < 400:
            verb = route.path.rpartition("/")[2]
            self._services.meter.doubted(route.protocol, verb)
            self._services.log.warning(
                "%s answered in doubt: %s", verb, told.detail, extra=fields(request_id=request_id)
            )
        return reply._replace(headers=(*reply.headers, *headers))

    def _admit(self, route: Route, environ: "WSGIEnvironment") -> None:
        """See that the request may be read at all.

        Raises:
            Refusal: it may not.
        """
        if not self._authenticate(environ):
            raise Refusal(401, _WHO, headers=_CHALLENGE)
        if route.accepts:
            content_type = environ.get("CONTENT_TYPE", "")
            if content_type.partition(";")[0].strip().lower() not in route.accepts:
                accepted = " or ".join(route.accepts)
                raise Refusal(415, f"content type {shown(content_type)} is not accepted; accepted is {accepted}")

    def _call(
        self,
        route: Route,
        environ: "WSGIEnvironment",
        request_id: str,
        begun: float,
        path_values: Mapping[str, str],
    ) -> Call:
        query = _query(environ, route.query)
        if route.streamed:
            bursts = self._bursts(environ)
            return Call(request_id, begun + self._stream_timeout_s, b"", bursts, query, path_values)
        body = read_body(environ, self._services.limits.body_bytes) if route.method == "POST" else b""
        return Call(request_id, begun + self._request_timeout_s, body, (), query, path_values)

    def _bursts(self, environ: "WSGIEnvironment") -> Iterator[Sequence[bytes]]:
        try:
            yield from lines(environ, self._services.limits.line_bytes)
        except BodyError as error:
            raise Refusal(error.status, str(error)) from None

    def _log(self, path: str, status: int, request_id: str, elapsed_s: float) -> None:
        level = logging.DEBUG if status < 400 else logging.INFO
        if self._services.log.isEnabledFor(level):
            told = fields(path=path, status=status, request_id=request_id, elapsed_ms=round(elapsed_s * 1e3, 3))
            self._services.log.log(level, "answered", extra=told)


def request_id_of(environ: "WSGIEnvironment") -> str:
    """What the client calls the request, if that is sane; else a name of our own."""
    given: str = environ.get("HTTP_X_REQUEST_ID", "")
    return given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex


_WHO: Final = "a bearer token that is known here is needed"
_CHALLENGE: Final = (("WWW-Authenticate", 'Bearer realm="berthmaster"'),)


def _query(environ: "WSGIEnvironment", known: frozenset[str] | None) -> Mapping[str, str]:
    text = environ.get("QUERY_STRING", "")
    if not text:
        return {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise Refusal(400, f"more than {_MAX_PARAMETERS} query parameters") from None
    unknown = next((name for name, _ in pairs if known is not None and name not in known), None)
    if unknown is not None:
        accepted = f"accepted are {', '.join(sorted(known or ()))}" if known else "there are none here"
        told = InvalidField(f"?{unknown}", f"there is no such query parameter; {accepted}")
        raise Refusal(400, f"query parameter {shown(unknown)}: {told.detail}", errors=[told])
    return dict(reversed(pairs))


def _told(error: InputError | Refusal | BodyError, request_id: str) -> tuple[Problem, tuple[tuple[str, str], ...]]:
    """What was raised as problem details, and the header fields that belong to it."""
    match error:
        case FieldError():
            return field_problem(error, request_id), ()
        case InputError():
            return problem(400, str(error), request_id), ()
        case Refusal():
            return problem(error.status, error.detail, request_id, error.errors), error.headers
        case BodyError():
            return problem(error.status, str(error), request_id), ()


def _named(reply: Reply, request_id: str) -> Reply:
    return reply._replace(headers=(*reply.headers, ("X-Request-Id", request_id)))
