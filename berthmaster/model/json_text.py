"""Edits of JSON text that need no decoding: a document that is invalid, or large, costs linear time."""

import re
from collections.abc import Iterator
from typing import Final

MAX_NULL_FIELDS: Final = 50_000

# A match takes up to 1,000 strings, and then a null field if one follows. No part of the text is tried twice, so the
# search is linear. Before 3.11.5, Python cannot match a possessive group that contains a lookahead. An atomic group can
# be matched, but it keeps some state for each repetition: hence the limit.
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRINGS: Final = re.compile(
    rb'(?>[^"]*+(?:%b(?!\s*+:\s*+null)[^"]*+){0,1000})(%b\s*+:\s*+null)?+' % (_STRING, _STRING), re.DOTALL
)
_COMMA: Final = re.compile(rb"\s*+,")
_SPACE: Final = b" \t\r\n"
CUT: Final = b"null\t\t\t"
"""Stands for a part that ``without_deep_parts`` cut. No string of JSON contains tabs, and no server writes this."""
_TOKENS: Final = re.compile(rb"%b|[\[\]{}]" % _STRING, re.DOTALL)


def without_null_fields(document: bytes) -> bytes | None:
    """Return a JSON document without the fields of objects that are null. Nulls in arrays stay.

    Takes linear time, and memory for one more copy of the document.

    Args:
        document: JSON text. The outcome of text that is not JSON is not JSON either, or has no null fields.

    Returns:
        The new text; None if there are more than ``MAX_NULL_FIELDS``.
    """
    kept = bytearray()
    at = found = 0
    for start, end in _null_fields(document):
        found += 1
        if found > MAX_NULL_FIELDS:
            return None
        kept += document[at:start]
        comma = _COMMA.match(document, end)
        if comma is None:
            _drop_last_comma(kept)
        at = comma.end() if comma is not None else end
    return document if not found else bytes(kept + document[at:])


def _null_fields(document: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while (match := _STRINGS.match(document, at)) and match.end() > at:
        at = match.end()
        if match[1] is not None:
            yield match.span(1)


def _drop_last_comma(text: bytearray) -> None:
    while text and text[-1] in _SPACE:
        text.pop()
    if text and text[-1] == ord(","):
        text.pop()


def without_deep_parts(document: bytes, depth: int) -> bytes:
    """Return a JSON document with ``CUT`` for each container that is nested deeper than ``depth``. Takes linear time.

    Text that is not JSON stays text that is not JSON.
    """
    kept = bytearray()
    at = level = cut_from = 0
    for token in _TOKENS.finditer(document):
        if token[0] in (b"[", b"{"):
            level += 1
            if level == depth + 1:
                cut_from = token.start()
        elif token[0] in (b"]", b"}"):
            if level == depth + 1:
                kept += document[at:cut_from] + CUT
                at = token.end()
            level -= 1
    return bytes(kept + document[at:])
