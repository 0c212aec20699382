"""Requests as they arrive: httptools parses them, and ``RequestParser`` decides which of them the server accepts.

httptools is the parser of Node.js, strict by default. It decides alone where a request ends. This module adds what the
parser leaves to servers: limits, header fields that must not occur twice, and codings that the server does not know.
"""

from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

import httptools

MAX_LINE_BYTES: Final = 4094
MAX_FIELD_BYTES: Final = 8190
MAX_FIELDS: Final = 64
REFUSED_BODY_BYTES: Final = 4096
"""The part of a body that arrives before the whole body is refused: its answer may need an id from it."""
_SLICE_BYTES: Final = 512
"""Requests that arrive behind another one cost more memory parsed than unparsed: only those in one slice are parsed."""
_SINGLE: Final = frozenset({"HTTP_HOST", "CONTENT_TYPE"})


class ServerRefusal(NamedTuple):
    """Why a request is refused."""

    status: int
    problem: str


class BodyCollection(NamedTuple):
    """What the polling thread collects.

    Attributes:
        streams: the paths whose answers last. They have threads of their own.
        admits: returns whether a client may send a large body, given the header fields by their names in a WSGI
            environment. The application refuses the others, and needs only the beginning of their bodies.
    """

    body_bytes: int
    streams: Container[str] = ()
    admits: Callable[[Mapping[str, str]], bool] = lambda _fields: True


@dataclass(slots=True, eq=False)
class ClientRequest:
    """A request. Its attributes change while it arrives.

    Attributes:
        knows_chunks: whether the client has HTTP/1.1. Other clients know neither chunks nor interim responses.
        streamed: the application sends an answer that lasts.
        enough_bytes: with this much of the body the application can refuse the request; None if it needs all.
    """

    method: str = ""
    path: str = ""
    query: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    knows_chunks: bool = False
    keep: bool = False
    expects: bool = False
    streamed: bool = False
    has_head: bool = False
    complete: bool = False
    body: bytes | bytearray = field(default_factory=bytearray)
    enough_bytes: int | None = None
    began_at: float = 0.0
    refusal: ServerRefusal | None = None

    @property
    def ready(self) -> bool:
        """Whether the application can answer."""
        enough = self.enough_bytes is not None and len(self.body) >= self.enough_bytes
        return self.complete or (self.has_head and (enough or self.refusal is not None))


class RequestParser:
    """Parses the requests of a connection.

    Attributes:
        problem: why nothing more of the connection can be parsed; None while it can.
    """

    def __init__(self, collection: BodyCollection) -> None:
        self.requests: deque[ClientRequest] = deque()
        self.problem: ServerRefusal | None = None
        self._collection = collection
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._fields = self._silent_bytes = self._body_left = 0
        self._upgrades = False

    def feed(self, data: bytes) -> bytes:
        """Parse until the application can answer the first request, and return the bytes behind it."""
        view = memoryview(data)
        while view and self.problem is None:
            piece = view[: self._body_left or _SLICE_BYTES]
            view = view[len(piece) :]
            self._silent_bytes += len(piece)
            self._parse(piece)
            if self.requests and self.requests[0].ready:
                break
        return bytes(view)

    def _parse(self, piece: memoryview) -> None:
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(piece[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if self.problem is None:
                self.problem = ServerRefusal(400, f"the request is malformed: {error}")
        if self._silent_bytes > MAX_FIELD_BYTES + len(b"\r\n"):
            self.problem = ServerRefusal(
                431, f"a header field or a chunk extension has more than {MAX_FIELD_BYTES} bytes"
            )
        if self.problem is not None and self.requests and not (last := self.requests[-1]).complete:
            if last.has_head:
                last.refusal = self.problem
            else:
                self.requests.pop()

    def _ignore_upgrade(self, rest: memoryview) -> None:
        """Parse a request as if it did not ask for another protocol, to which httptools would count its body."""
        request, self._upgrades = self.requests[-1], False
        if request.method == "CONNECT":
            request.complete, request.keep = True, False
            self.problem = ServerRefusal(400, "there is no tunnel")
            return
        self._parser = httptools.HttpRequestParser(self)
        length = f"Content-Length: {request.fields.get('CONTENT_LENGTH', 0)}"
        framing = "Transfer-Encoding: chunked" if "HTTP_TRANSFER_ENCODING" in request.fields else length
        self._parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())
        if rest:
            self._parse(rest)

    # httptools calls the methods below. Of a request whose head has been read, they see trailers, or a head again.

    def on_message_begin(self) -> None:
        if not self.requests or self.requests[-1].complete:
            self.requests.append(ClientRequest())
            self._url = b""
            self._fields = 0

    def on_url(self, url: bytes) -> None:
        if not self.requests[-1].has_head:
            self._silent_bytes = 0
            self._url += url
            if len(self._url) > MAX_LINE_BYTES:
                self._refuse(414, f"the request line has more than {MAX_LINE_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        request = self.requests[-1]
        self._silent_bytes = 0
        self._fields += 1
        if self._fields > MAX_FIELDS or len(name) + len(value) > MAX_FIELD_BYTES - 4:
            self._refuse(431, f"more than {MAX_FIELDS} header fields, or one with more than {MAX_FIELD_BYTES} bytes")
        if request.has_head:
            return
        key, text = _environ_key(name), value.decode("latin-1").strip(" \t")
        if key in request.fields and key in _SINGLE:
            self._refuse(400, f"the header field {name.decode()} occurs twice")
        if key:
            request.fields[key] = f"{request.fields[key]},{text}" if key in request.fields else text

    def on_headers_complete(self) -> None:
        request = self.requests[-1]
        self._silent_bytes = 0
        if request.has_head:
            return
        request.method = self._parser.get_method().decode()
        request.keep, self._upgrades = self._parser.should_keep_alive(), self._parser.should_upgrade()
        self._read_line(request, self._parser.get_http_version())
        self._read_framing(request)
        request.has_head = True

    def on_body(self, piece: bytes) -> None:
        request = self.requests[-1]
        self._silent_bytes = 0
        self._body_left = max(0, self._body_left - len(piece))
        request.body += piece

    def on_chunk_header(self) -> None:
        self._silent_bytes = self._fields = 0

    def on_message_complete(self) -> None:
        if not self._upgrades:
            self.requests[-1].complete = True

    def _read_line(self, request: ClientRequest, version: str) -> None:
        target = self._url.decode("latin-1")
        if len(request.method) + len(target) + len("  HTTP/1.1") > MAX_LINE_BYTES:
            self._refuse(414, f"the request line has more than {MAX_LINE_BYTES} bytes")
        if version not in {"1.0", "1.1"}:
            self._refuse(400, f"HTTP/{version} is not supported; use HTTP/1.1")
        request.knows_chunks = version == "1.1"
        if target.startswith("/") and "#" not in target:
            request.path, _, request.query = target.partition("?")
        else:
            try:
                _, _, request.path, request.query, _ = urlsplit(target)
            except ValueError:
                self._refuse(400, "the target of the request is malformed")
        if "%" in request.path:
            request.path = unquote_to_bytes(request.path).decode("latin-1")

    def _read_framing(self, request: ClientRequest) -> None:
        """Decide how much of a request must arrive before the application gets it."""
        fields, collection = request.fields, self._collection
        request.streamed = request.method in {"GET", "POST"} and request.path in collection.streams
        self._body_left = length = int(fields.get("CONTENT_LENGTH") or 0)
        if (coding := fields.get("HTTP_TRANSFER_ENCODING")) is not None:
            if coding.lower() != "chunked" or not request.knows_chunks:
                self._refuse(400, "the only transfer coding of a request is chunked, over HTTP/1.1")
            request.enough_bytes = collection.body_bytes + 1 if collection.admits(fields) else REFUSED_BODY_BYTES
        elif length > REFUSED_BODY_BYTES and (length > collection.body_bytes or not collection.admits(fields)):
            request.enough_bytes = REFUSED_BODY_BYTES
        if (expectation := fields.get("HTTP_EXPECT")) is not None and request.knows_chunks:
            if expectation.lower() != "100-continue":
                self._refuse(417, "the only expectation that the server knows is 100-continue")
            if coding is None and request.enough_bytes is not None:
                request.enough_bytes = 0
            else:
                request.expects = coding is not None or length > 0

    def _refuse(self, status: int, problem: str) -> None:
        self.problem = ServerRefusal(status, problem)
        raise ValueError(problem)  # the parser stops


@lru_cache(maxsize=256)  # clients send the same few names
def _environ_key(name: bytes) -> str:
    """Return the name of a header field in a WSGI environment; "" if another name would have the same."""
    key = name.decode("latin-1").upper()
    if "_" in key:
        return ""
    key = key.replace("-", "_")
    return key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"
