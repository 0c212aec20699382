"""Requests and their bodies.

``plain_request`` parses the requests that control planes usually send. Requests for which HTTP needs a decision go to
gunicorn's parser: other methods and versions, chunked bodies, expectations, repeated header fields, ambiguous
characters. Large requests go there too. The grammar here is narrower than HTTP's: every HTTP parser understands what
it accepts in the same way.

``read_body`` and ``read_lines`` read the body of a WSGI request within limits.
"""

import re
import sys
from collections.abc import Container, Iterator, Sequence
from enum import Enum, auto
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from berthmaster.serving.channel import extend_deadline, refusal_of
from berthmaster.serving.framing import MAX_FIELD_BYTES, MAX_LINE_BYTES, REFUSED_BODY_BYTES
from berthmaster.serving.gunicorn_internals import ChunkedReader, LengthReader, ParseException

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_MAX_HEAD_BYTES: Final = 16 * 2**10
_MAX_BODY_BYTES: Final = 64 * 2**10
_RETRY_AFTER_S: Final = 1
_PIECE_BYTES: Final = 64 * 2**10
_HEAD: Final = re.compile(
    rb"(?P<method>POST) (?P<path>/[A-Za-z0-9/._-]*+)(?:\?(?P<query>[!-~]*+))? HTTP/1\.1\r\n"
    rb"(?P<fields>(?:[A-Za-z0-9-]++:[\t -~]*+\r\n){1,64})\r\n"
)
# gunicorn's parser must see lines that end incorrectly at once. It refuses them; waiting for more bytes is useless.
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_NOT_PLAIN: Final = frozenset({
    "HTTP_EXPECT", "HTTP_FORWARDED", "HTTP_HTTP2_SETTINGS", "HTTP_TE", "HTTP_TRAILER", "HTTP_TRANSFER_ENCODING",
    "HTTP_UPGRADE", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_PROTOCOL", "HTTP_X_FORWARDED_SSL",
})  # fmt: skip


class Stage(Enum):
    """The state of bytes that are not a complete plain request.

    Attributes:
        INCOMPLETE: more bytes must arrive.
        NOT_PLAIN: gunicorn's parser must read the request, in a thread of the pool.
    """

    INCOMPLETE = auto()
    NOT_PLAIN = auto()


class PlainRequest(NamedTuple):
    """A complete request.

    Attributes:
        method, path, query: the parts of the request line.
        fields: the header fields by their names in a WSGI environment.
        body: the whole body.
        size_bytes: the size of the request, head and body.
    """

    method: str
    path: str
    query: str
    fields: dict[str, str]
    body: bytes
    size_bytes: int


def plain_request(
    arrived: bytearray, paths: Container[str], max_body_bytes: int = _MAX_BODY_BYTES
) -> PlainRequest | Stage:
    """Parse the first request in a buffer.

    Args:
        arrived: the bytes that have arrived. Further requests may follow the first one.
        paths: the paths whose requests the polling thread may answer; requests to other paths are not plain.
        max_body_bytes: the size limit of the body; a request with a larger one is not plain.
    """
    head = _HEAD.match(arrived)
    if head is None:
        incomplete = len(arrived) < _MAX_HEAD_BYTES and _END_OF_HEAD.search(arrived) is None
        return Stage.INCOMPLETE if incomplete else Stage.NOT_PLAIN
    path = head["path"].decode()
    if path not in paths or head.start("fields") > MAX_LINE_BYTES + 2:
        return Stage.NOT_PLAIN
    if (fields := _fields(head["fields"].decode())) is None:
        return Stage.NOT_PLAIN
    length = fields.get("CONTENT_LENGTH", "0")
    if not length.isdecimal() or len(length) > len(str(max_body_bytes)) or int(length) > max_body_bytes:
        return Stage.NOT_PLAIN
    end = head.end() + int(length)
    if len(arrived) < end:
        return Stage.INCOMPLETE
    with memoryview(arrived) as whole:  # a slice of the bytes would be one more copy
        body = bytes(whole[head.end() : end])
    return PlainRequest(head["method"].decode(), path, (head["query"] or b"").decode(), fields, body, end)


def _fields(lines: str) -> dict[str, str] | None:
    """Return header fields by their names in a WSGI environment, or None if they are not plain."""
    fields: dict[str, str] = {}
    for line in lines.splitlines():
        if len(line) > MAX_FIELD_BYTES - 2:
            return None
        name, _, value = line.partition(":")
        key = name.upper().replace("-", "_")
        if key not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
            key = f"HTTP_{key}"
        if key in fields:
            return None
        fields[key] = value.strip()
    if fields.get("HTTP_CONNECTION", "keep-alive").lower() != "keep-alive" or not _NOT_PLAIN.isdisjoint(fields):
        return None
    return fields


class BodyError(Exception):
    """A body could not be read within its limits.

    Attributes:
        status: the HTTP status for the answer.
        received: the part of the body that was read.
        headers: header fields for the answer.
    """

    def __init__(self, status: int, problem: str, received: bytes = b"") -> None:
        super().__init__(problem)
        self.status = status
        self.received = received
        self.headers = (("Retry-After", str(_RETRY_AFTER_S)),) if status == HTTPStatus.SERVICE_UNAVAILABLE else ()


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
    for piece in _pieces(environ):
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
    refusal = refusal_of(environ)
    if refusal is not None:
        raise BodyError(refusal.status, refusal.problem, read_head(environ))


def _declared_length(environ: "WSGIEnvironment") -> int | None:
    """Return the value of Content-Length, or None without one.

    Raises:
        BodyError: the value is not a number.
    """
    declared = environ.get("CONTENT_LENGTH") or ""
    if not declared:
        return None
    if not declared.isdecimal() or len(declared) >= len(str(sys.maxsize)):
        raise BodyError(400, "Content-Length is not a number")
    return int(declared)


def _body_error(error: Exception) -> BodyError:
    if isinstance(error, TimeoutError):
        return BodyError(408, "the body did not arrive in time")
    if isinstance(error, ParseException):
        return BodyError(400, f"the chunked body is malformed: {error}")
    return BodyError(400, "the connection was lost before the end of the body")


def _pieces(environ: "WSGIEnvironment") -> Iterator[bytes]:
    """Yield a body in pieces as they arrive. Each piece has its own deadline."""
    source = environ["wsgi.input"]
    arriving = _arriving(source)
    while True:
        extend_deadline(environ)
        try:
            piece = next(arriving, None)
        except (OSError, ParseException) as error:
            source.failed = True
            raise _body_error(error) from None
        if piece is None:
            return
        if piece:
            yield piece


def _arriving(source: Any) -> Iterator[bytes]:  # noqa: ANN401 - the input of any WSGI server
    """Yield the bytes of a WSGI input as they arrive. ``read`` of gunicorn's body would wait for a full buffer."""
    reader = getattr(source, "reader", None)
    if isinstance(reader, LengthReader):
        return _arriving_in(reader)
    if isinstance(reader, ChunkedReader) and reader.parser is not None:
        return reader.parser
    return iter(lambda: source.read(_PIECE_BYTES), b"")


def _arriving_in(reader: LengthReader) -> Iterator[bytes]:
    while reader.length:
        piece = reader.unreader.read()
        if not piece:
            raise ConnectionResetError
        if len(piece) > reader.length:
            reader.unreader.unread(piece[reader.length :])
            piece = piece[: reader.length]
        reader.length -= len(piece)
        yield piece
