"""HTTP/1.1 over one TCP connection, for the small requests of controllers.

httptools, the parser of Node.js, parses the responses. ``docs/controllers.md`` compares the cost with urllib3.
"""

import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final

import httptools

from berthmaster.model.errors import ApiError

_PIECE_BYTES: Final = 16 * 1024  # the size of a TLS record; recv clears a larger buffer for nothing
_MAX_HEAD_BYTES: Final = 64 * 1024
_FIRST_FINAL_STATUS: Final = 200
_TRUSTED_S: Final = 1.0
"""The time after a response in which an idle connection is not checked, because a check costs as much as a request."""


class ConnectionClosedError(ApiError):
    """The server closed the connection before a response. It may or may not have processed the request."""

    def __init__(self) -> None:
        super().__init__(0, "", "the server closed the connection before it responded")


class HTTP1Connection:
    """A TCP connection to a server. For one thread, except ``shutdown``."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._idle_since_s = 0.0

    def ask(self, message: bytes, read_timeout_s: float) -> "HTTP1Response":
        """Send a request and read the head. Raises ``ConnectionClosedError``, or ``ApiError`` for other problems."""
        response = HTTP1Response(self)
        try:
            self._socket.settimeout(read_timeout_s)
            self._socket.sendall(message)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            self.close()
            raise ConnectionClosedError from None
        except OSError as error:
            self.close()
            raise ApiError(0, "", describe(error)) from None
        response.read_head()
        return response

    def receive(self) -> bytes:
        """Receive some bytes; none at the end of the stream."""
        try:
            return self._socket.recv(_PIECE_BYTES)
        except (ConnectionResetError, ssl.SSLEOFError):
            return b""
        except TimeoutError:
            problem = "the server sent nothing before the read timeout"
        except (OSError, ValueError) as error:
            problem = describe(error)
        self.close()
        raise ApiError(0, "", problem)

    def mark_idle(self) -> None:
        """Note that a response was read completely and the server waits for the next request."""
        self._idle_since_s = time.monotonic()

    @property
    def usable(self) -> bool:
        """Whether the server has not closed the idle connection, as far as can be known."""
        if time.monotonic() - self._idle_since_s < _TRUSTED_S:
            return True
        try:
            self._socket.settimeout(0.0)
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False  # the end of the stream, or bytes that are no response to a request

    def shutdown(self) -> None:
        """End a ``receive`` that is under way in another thread."""
        # Bypass the TLS layer: its state belongs to the thread that receives.
        plain: Any = getattr(self._socket, "socket", self._socket)
        try:
            socket.socket.shutdown(plain, socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already

    def close(self) -> None:
        self._socket.close()


class HTTP1Response:
    """A response while it is read. The parser calls the methods ``on_...``.

    Attributes:
        status: the HTTP status; 0 before the head is complete.
        headers: names in lower case, and values, in order.
        reusable: whether the connection can be used again after the body.
    """

    def __init__(self, connection: HTTP1Connection) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = self.reusable = False
        self._connection = connection
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []

    def read_head(self) -> None:
        """Read the head. Raises ``ConnectionClosedError``, or ``ApiError`` if it is invalid, too long or too late."""
        size = 0
        while not self.status:
            piece = self._connection.receive()
            size += len(piece)
            if not piece:
                self._connection.close()
                raise ConnectionClosedError
            self._feed(piece)
            if not self.status and size > _MAX_HEAD_BYTES:
                self._fail(f"the head of the response is larger than {_MAX_HEAD_BYTES} bytes")

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it arrives. Raises ``ApiError`` if it is invalid, incomplete or too late."""
        while True:
            yield from self._parts
            self._parts = []
            if self.complete:
                return
            piece = self._connection.receive()
            if piece:
                self._feed(piece)
            elif not self.header("content-length") and not self.header("transfer-encoding"):
                self.complete = True  # such a body ends with the connection
            else:
                self._fail("the server closed the connection in the middle of the response")

    def header(self, name: str) -> list[str]:
        wanted = name.lower().encode()
        return [value.decode("latin-1") for known, value in self.headers if known == wanted]

    @property
    def reason(self) -> str:
        return http.client.responses.get(self.status, "")

    def on_message_begin(self) -> None:
        """Begin the response, or an informational (1xx) one before it."""
        if self.complete:
            raise ValueError("more than one response")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Complete the head. Ignore the head of an informational response."""
        parser = self._parser
        status = parser.get_status_code() if parser is not None else 0
        if parser is None or status < _FIRST_FINAL_STATUS:
            self.headers.clear()
            return
        self.status = status
        self.reusable = parser.should_keep_alive()

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        self.complete = bool(self.status)

    def _feed(self, piece: bytes) -> None:
        parser = self._parser
        try:
            if parser is not None:
                parser.feed_data(piece)
        except httptools.HttpParserError as error:
            self._fail(f"the server does not speak HTTP: {describe(error)}")
        if self.complete:
            self._parser = None  # breaks the reference cycle

    def _fail(self, problem: str) -> None:
        self._connection.close()
        raise ApiError(0, "", problem)


def describe(error: Exception) -> str:
    """Describe a transport error in one line of bounded length."""
    return " ".join(str(error).split())[:512] or type(error).__name__
