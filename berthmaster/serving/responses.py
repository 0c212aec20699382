"""The server side of WSGI: call the application, and encode its response."""

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gunicorn import SERVER

from berthmaster.serving.request_parser import ClientRequest, ServerRefusal

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

REQUEST_KEY: Final = "berthmaster.request"
"""The name of the ``ClientRequest`` in the WSGI environment."""
STATUS_LINES: Final = {int(status): f"{int(status)} {status.phrase}" for status in HTTPStatus}
_NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})


class HTTPReply(NamedTuple):
    """The response of a view. ``body`` is the whole body, or an iterator whose pieces are sent one by one."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | Iterator[bytes]


View = Callable[["WSGIEnvironment", Mapping[str, str]], HTTPReply]
"""Answer a request, given its WSGI environment and the values of the ``{names}`` in its path. Must not raise."""


class WSGICaller:
    """Calls a WSGI application, or a view of a ``ViewApp`` directly. Safe for several threads."""

    def __init__(self, wsgi: "WSGIApplication", *, tls: bool, processes: int) -> None:
        self._wsgi = wsgi
        self._views: Mapping[str, View] = getattr(wsgi, "views", {})
        self._common: WSGIEnvironment = {
            "wsgi.version": (1, 0), "wsgi.errors": sys.stderr, "wsgi.multithread": True,
            "wsgi.multiprocess": processes > 1, "wsgi.run_once": False, "wsgi.input_terminated": True,
            "wsgi.url_scheme": "https" if tls else "http", "SERVER_SOFTWARE": SERVER, "SCRIPT_NAME": "",
        }  # fmt: skip

    def connection_environ(self, client: Any, server: Any) -> "WSGIEnvironment":  # noqa: ANN401 - addresses of any family
        """Return the part of the WSGI environment that all requests of a connection share."""
        own = {"REMOTE_ADDR": client[0], "REMOTE_PORT": str(client[1])}
        return {**self._common, **own, "SERVER_NAME": server[0], "SERVER_PORT": str(server[1])}

    def answer(
        self, request: ClientRequest, environ: "WSGIEnvironment", body: object, *, keep: bool
    ) -> Iterator[bytes]:
        """Yield the encoded response: as a whole, or piece by piece if the request is streamed.

        Args:
            body: the input of the application.
            keep: whether the response says that the connection stays open.
        """
        response, chunked = _Response(request, keep=keep), request.knows_chunks
        own = {
            "REQUEST_METHOD": request.method, "PATH_INFO": request.path, "QUERY_STRING": request.query,
            "SERVER_PROTOCOL": "HTTP/1.1" if chunked else "HTTP/1.0", "wsgi.input": body, REQUEST_KEY: request,
        }  # fmt: skip
        whole = {**environ, **request.fields, **own}
        view = self._views.get(request.path) if request.method == "POST" else None
        if view is None:
            pieces = self._wsgi(whole, response.start)
        else:
            status, fields, content = view(whole, _NO_VALUES)
            response.start(STATUS_LINES[status], fields)
            pieces = (content,) if isinstance(content, bytes) else content
        try:
            if not request.streamed:
                content = b"".join(pieces)
                yield response.head(len(content)) + content
                return
            begun = False
            for piece in chain(pieces, (b"",)):
                head, begun = b"" if begun else response.head(None), True
                yield head + (b"%x\r\n%b\r\n" % (len(piece), piece) if chunked and piece else piece)
            yield b"0\r\n\r\n" if chunked else b""  # without chunks, the response ends with the connection
        finally:
            if hasattr(pieces, "close"):
                pieces.close()


class _Response:
    def __init__(self, request: ClientRequest, *, keep: bool) -> None:
        self._request = request
        self._keep = keep
        self._status = ""
        self._fields: Sequence[tuple[str, str]] = ()

    def start(
        self, status: str, fields: Sequence[tuple[str, str]], _error: object = None, /
    ) -> Callable[[bytes], object]:
        """Implement WSGI's ``start_response``. Nothing is sent yet, so the application may call it again."""
        self._status, self._fields = status, fields
        return lambda _data: None  # no application of this package writes its body

    def head(self, length: int | None) -> bytes:
        """Return the encoded head, given the size of the body if it is known."""
        fields = self._fields
        if self._request.method != "HEAD" and not self._status.startswith(("204", "304")):
            fields = [field for field in fields if field[0].lower() != "content-length"]
            if length is not None:
                fields.append(("Content-Length", str(length)))
            elif self._request.knows_chunks:
                fields.append(("Transfer-Encoding", "chunked"))
        return _encoded_head(self._status, fields, keep=self._keep)


def _encoded_head(status: str, fields: Collection[tuple[str, str]], *, keep: bool) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    if not lines.count("\r") == lines.count("\n") == len(fields):
        raise ValueError("a header field of the response contains a line break")
    return f"HTTP/1.1 {status}\r\n{_own_fields(int(time.time()), keep)}{lines}\r\n".encode("latin-1")


@lru_cache(maxsize=2)  # a date is formatted once per second
def _own_fields(second: int, keep: bool) -> str:  # noqa: FBT001 - a part of the key
    date, connection = formatdate(second, usegmt=True), "keep-alive" if keep else "close"
    return f"Server: {SERVER}\r\nDate: {date}\r\nConnection: {connection}\r\n"


RefusalForm = Callable[[ServerRefusal], tuple[Mapping[str, str], bytes]]
"""Returns the header fields and the body of an answer to what is not a request of the application."""


def plain_form(refusal: ServerRefusal) -> tuple[Mapping[str, str], bytes]:
    """Return a refusal as plain text."""
    text = refusal.problem or HTTPStatus(refusal.status).phrase
    return {"Content-Type": "text/plain; charset=utf-8"}, f"{text}\n".encode()


def refusal_response(refusal: ServerRefusal, form: RefusalForm) -> bytes:
    """Return the encoded response to what is not a request of the application. It closes the connection."""
    fields, body = form(refusal)
    retry = {"Retry-After": "1"} if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    every = {**fields, **retry, "Content-Length": str(len(body))}
    return _encoded_head(STATUS_LINES[refusal.status], every.items(), keep=False) + body
