"""Requests out of the bytes that have come: the plain ones, which are nearly all that a control plane sends.

Anything that takes a decision about HTTP (other methods and versions, chunks, expectations, a header that stands twice,
characters that may be misread) is left to gunicorn's parser, and so is what is large. The grammar here is therefore
narrower than HTTP's: what it accepts means the same to every parser.
"""

import re
from collections.abc import Container
from enum import Enum, auto
from typing import Final, NamedTuple

_HEAD_BYTES: Final = 16 * 2**10
_BODY_BYTES: Final = 64 * 2**10
_HEAD: Final = re.compile(
    rb"(?P<method>POST) (?P<path>/[A-Za-z0-9/._-]*+)(?:\?(?P<query>[!-~]*+))? HTTP/1\.1\r\n"
    rb"(?P<fields>(?:[A-Za-z0-9-]++:[\t -~]*+\r\n){1,64})\r\n"
)
# Lines that do not end as they should are the parser's to refuse: it must not wait for the rest of them.
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_NOT_PLAIN: Final = frozenset({
    "HTTP_EXPECT", "HTTP_FORWARDED", "HTTP_HTTP2_SETTINGS", "HTTP_TE", "HTTP_TRAILER", "HTTP_TRANSFER_ENCODING",
    "HTTP_UPGRADE", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_PROTOCOL", "HTTP_X_FORWARDED_SSL",
})  # fmt: skip


class Stage(Enum):
    """How far a request has come that is not a plain one, or not whole.

    Attributes:
        BEGUN: more of it has to come.
        OTHER: gunicorn's parser and a thread of the pool have to see to it.
    """

    BEGUN = auto()
    OTHER = auto()


class PlainRequest(NamedTuple):
    """A whole request.

    Attributes:
        method, path, query: of its first line.
        fields: its header fields by their names in a WSGI environment.
        body: all of it.
        size_bytes: how much of what has come it takes up.
    """

    method: str
    path: str
    query: str
    fields: dict[str, str]
    body: bytes
    size_bytes: int


def plain_request(arrived: bytearray, prompt_paths: Container[str]) -> PlainRequest | Stage:
    """The request, or how far it has come.

    Args:
        arrived: what there is of it, and of those that follow.
        prompt_paths: where requests are looked for.
    """
    head = _HEAD.match(arrived)
    if head is None:
        begun = len(arrived) < _HEAD_BYTES and _END_OF_HEAD.search(arrived) is None
        return Stage.BEGUN if begun else Stage.OTHER
    path = head["path"].decode()
    if path not in prompt_paths or (fields := _fields(head["fields"].decode())) is None:
        return Stage.OTHER
    length = fields.get("CONTENT_LENGTH", "0")
    if not length.isdecimal() or len(length) > len(str(_BODY_BYTES)) or int(length) > _BODY_BYTES:
        return Stage.OTHER
    end = head.end() + int(length)
    if len(arrived) < end:
        return Stage.BEGUN
    body = bytes(arrived[head.end() : end])
    return PlainRequest(head["method"].decode(), path, (head["query"] or b"").decode(), fields, body, end)


def _fields(lines: str) -> dict[str, str] | None:
    """The header fields by their names in a WSGI environment; None if they are not plain."""
    fields: dict[str, str] = {}
    for line in lines.splitlines():
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
