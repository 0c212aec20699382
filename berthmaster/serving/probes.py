"""The answers to probes: ``/livez``, ``/readyz`` and ``/metrics``.

Functions supply the answers, so this module does not depend on the service.
"""

import logging
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple

from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import log_exceptions

_LOG: Final = logging.getLogger("berthmaster.probes")
_TEXT: Final = "text/plain; charset=utf-8"
_METHODS: Final = frozenset({"GET", "HEAD"})
_PATHS: Final = "the paths are /livez, /readyz and /metrics"
_NO_PAGES: Final[Mapping[str, Callable[[], tuple[str, bytes]]]] = MappingProxyType({})
METRICS_KEPT_S: Final = 1.0
"""The time for which the text of the metrics is used again. To render it takes milliseconds."""
Response = tuple[bytes, bytes]
"""The head of a response, with the empty line at its end, and the body."""


class Readiness(NamedTuple):
    """The state of a service for ``/readyz``.

    Attributes:
        problem: the reason why the service should get no requests; empty if it is ready.
    """

    problem: str = ""
    note: str = ""


class Probes(NamedTuple):
    """The functions that supply the answers.

    Attributes:
        metrics: returns the content type and the text of all metrics.
        dead: returns the reason why the process must be restarted; empty if it need not.
    """

    readiness: Callable[[], Readiness]
    metrics: Callable[[], tuple[str, bytes]]
    dead: Callable[[], str] = lambda: ""
    pages: Mapping[str, Callable[[], tuple[str, bytes]]] = _NO_PAGES


class ProbeResponder:
    """Answers requests. One thread uses it.

    ``/livez`` succeeds whenever the server can answer, unless ``Probes.dead`` returns a reason.
    """

    def __init__(self, probes: Probes, clock: Clock) -> None:
        self._probes = probes
        self._clock = clock
        self._metrics: tuple[str, bytes] = (_TEXT, b"")
        self._metrics_until_s = float("-inf")

    def answer(self, head: bytes) -> Response:
        """Return the response to a request.

        Args:
            head: the request up to the empty line after its header fields. A body is ignored.
        """
        answers: list[Response] = []
        if not log_exceptions(lambda: answers.append(self._answer(head)), _LOG, "a probe cannot be answered"):
            return _text(HTTPStatus.INTERNAL_SERVER_ERROR, "an internal error; the log has the reason")
        return answers[0]

    def refuse_long_head(self) -> Response:
        return _text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long")

    def _answer(self, head: bytes) -> Response:
        words = head.split(b"\n", 1)[0].decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _text(HTTPStatus.BAD_REQUEST, "the request line must be: GET <path> HTTP/1.1")
        method, target, _version = words
        if method not in _METHODS:
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "the methods are GET and HEAD", "Allow: GET, HEAD")
        response = self._get(target.partition("?")[0].rstrip("/"))
        return response if method == "GET" else (response[0], b"")

    def _get(self, path: str) -> Response:
        if path == "/livez":
            problem = self._probes.dead()
            return _state(problem, problem or "ok")
        if path == "/readyz":
            problem, note = self._probes.readiness()
            return _state(problem, problem or "ok", *filter(None, [note]))
        if path == "/metrics":
            content_type, text = self._recent_metrics()
            return _response(HTTPStatus.OK, text, content_type)
        page = self._probes.pages.get(path)
        if page is not None:
            content_type, text = page()
            return _response(HTTPStatus.OK, text, content_type)
        return _text(HTTPStatus.NOT_FOUND, _PATHS)

    def _recent_metrics(self) -> tuple[str, bytes]:
        if self._clock.monotonic_s() >= self._metrics_until_s:
            self._metrics = self._probes.metrics()
            self._metrics_until_s = self._clock.monotonic_s() + METRICS_KEPT_S
        return self._metrics


def _state(problem: str, *lines: str) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return _response(status, "".join(f"{line}\n" for line in lines).encode(errors="replace"), _TEXT)


def _text(status: HTTPStatus, line: str, *fields: str) -> Response:
    return _response(status, f"{line}\n".encode(), _TEXT, *fields)


def _response(status: HTTPStatus, body: bytes, content_type: str, *fields: str) -> Response:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Server: berthmaster",
        f"Date: {formatdate(usegmt=True)}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *fields,
    ]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode(), body
