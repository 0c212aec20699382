"""HTTP/1.1 over one connection: a request, then its answer, then perhaps the next.

What an answer's bytes mean is httptools' business (the parser of Node.js). urllib3's pool and its responses, and the
parser of e-mails that the standard library reads headers with, take five to ten times as much, which a controller that
writes hundreds of times a second pays for.
"""

import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final

import httptools

from berthmaster.kube.dialing import told
from berthmaster.model.errors import ApiError

_PIECE_BYTES: Final = 16 * 1024  # TLS gives no more at a time, and memory for more would be cleared in vain
_MAX_HEAD_BYTES: Final = 64 * 1024
_FIRST_FINAL_STATUS: Final = 200
_TRUSTED_S: Final = 1.0
"""For so long after an answer nobody looks whether the server has hung up: looking costs as much as sending."""


class HungUpError(ApiError):
    """The server had closed the connection before it said anything to a request, which it may or may not have seen."""

    def __init__(self) -> None:
        super().__init__(0, "", "the server hung up before it answered")


class Link:
    """One connection. Not safe for several threads, ``interrupt`` aside."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._answered_s = 0.0

    def ask(self, message: bytes, read_timeout_s: float) -> "Reading":
        """Send a request; its answer, of which the head has come.

        Raises:
            HungUpError: the server had hung up.
            ApiError: the connection is lost, or the server was silent for too long, or does not speak HTTP.
        """
        reading = Reading(self)
        try:
            self._socket.settimeout(read_timeout_s)
            self._socket.sendall(message)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            self.close()
            raise HungUpError from None
        except OSError as error:
            self.close()
            raise ApiError(0, "", told(error)) from None
        reading.head()
        return reading

    def receive(self) -> bytes:
        """Some bytes; none at the end.

        Raises:
            ApiError: the connection is lost, or the server was silent for too long.
        """
        try:
            return self._socket.recv(_PIECE_BYTES)
        except (ConnectionResetError, ssl.SSLEOFError):
            return b""
        except TimeoutError:
            problem = "the server was silent for too long"
        except (OSError, ValueError) as error:
            problem = told(error)
        self.close()
        raise ApiError(0, "", problem)

    def rest(self) -> None:
        """An answer was read to its end, and the server waits for the next request."""
        self._answered_s = time.monotonic()

    @property
    def usable(self) -> bool:
        """Whether the server has not hung up meanwhile, as far as one can know."""
        if time.monotonic() - self._answered_s < _TRUSTED_S:
            return True
        try:
            self._socket.settimeout(0.0)
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False  # it has hung up, or says something that nobody has asked for

    def interrupt(self) -> None:
        """End whatever another thread waits for here."""
        # Not through TLS, whose state belongs to the thread that waits.
        plain: Any = getattr(self._socket, "socket", self._socket)
        try:
            socket.socket.shutdown(plain, socket.SHUT_RDWR)
        except OSError:
            return  # it went away by itself

    def close(self) -> None:
        """Close it."""
        self._socket.close()


class Reading:
    """An answer as it is read; the parser calls what begins with ``on_``.

    Attributes:
        status: the HTTP status.
        headers: names in lower case, and values, as they came.
        whole: whether all of the body was read, or is in ``parts``.
        reusable: whether the server waits for another request then.
    """

    def __init__(self, link: Link) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.whole = self.reusable = False
        self._link = link
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []

    def head(self) -> None:
        """Read until the head is there.

        Raises:
            HungUpError: the server ends the connection before.
            ApiError: it does not come.
        """
        size = 0
        while not self.status:
            piece = self._link.receive()
            size += len(piece)
            if not piece:
                self._link.close()
                raise HungUpError
            self._feed(piece)
            if not self.status and size > _MAX_HEAD_BYTES:
                self._broken(f"the head of the answer is longer than {_MAX_HEAD_BYTES} bytes")

    def chunks(self) -> Iterator[bytes]:
        """The body, as it comes.

        Raises:
            ApiError: it does not come to its end.
        """
        while True:
            yield from self._parts
            self._parts = []
            if self.whole:
                return
            piece = self._link.receive()
            if piece:
                self._feed(piece)
            elif self._ends_with_connection():
                self.whole = True
            else:
                self._broken("the server hung up in the middle of its answer")

    def header(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        wanted = name.lower().encode()
        return [value.decode("latin-1") for known, value in self.headers if known == wanted]

    @property
    def reason(self) -> str:
        """What the status means."""
        return http.client.responses.get(self.status, "")

    def on_message_begin(self) -> None:
        """An answer comes: the one that was asked for, or one before it that only says that it will come."""
        if self.whole:
            raise ValueError("it says more than was asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is there; that of an answer which another follows is passed over."""
        parser = self._parser
        status = parser.get_status_code() if parser is not None else 0
        if parser is None or status < _FIRST_FINAL_STATUS:
            self.headers.clear()
            return
        self.status = status
        self.reusable = parser.should_keep_alive()

    def on_body(self, part: bytes) -> None:
        """A part of the body."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """The body is there."""
        self.whole = bool(self.status)

    def _feed(self, piece: bytes) -> None:
        parser = self._parser
        try:
            if parser is not None:
                parser.feed_data(piece)
        except httptools.HttpParserError as error:
            self._broken(f"the server does not speak HTTP: {told(error)}")
        if self.whole:
            self._parser = None  # which knows this object, as this one knows it

    def _ends_with_connection(self) -> bool:
        """Whether nothing else tells where the body ends."""
        return not any(name in {b"content-length", b"transfer-encoding"} for name, _ in self.headers)

    def _broken(self, problem: str) -> None:
        self._link.close()
        raise ApiError(0, "", problem)
