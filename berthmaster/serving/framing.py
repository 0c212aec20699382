"""When a request is complete: the polling thread collects a request, and a thread of the pool then never waits for it.

gunicorn's parser alone decides what a request means and where it ends. ``Framing`` only predicts how many bytes that
parser needs. If a request is malformed, it is complete as soon as the parser can refuse it.
"""

import re
from collections.abc import Callable, Container, Mapping
from typing import Final, NamedTuple

MAX_LINE_BYTES: Final = 4094
MAX_FIELD_BYTES: Final = 8190
MAX_FIELDS: Final = 64
_MAX_HEAD_BYTES: Final = MAX_LINE_BYTES + MAX_FIELDS * (MAX_FIELD_BYTES + 2) + 8
REFUSED_BODY_BYTES: Final = 4096
"""The part of a body that arrives before the whole body is refused: its answer may need an id from it."""
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]+)[ \t]*(?:;.*)?", re.DOTALL)


class BodyCollection(NamedTuple):
    """What the polling thread collects.

    Attributes:
        body_bytes: the size limit of a body.
        streams: the POST paths whose bodies the application reads while they arrive.
        admits: returns whether a client may send a large body, given the header fields by their names in a WSGI
            environment. The application refuses the others, and needs only the beginning of their bodies.
        events: the GET paths whose answers last. They share the threads of streams.
    """

    body_bytes: int
    streams: Container[str] = ()
    admits: Callable[[Mapping[str, str]], bool] = lambda _fields: True
    events: Container[str] = ()


class Framing:
    """Predicts the end of one request.

    Attributes:
        streamed: a thread of the pool reads the body while it arrives, or sends an answer that lasts.
        refused: the application refuses the request, whatever the rest of its body is.
        expects: the client waits for ``100 Continue`` before it sends the body.
    """

    def __init__(self, collection: BodyCollection) -> None:
        self.streamed = self.refused = self.expects = False
        self._collection = collection
        self._begin = self._searched = 0
        self._wanted: int | None = None
        self._chunks: _Chunks | None = None

    def complete(self, arrived: bytearray) -> bool:
        """Return whether gunicorn's parser needs no more bytes.

        Args:
            arrived: the bytes of the request so far; only appended to between two calls.
        """
        if self._wanted is None and not self._find_head(arrived):
            return self._hopeless(arrived)
        if self._chunks is not None:
            return self._chunks.complete(arrived)
        return len(arrived) >= (self._wanted or 0)

    def _find_head(self, arrived: bytearray) -> bool:
        if not self._begin and arrived.startswith(b"\r\n"):  # gunicorn ignores an empty line before a request
            self._begin = self._searched = 2
        end = arrived.find(b"\r\n\r\n", max(self._begin, self._searched - 3))
        if end < 0:
            return False
        self._wanted = end + 4
        self._read_head(bytes(arrived[self._begin : end]).decode("latin-1"), end + 4)
        return True

    def _hopeless(self, arrived: bytearray) -> bool:
        """Return whether the parser refuses a head that is incomplete."""
        since, self._searched = self._searched, len(arrived)
        if arrived.count(b"\n", since) != arrived.count(b"\r\n", max(0, since - 1)):
            return True
        longest = self._begin + MAX_LINE_BYTES + 2
        if since <= longest < len(arrived) and arrived.find(b"\r\n", self._begin, longest) < 0:
            return True
        return len(arrived) > _MAX_HEAD_BYTES

    def _read_head(self, head: str, end: int) -> None:
        line, *lines = head.split("\r\n")
        method, _, target = line.partition(" ")
        path = target.partition(" ")[0].partition("?")[0]
        fields: dict[str, str] = {}
        for each in lines:
            name, _, value = each.partition(":")
            key = name.upper().replace("-", "_")
            # Two equal fields are refused, or do not matter here.
            fields.setdefault(key if key.startswith("CONTENT_") else f"HTTP_{key}", value.strip(" \t"))
        coding, length = fields.get("HTTP_TRANSFER_ENCODING"), fields.get("CONTENT_LENGTH", "")
        endless = {"POST": self._collection.streams, "GET": self._collection.events}
        self.streamed = path in endless.get(method, ())
        if self.streamed:
            return
        expects = fields.get("HTTP_EXPECT", "").lower() == "100-continue" and line.endswith(" HTTP/1.1")
        if coding is not None:
            self._expect_chunks(coding, fields, end, malformed="CONTENT_LENGTH" in fields or not line.endswith("/1.1"))
        elif length.isascii() and length.isdecimal() and len(length) < len(str(2**63)):
            self._expect_length(int(length), fields, end, expects=expects)
            return
        self.expects = expects and self._chunks is not None

    def _expect_length(self, length: int, fields: Mapping[str, str], end: int, *, expects: bool) -> None:
        self.refused = length > self._collection.body_bytes or (
            length > REFUSED_BODY_BYTES and not self._collection.admits(fields)
        )
        if self.refused:
            self._wanted = end if expects else end + min(length, REFUSED_BODY_BYTES)
        else:
            self._wanted, self.expects = end + length, expects and length > 0

    def _expect_chunks(self, coding: str, fields: Mapping[str, str], end: int, *, malformed: bool) -> None:
        if malformed:
            return
        if coding.lower() != "chunked":
            self.streamed = True  # the parser refuses it, or reads a body in a coding that is rare
            return
        enough = self._collection.body_bytes + 1 if self._collection.admits(fields) else REFUSED_BODY_BYTES
        self._chunks = _Chunks(end, enough)


class _Chunks:
    """Predicts the end of a chunked body."""

    def __init__(self, begin: int, enough_bytes: int) -> None:
        """Begin at an index of the request.

        Args:
            begin: the end of the head.
            enough_bytes: the size of the content from which the application refuses the body.
        """
        self._next = begin
        self._left_bytes = enough_bytes
        self._enough: int | None = None
        self._trailer: int | None = None

    def complete(self, arrived: bytearray) -> bool:
        while self._enough is None and self._trailer is None:
            end = arrived.find(b"\r\n", self._next, self._next + MAX_FIELD_BYTES + 2)
            if end < 0:
                return len(arrived) > self._next + MAX_FIELD_BYTES
            size = _CHUNK_SIZE.fullmatch(arrived, self._next, end)
            if size is None:
                return True
            self._add(int(size[1], 16), end + 2)
        if self._enough is not None:
            return len(arrived) >= self._enough
        return self._trailer_complete(arrived, self._trailer or 0)

    def _add(self, size: int, begin: int) -> None:
        if not size:
            self._trailer = self._next = begin
        elif size >= self._left_bytes:
            self._enough = begin + self._left_bytes
        else:
            self._left_bytes -= size
            self._next = begin + size + 2

    def _trailer_complete(self, arrived: bytearray, begin: int) -> bool:
        if arrived.startswith(b"\r\n", begin):
            return True
        found = arrived.find(b"\r\n\r\n", max(begin, self._next - 3)) >= 0
        self._next = max(begin, len(arrived))
        return found or len(arrived) - begin > _MAX_HEAD_BYTES
