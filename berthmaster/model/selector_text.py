"""Label selectors as text, the way kubectl writes them (apimachinery ``labels.Parse``)."""

import re
from typing import Final

from berthmaster.model.errors import InputError, shown
from berthmaster.model.selector import LABEL_OPERATORS, LabelSelector, SelectorRequirement, requirement_error

_MAX_LENGTH: Final = 4096
_SET: Final = re.compile(r"(?P<key>[^\s,!=()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s,!=()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s,!=()]*)")
_PRESENT: Final = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s,!=()]+)")
_COMMA: Final = re.compile(r"\s*(,\s*|\Z)")


def parse_selector(text: str) -> LabelSelector:
    """Read ``key=value,key!=value,key in (a,b),key notin (a),key,!key``; all parts must hold, empty means everything.

    Raises:
        InputError: it does not have this form, or a key or value is none that a label can have.
    """
    expressions: list[SelectorRequirement] = []
    rest = text.strip() if len(text) <= _MAX_LENGTH else "("
    while rest:
        expression, rest = _first(rest, text)
        error = requirement_error(expression, LABEL_OPERATORS)
        if error is not None:
            raise InputError(f"selector {shown(text)}: {error.problem}")
        expressions.append(expression)
    return LabelSelector(match_expressions=tuple(expressions))


def _first(rest: str, text: str) -> tuple[SelectorRequirement, str]:
    """The first part of a selector and what follows its comma."""
    for pattern, read in ((_SET, _of_set), (_EQUAL, _of_equality), (_PRESENT, _of_presence)):
        match = pattern.match(rest)
        comma = match and _COMMA.match(rest, match.end())
        # A comma at the very end is no end of a part.
        if match and comma and not (comma[1] and comma.end() == len(rest)):
            return read(match), rest[comma.end() :]
    raise InputError(
        f"{shown(text)} is not a selector; accepted are parts like key=value, key!=value, key in (a,b), "
        "key notin (a,b), key and !key, joined by commas"
    )


def _of_set(match: re.Match[str]) -> SelectorRequirement:
    values = tuple(value.strip() for value in match["values"].split(","))
    return SelectorRequirement(match["key"], "In" if match["operator"] == "in" else "NotIn", values)


def _of_equality(match: re.Match[str]) -> SelectorRequirement:
    return SelectorRequirement(match["key"], "NotIn" if match["operator"] == "!=" else "In", (match["value"],))


def _of_presence(match: re.Match[str]) -> SelectorRequirement:
    return SelectorRequirement(match["key"], "DoesNotExist" if match["absent"] else "Exists")
