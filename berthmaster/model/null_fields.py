"""Removal of null fields from the text of a JSON document, for documents that are too large to decode as dicts."""

import re
from typing import Final

MAX_NULL_FIELDS: Final = 50_000

# All groups are possessive: the expression never tries a part of the text twice, so the search is linear.
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_NULL_FIELD: Final = re.compile(rb'(?:[^"]++|%b(?!\s*:\s*null))*+(%b\s*+:\s*+null)' % (_STRING, _STRING), re.DOTALL)
_COMMA: Final = re.compile(rb"\s*+,")
_SPACE: Final = b" \t\r\n"


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
    while match := _NULL_FIELD.match(document, at):
        found += 1
        if found > MAX_NULL_FIELDS:
            return None
        start, end = match.span(1)
        kept += document[at:start]
        comma = _COMMA.match(document, end)
        if comma is None:
            _drop_last_comma(kept)
        at = comma.end() if comma is not None else end
    return document if not found else bytes(kept + document[at:])


def _drop_last_comma(text: bytearray) -> None:
    while text and text[-1] in _SPACE:
        text.pop()
    if text and text[-1] == ord(","):
        text.pop()
