"""WSGI for plain requests: from a request to a call of the application, and from what it gives to bytes."""

import io
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gunicorn import SERVER
from gunicorn.http.wsgi import base_environ
from gunicorn.util import http_date

from berthmaster.serving.channel import Channel
from berthmaster.serving.request_parser import PlainRequest

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


class Gateway:
    """Calls an application. For one thread."""

    def __init__(self, wsgi: Callable[..., Iterable[bytes]], cfg: Any) -> None:  # noqa: ANN401 - gunicorn's own
        self._wsgi = wsgi
        self._common: WSGIEnvironment = {
            **base_environ(cfg),
            "wsgi.multithread": True,
            "wsgi.url_scheme": "https" if cfg.is_ssl else "http",
            "SCRIPT_NAME": "",
            "SERVER_PROTOCOL": "HTTP/1.1",
        }
        self._date = http_date()
        self._date_until = 0.0

    def surroundings(self, client: Any, server: Any) -> "WSGIEnvironment":  # noqa: ANN401 - addresses of either family
        """What the environments of all requests of a connection have in common."""
        return {
            **self._common,
            "REMOTE_ADDR": client[0],
            "REMOTE_PORT": str(client[1]),
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
        }

    def answer(
        self, request: PlainRequest, surroundings: "WSGIEnvironment", channel: Channel, *, keep: bool
    ) -> tuple[bytes, bool]:
        """The response as it goes over the wire, and whether the connection stays after it.

        Args:
            request: what is asked.
            surroundings: of the connection.
            channel: the connection's.
            keep: whether the connection may stay.
        """
        environ = {
            **surroundings,
            **request.fields,
            "REQUEST_METHOD": request.method,
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query,
            "wsgi.input": io.BytesIO(request.body),
            "gunicorn.socket": channel,
        }
        response = _Response(keep=keep)
        channel.on_last_answer = response.close_after
        pieces = self._wsgi(environ, response.start)
        try:
            response.written.extend(pieces)
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        return response.encoded(self._now()), response.keep

    def _now(self) -> str:
        """The date as HTTP has it, which changes once a second."""
        now = time.time()
        if now >= self._date_until:
            self._date, self._date_until = http_date(now), now // 1 + 1
        return self._date


class _Response:
    """What an application answers."""

    __slots__ = ("_fields", "_status", "keep", "written")

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        self.written: list[bytes] = []
        self._status = ""
        self._fields: list[tuple[str, str]] = []

    def start(
        self, status: str, fields: list[tuple[str, str]], _exc_info: object = None, /
    ) -> Callable[[bytes], object]:
        """WSGI's ``start_response``. Nothing is sent before the whole is there, so that it may start again."""
        self._status, self._fields = status, fields
        return self.written.append

    def close_after(self) -> None:
        """Let the connection end with this response."""
        self.keep = False

    def encoded(self, date: str) -> bytes:
        """All of it."""
        body = b"".join(self.written)
        lines = [f"{name}: {value}" for name, value in self._fields if name.lower() != "content-length"]
        if any("\n" in line or "\r" in line for line in lines):
            raise ValueError("a header field of the answer has more than one line")
        connection = "keep-alive" if self.keep else "close"
        own = f"Server: {SERVER}", f"Date: {date}", f"Connection: {connection}", f"Content-Length: {len(body)}"
        return "\r\n".join((f"HTTP/1.1 {self._status}", *own, *lines, "", "")).encode("latin-1") + body
