"""The body of a WSGI request, within bounds."""

import sys
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.errors import ParseException

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


_HEAD_BYTES: Final = 4096
_PIECE_BYTES: Final = 64 * 2**10


class BodyError(Exception):
    """A body that is not read.

    Attributes:
        status: the HTTP status that says so.
        got: the part that was read.
    """

    def __init__(self, status: int, problem: str, got: bytes = b"") -> None:
        super().__init__(problem)
        self.status = status
        self.got = got


def read_body(environ: "WSGIEnvironment", limit: int) -> bytes:
    """The whole body.

    Raises:
        BodyError: it is larger than ``limit`` bytes, or did not come in time.
    """
    length = declared_length(environ)
    if length is not None and length > limit:
        raise BodyError(413, f"the body has {length} bytes; at most {limit} are read", read_head(environ))
    stream: IO[bytes] = environ["wsgi.input"]
    try:
        body = stream.read(limit + 1 if length is None else length)
    except (OSError, ParseException) as error:
        raise _unreadable(error) from None
    if len(body) > limit:
        raise BodyError(413, f"the body has more than {limit} bytes", body)
    if length is not None and len(body) < length:
        raise BodyError(400, f"the body ended after {len(body)} of {length} bytes", body)
    return body


def read_head(environ: "WSGIEnvironment") -> bytes:
    """The beginning of a body that is not read as a whole, for what it may say of the request; empty if none comes."""
    stream: IO[bytes] = environ["wsgi.input"]
    try:
        return stream.read(_HEAD_BYTES)
    except (OSError, ParseException):
        return b""


def _unreadable(error: Exception) -> BodyError:
    if isinstance(error, TimeoutError):
        return BodyError(408, "the body did not arrive in time")
    if isinstance(error, ParseException):
        return BodyError(400, f"the body is not chunked as it should be: {error}")
    return BodyError(400, "the connection was lost before the end of the body")


def declared_length(environ: "WSGIEnvironment") -> int | None:
    """What Content-Length says; None if it is not there.

    Raises:
        BodyError: it is no number.
    """
    declared = environ.get("CONTENT_LENGTH") or ""
    if not declared:
        return None
    if not declared.isdecimal() or len(declared) >= len(str(sys.maxsize)):
        raise BodyError(400, "Content-Length is not a number")
    return int(declared)


def lines(environ: "WSGIEnvironment", line_bytes: int) -> Iterator[Sequence[bytes]]:
    """The lines of a body without their ends, as many at a time as have come. The last one needs no end.

    Raises:
        BodyError: a line is longer than ``line_bytes``, or the body did not come in time, or not whole.
    """
    begun: list[bytes] = []
    length = 0
    for piece in pieces(environ):
        head, newline, rest = piece.partition(b"\n")
        length += len(head)
        if length > line_bytes:
            raise BodyError(413, f"a line has more than {line_bytes} bytes")
        begun.append(head)
        if newline:
            *whole, last = rest.split(b"\n")
            if max(map(len, (*whole, last))) > line_bytes:
                raise BodyError(413, f"a line has more than {line_bytes} bytes")
            yield [b"".join(begun), *whole]
            begun, length = [last], len(last)
    if length:
        yield [b"".join(begun)]


def pieces(environ: "WSGIEnvironment") -> Iterator[bytes]:
    """A body in pieces, each as soon as it comes. Each has its own deadline.

    Raises:
        BodyError: it did not come in time, or not whole.
    """
    source = environ["wsgi.input"]
    client = environ.get("gunicorn.socket")
    arriving = _arriving(source)
    while True:
        if client is not None:
            client.extend()
        try:
            piece = next(arriving, None)
        except (OSError, ParseException) as error:
            source.failed = True
            raise _unreadable(error) from None
        if piece is None:
            return
        if piece:
            yield piece


def _arriving(source: Any) -> Iterator[bytes]:  # noqa: ANN401 - any WSGI server's
    """Reads of gunicorn's body would wait until a buffer is full; what lies below it gives what there is."""
    reader = getattr(source, "reader", None)
    if isinstance(reader, LengthReader):
        return _arriving_of(reader)
    if isinstance(reader, ChunkedReader) and reader.parser is not None:
        return reader.parser
    return iter(lambda: source.read(_PIECE_BYTES), b"")


def _arriving_of(reader: LengthReader) -> Iterator[bytes]:
    while reader.length:
        piece = reader.unreader.read()
        if not piece:
            raise ConnectionResetError
        if len(piece) > reader.length:
            reader.unreader.unread(piece[reader.length :])
            piece = piece[: reader.length]
        reader.length -= len(piece)
        yield piece
