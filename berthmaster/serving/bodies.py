"""What applications read of a request: its body within limits, and what the fast worker knows about the request.

The functions take a WSGI environment of any worker class. The fast worker puts its ``ClientRequest`` into it, and an
``ArrivingBody`` if the request is streamed.
"""

import select
import sys
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, Final

from berthmaster.serving.connection import ArrivingBody
from berthmaster.serving.gunicorn_internals import ChunkedReader, LengthReader, ParseException
from berthmaster.serving.request_parser import REFUSED_BODY_BYTES, ClientRequest
from berthmaster.serving.responses import REQUEST_KEY

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_RETRY_AFTER_S: Final = 1
_PIECE_BYTES: Final = 64 * 2**10


class BodyError(Exception):
    """A body could not be read within its limits."""

    def __init__(self, status: int, problem: str, received: bytes = b"") -> None:
        super().__init__(problem)
        self.status = status
        self.received = received
        self.headers = (("Retry-After", str(_RETRY_AFTER_S)),) if status == HTTPStatus.SERVICE_UNAVAILABLE else ()


def begun_at(environ: "WSGIEnvironment") -> float | None:
    """Return the monotonic time of the first byte of a request; None if the worker does not know it."""
    request: ClientRequest | None = environ.get(REQUEST_KEY)
    return request.began_at if request is not None else None


def has_gone(environ: "WSGIEnvironment") -> bool:
    """Return whether the client has closed its side of the connection. False if the server is not gunicorn."""
    if (client := environ.get("gunicorn.socket")) is None or client.fileno() < 0:
        return client is not None
    poller = select.poll()
    poller.register(client, select.POLLRDHUP)
    return bool(poller.poll(0))


def read_body(environ: "WSGIEnvironment", limit: int) -> bytes:
    """Read the whole body.

    Raises:
        BodyError: the body is larger than ``limit`` bytes, malformed, incomplete or too slow, or the server refuses the
            request.
    """
    _check_refusal(environ)
    length = _declared_length(environ)
    if length is not None and length > limit:
        raise BodyError(413, f"the body has {length} bytes; the limit is {limit}", read_head(environ))
    stream: IO[bytes] = environ["wsgi.input"]
    try:
        body = stream.read(limit + 1 if length is None else length)
    except (OSError, ParseException) as error:
        raise _body_error(error) from None
    if len(body) > limit:
        raise BodyError(413, f"the body has more than {limit} bytes", body)
    if length is not None and len(body) < length:
        raise BodyError(400, f"the body ended after {len(body)} of {length} bytes", body)
    return body


def read_head(environ: "WSGIEnvironment") -> bytes:
    """Read the beginning of a body that is refused as a whole. Return b"" if nothing arrives."""
    stream: IO[bytes] = environ["wsgi.input"]
    try:
        return stream.read(REFUSED_BODY_BYTES)
    except (OSError, ParseException):
        return b""


def read_lines(environ: "WSGIEnvironment", line_bytes: int) -> Iterator[Sequence[bytes]]:
    """Yield the lines of a body as they arrive, without line ends. The last line may lack its line end.

    Raises:
        BodyError: a line is longer than ``line_bytes``, the body is malformed, incomplete or too slow, or the server
            refuses the request.
    """
    _check_refusal(environ)
    begun: list[bytes] = []
    length = 0
    for piece in _pieces(environ["wsgi.input"]):
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


def _check_refusal(environ: "WSGIEnvironment") -> None:
    request: ClientRequest | None = environ.get(REQUEST_KEY)
    if request is not None and request.refusal is not None:
        raise BodyError(*request.refusal, read_head(environ))


def _declared_length(environ: "WSGIEnvironment") -> int | None:
    """Return the value of Content-Length, or None without one."""
    declared = environ.get("CONTENT_LENGTH") or ""
    if not declared:
        return None
    if not declared.isdecimal() or len(declared) >= len(str(sys.maxsize)):
        raise BodyError(400, "Content-Length is not a number")
    return int(declared)


def _body_error(error: Exception) -> BodyError:
    match error:
        case TimeoutError():
            return BodyError(408, "the body did not arrive in time")
        case OSError():
            return BodyError(400, "the connection was lost before the end of the body")
    return BodyError(400, f"the chunked body is malformed: {error}")


def _pieces(source: Any) -> Iterator[bytes]:  # noqa: ANN401 - the input of any WSGI server
    arriving = source.pieces() if isinstance(source, ArrivingBody) else _pieces_of_gunicorn(source)
    try:
        yield from filter(None, arriving)
    except (OSError, ParseException, ValueError) as error:
        source.failed = True  # gunicorn then closes the connection
        raise _body_error(error) from None


def _pieces_of_gunicorn(source: Any) -> Iterator[bytes]:  # noqa: ANN401 - the same
    """Yield the bytes of a WSGI input. ``read`` of gunicorn's body would wait for a full buffer."""
    reader = getattr(source, "reader", None)
    if isinstance(reader, ChunkedReader) and reader.parser is not None:
        yield from reader.parser
        return
    if not isinstance(reader, LengthReader):
        yield from iter(lambda: source.read(_PIECE_BYTES), b"")
        return
    while reader.length:
        piece = reader.unreader.read()
        if not piece:
            raise ConnectionResetError
        if len(piece) > reader.length:
            reader.unreader.unread(piece[reader.length :])
            piece = piece[: reader.length]
        reader.length -= len(piece)
        yield piece
