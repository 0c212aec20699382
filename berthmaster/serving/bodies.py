"""What applications read of a request: its body within limits, and what the worker knows about the request.

The functions take a WSGI environment. The worker puts its ``ClientRequest`` into it.
"""

import select
import sys
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final

from berthmaster.serving.request_parser import REFUSED_BODY_BYTES, ClientRequest
from berthmaster.serving.responses import REQUEST_KEY

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_RETRY_AFTER_S: Final = 1
_LENGTH_DIGITS: Final = len(str(sys.maxsize)) - 1


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
    request: ClientRequest | None = environ.get(REQUEST_KEY)
    if request is not None and request.complete and len(request.body) <= limit:
        return bytes(request.body)
    length = _declared_length(environ)
    if length is not None and length > limit:
        raise BodyError(413, f"the body has {length} bytes; the limit is {limit}", read_head(environ))
    stream: IO[bytes] = environ["wsgi.input"]
    try:
        body = stream.read(limit + 1 if length is None else length)
    except OSError:
        raise BodyError(400, "the connection was lost before the end of the body") from None
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
    except OSError:
        return b""


def _check_refusal(environ: "WSGIEnvironment") -> None:
    request: ClientRequest | None = environ.get(REQUEST_KEY)
    if request is not None and request.refusal is not None:
        raise BodyError(*request.refusal, bytes(request.body))


def _declared_length(environ: "WSGIEnvironment") -> int | None:
    """Return the value of Content-Length, or None without one."""
    declared = environ.get("CONTENT_LENGTH") or ""
    if not declared:
        return None
    if not declared.isdecimal() or len(declared) > _LENGTH_DIGITS:
        raise BodyError(400, "Content-Length is not a number")
    return int(declared)
