"""What a YAML scalar means to kubectl: the rules of go-yaml v2, on which ``sigs.k8s.io/yaml`` stands.

They are those of YAML 1.1 with differences that matter to manifests:

- ``y``, ``n``, ``yes``, ``no``, ``on``, ``off`` in three spellings are booleans, the single letters included;
- ``1e3`` and ``.5`` are numbers, ``1:30`` is not; ``0777`` and ``0o777`` are octal, ``08`` is 8;
- everything becomes JSON in the end: times stay text, a float without a fraction becomes an integer;
- infinities and NaN have no JSON form and are refused.
"""

import math
import re
from functools import lru_cache
from typing import Final

from berthmaster.model.errors import InputError, shown

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
}
_NO_JSON: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_HINTS: Final = frozenset("yYnNtTfFoO~+-.0123456789")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MAX_INTEGER_LENGTH: Final = 70  # 64 binary digits, a sign and a prefix
_JSON_INTEGERS_BELOW: Final = 1e21  # where Go begins to write exponents

_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),),
}  # fmt: skip


@lru_cache(maxsize=8192)
def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar.

    Raises:
        InputError: it has no JSON form.
    """
    if text and text[0] not in _HINTS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "yYnNtTfFoO~":
        return text
    if _NO_JSON.fullmatch(text):
        raise InputError(f"{text} has no JSON form; accepted are finite numbers")
    return _number(text)


def tagged_scalar(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag.

    Raises:
        InputError: the tag is none of YAML's own, or the text does not fit it.
    """
    name = tag.removeprefix(_TAG)
    if tag == "!" or (name in {"str", "timestamp"} and name != tag):
        return text
    if name == tag or name not in _TYPES:
        raise InputError(
            f"tag {shown(tag)} means nothing in a manifest; accepted are !!str !!int !!float !!bool !!null"
        )
    value = plain_scalar(text)
    if not isinstance(value, _TYPES[name]) or isinstance(value, bool) != (name == "bool"):
        raise InputError(f"{shown(text)} is not a !!{name}")
    return value


def _number(text: str) -> Scalar:
    plain = text if text[0] == "." else text.replace("_", "")
    if len(plain) <= _MAX_INTEGER_LENGTH and (match := _INTEGER.fullmatch(plain)):
        base = match.lastgroup or "decimal"
        number = int(match[base], _BASES[base])
        if -(2**63) <= (-number if match["sign"] == "-" else number) < (2**63 if match["sign"] else 2**64):
            return -number if match["sign"] == "-" else number
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        if math.isfinite(value):
            return int(value) if value.is_integer() and abs(value) < _JSON_INTEGERS_BELOW else value
    return text
