"""The server side of WSGI: call the application, and encode its response."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from email.utils import formatdate
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, Final

from gunicorn import SERVER

from berthmaster.serving.request_parser import ClientRequest, ServerRefusal

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

    from berthmaster.serving.connection import ArrivingBody

REQUEST_KEY: Final = "berthmaster.request"
"""The name of the ``ClientRequest`` in the WSGI environment of the fast worker."""


class WSGICaller:
    """Calls a WSGI application. Safe for several threads."""

    def __init__(self, wsgi: "WSGIApplication", *, tls: bool, processes: int) -> None:
        self._wsgi = wsgi
        self._common: WSGIEnvironment = {
            "wsgi.version": (1, 0), "wsgi.errors": sys.stderr, "wsgi.multithread": True,
            "wsgi.multiprocess": processes > 1, "wsgi.run_once": False, "wsgi.input_terminated": True,
            "wsgi.url_scheme": "https" if tls else "http", "SERVER_SOFTWARE": SERVER, "SCRIPT_NAME": "",
        }  # fmt: skip
        self._date = (0.0, "")

    def connection_environ(self, client: Any, server: Any) -> "WSGIEnvironment":  # noqa: ANN401 - addresses of any family
        """Return the part of the WSGI environment that all requests of a connection share."""
        own = {"REMOTE_ADDR": client[0], "REMOTE_PORT": str(client[1])}
        return {**self._common, **own, "SERVER_NAME": server[0], "SERVER_PORT": str(server[1])}

    def answer(self, request: ClientRequest, environ: "WSGIEnvironment", body: IO[bytes], *, keep: bool) -> bytes:
        response = _Response(request, keep=keep)
        pieces = self._call(response, environ, body)
        try:
            content = b"".join(pieces)
        finally:
            _close(pieces)
        return response.head(self._now(), len(content)) + content

    def stream(
        self, request: ClientRequest, environ: "WSGIEnvironment", body: "ArrivingBody", *, keep: bool
    ) -> Iterator[bytes]:
        """Yield the encoded response, piece by piece. The arguments are those of ``answer``."""
        chunks = request.knows_chunks  # without them, the response ends with the connection
        response, begun = _Response(request, keep=keep and chunks), False
        with ExitStack() as stack:
            pieces = self._call(response, environ, body)
            stack.callback(_close, pieces)
            for piece in pieces:
                head, begun = b"" if begun else response.head(self._now(), None), True
                yield head + (b"%x\r\n%b\r\n" % (len(piece), piece) if chunks and piece else piece)
        yield (b"" if begun else response.head(self._now(), None)) + (b"0\r\n\r\n" if chunks else b"")

    def _call(self, response: "_Response", environ: "WSGIEnvironment", body: object) -> Iterable[bytes]:
        request = response.request
        own = {
            "REQUEST_METHOD": request.method, "PATH_INFO": request.path, "QUERY_STRING": request.query,
            "SERVER_PROTOCOL": "HTTP/1.1" if request.knows_chunks else "HTTP/1.0", "wsgi.input": body,
            REQUEST_KEY: request,
        }  # fmt: skip
        return self._wsgi({**environ, **request.fields, **own}, response.start)

    def _now(self) -> str:
        """Return the date in HTTP's format. It is formatted once per second."""
        now = time.time()
        until, date = self._date
        if now >= until:
            date = formatdate(now, usegmt=True)
            self._date = now // 1 + 1, date
        return date


def _close(pieces: Any) -> None:  # noqa: ANN401 - an iterable that may have the method
    if hasattr(pieces, "close"):
        pieces.close()


class _Response:
    def __init__(self, request: ClientRequest, *, keep: bool) -> None:
        self.request = request
        self._connection = "keep-alive" if keep else "close"
        self._status = ""
        self._fields: list[tuple[str, str]] = []

    def start(self, status: str, fields: list[tuple[str, str]], _error: object = None, /) -> Callable[[bytes], object]:
        """Implement WSGI's ``start_response``. Nothing is sent yet, so the application may call it again."""
        self._status, self._fields = status, fields
        return lambda _data: None  # no application of this package writes its body

    def head(self, date: str, length: int | None) -> bytes:
        """Return the encoded head, given the date in HTTP's format, and the size of the body if it is known."""
        has_body = self.request.method != "HEAD" and not self._status.startswith(("204", "304"))
        lines = [f"{name}: {value}" for name, value in self._fields if not has_body or name.lower() != "content-length"]
        if any("\n" in line or "\r" in line for line in lines):
            raise ValueError("a header field of the response contains a line break")
        if has_body and length is not None:
            lines.append(f"Content-Length: {length}")
        elif has_body and self.request.knows_chunks:
            lines.append("Transfer-Encoding: chunked")
        own = f"Server: {SERVER}", f"Date: {date}", f"Connection: {self._connection}"
        return "\r\n".join((f"HTTP/1.1 {self._status}", *own, *lines, "", "")).encode("latin-1")


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
    every = {"Connection": "close", **fields, **retry, "Content-Length": str(len(body))}
    head = [f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}", *map(": ".join, every.items())]
    return "\r\n".join((*head, "", "")).encode() + body
