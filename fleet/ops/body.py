"""The body of a WSGI request, within bounds."""

import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


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
        raise BodyError(413, f"the body has {length} bytes; at most {limit} are read")
    stream: IO[bytes] = environ["wsgi.input"]
    try:
        body = stream.read(limit + 1 if length is None else length)
    except TimeoutError:
        raise BodyError(408, "the body did not arrive in time") from None
    if len(body) > limit:
        raise BodyError(413, f"the body has more than {limit} bytes", body)
    if length is not None and len(body) < length:
        raise BodyError(400, f"the body ended after {len(body)} of {length} bytes", body)
    return body


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
