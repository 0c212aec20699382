"""The server side of WSGI for plain requests: call the application, and encode its response."""

import io
import time
from collections.abc import Callable, Iterable
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from gunicorn import SERVER

from berthmaster.serving.channel import Channel
from berthmaster.serving.gunicorn_internals import base_environ
from berthmaster.serving.request_parser import PlainRequest

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


class WSGICaller:
    """Call a WSGI application. For one thread."""

    def __init__(self, wsgi: Callable[..., Iterable[bytes]], cfg: Any) -> None:  # noqa: ANN401 - gunicorn's own
        self._wsgi = wsgi
        self._common: WSGIEnvironment = {
            **base_environ(cfg),
            "wsgi.multithread": True,
            "wsgi.url_scheme": "https" if cfg.is_ssl else "http",
            "SCRIPT_NAME": "",
            "SERVER_PROTOCOL": "HTTP/1.1",
        }
        self._date = formatdate(usegmt=True)
        self._date_until = 0.0

    def connection_environ(self, client: Any, server: Any) -> "WSGIEnvironment":  # noqa: ANN401 - addresses of any family
        """Return the part of the WSGI environment that all requests of a connection share."""
        return {
            **self._common,
            "REMOTE_ADDR": client[0],
            "REMOTE_PORT": str(client[1]),
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
        }

    def answer(
        self, request: PlainRequest, connection_environ: "WSGIEnvironment", channel: Channel, *, keep: bool
    ) -> tuple[bytes, bool]:
        """Return the encoded response, and whether the connection stays open.

        Args:
            request: the request.
            connection_environ: from the method of this name.
            channel: the channel of the connection.
            keep: whether the connection may stay open.
        """
        environ = {
            **connection_environ,
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
        """Return the date in HTTP's format. It is formatted once per second."""
        now = time.time()
        if now >= self._date_until:
            self._date, self._date_until = formatdate(now, usegmt=True), now // 1 + 1
        return self._date


class _Response:
    """The response of an application."""

    __slots__ = ("_fields", "_status", "keep", "written")

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        self.written: list[bytes] = []
        self._status = ""
        self._fields: list[tuple[str, str]] = []

    def start(
        self, status: str, fields: list[tuple[str, str]], _exc_info: object = None, /
    ) -> Callable[[bytes], object]:
        """Implement WSGI's ``start_response``. Nothing is sent yet, so the application may call it again."""
        self._status, self._fields = status, fields
        return self.written.append

    def close_after(self) -> None:
        """Close the connection after this response."""
        self.keep = False

    def encoded(self, date: str) -> bytes:
        """Return the whole response.

        Raises:
            ValueError: a header field contains a line break.
        """
        body = b"".join(self.written)
        lines = [f"{name}: {value}" for name, value in self._fields if name.lower() != "content-length"]
        if any("\n" in line or "\r" in line for line in lines):
            raise ValueError("a header field of the response contains a line break")
        connection = "keep-alive" if self.keep else "close"
        own = f"Server: {SERVER}", f"Date: {date}", f"Connection: {connection}", f"Content-Length: {len(body)}"
        return "\r\n".join((f"HTTP/1.1 {self._status}", *own, *lines, "", "")).encode("latin-1") + body
