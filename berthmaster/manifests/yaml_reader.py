"""YAML as kubectl reads it, with limits.

One pass over the events of libyaml replaces PyYAML's composer and constructor; it is faster. It rejects duplicate keys,
nesting and alias expansion beyond the limits, and reports their lines. The result holds only dicts, lists, strings,
numbers, booleans and None.

A scalar has the value that kubectl reads: the rules of go-yaml v2, which ``sigs.k8s.io/yaml`` uses. These are the
rules of YAML 1.1, with differences that matter to manifests:

- ``y``, ``n``, ``yes``, ``no``, ``on`` and ``off`` in three spellings are booleans, including the single letters;
- ``1e3`` and ``.5`` are numbers, ``1:30`` is not; ``0777`` and ``0o777`` are octal, ``08`` is 8;
- all values become JSON: times stay text, and a float without a fraction becomes an integer;
- infinities and NaN have no JSON form and are rejected.
"""

import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final

import yaml

from berthmaster.manifests.limits import ManifestLimits
from berthmaster.model.errors import InputError, ManifestError, shown

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


_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_COLLECTION_TAGS: Final = {None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


_MERGE: Final = object()


_NO_KEY: Final = object()


@lru_cache(maxsize=8192)
def plain_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar. Raises ``InputError`` if the value has no JSON form."""
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
    """Return the value of a scalar with a tag. Raises ``InputError`` unless the tag is standard and fits."""
    name = tag.removeprefix(_TAG)
    if tag == "!" or (name in {"str", "timestamp"} and name != tag):
        return text
    if name == tag or name not in _TYPES:
        raise InputError(f"tag {shown(tag)} is not accepted; accepted are !!str !!int !!float !!bool !!null")
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


def read_yaml(data: bytes, source: str, limits: ManifestLimits) -> Iterator[tuple[int, Any]]:
    """Yield the numbered documents of a YAML file. A ``ManifestError`` has the line and the column."""
    builder = _Builder(source, limits)
    try:
        for event in yaml.parse(data, Loader=_LOADER):
            builder.take(event)
            if builder.finished:
                yield builder.number, builder.pop_document()
    except yaml.MarkedYAMLError as error:
        # Between documents, the parser is already reading the next one.
        number = builder.number if builder.inside else builder.number + 1
        raise ManifestError(source, number, _in_words(error)) from None
    except yaml.YAMLError as error:
        raise ManifestError(source, None, f"not valid YAML: {_one_line(error)}") from None


class _Frame:
    """A mapping or sequence that is not complete yet."""

    __slots__ = ("anchor", "key", "node", "written")

    def __init__(self, node: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.key: Any = _NO_KEY
        self.written: set[str] = set()  # keys of the mapping itself, without merged ones


class _Builder:
    """Builds documents from events."""

    def __init__(self, source: str, limits: ManifestLimits) -> None:
        self.source = source
        self.number = 0
        self.inside = False
        self.finished = False
        self._limits = limits
        self._document: Any = None
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Any] = {}
        self._aliased = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: lambda event: self._open(event, {}),
            yaml.MappingEndEvent: self._close,
            yaml.SequenceStartEvent: lambda event: self._open(event, []),
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: lambda event: self._put(self._resolved(event), event),
            yaml.DocumentStartEvent: self._begin_document,
            yaml.DocumentEndEvent: self._end_document,
        }

    def pop_document(self) -> Any:  # noqa: ANN401 - any JSON value
        self.finished = False
        return self._document

    def take(self, event: Any) -> None:  # noqa: ANN401 - types-PyYAML leaves events untyped
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event)

    def _begin_document(self, _: object) -> None:
        self.number += 1
        self.inside, self._document = True, None
        self._anchors.clear()

    def _end_document(self, _: object) -> None:
        self.inside, self.finished = False, True

    def _scalar(self, event: Any) -> None:  # noqa: ANN401
        try:
            if event.implicit[0] and event.tag != "!":
                value: Any = plain_scalar(event.value)
                if value == "<<" and self._awaits_key():
                    value = _MERGE
            else:
                value = event.value if event.tag is None else tagged_scalar(event.tag, event.value)
        except InputError as error:
            raise self._error(event, str(error)) from None
        if event.anchor is not None:
            self._anchors[event.anchor] = event.value if value is _MERGE else value
        self._put(value, event)

    def _awaits_key(self) -> bool:
        return bool(self._frames) and isinstance(self._frames[-1].node, dict) and self._frames[-1].key is _NO_KEY

    def _open(self, event: Any, node: dict[str, Any] | list[Any]) -> None:  # noqa: ANN401
        if event.tag not in _COLLECTION_TAGS:
            raise self._error(event, f"tag {shown(event.tag)} is not accepted")
        if self._awaits_key():
            raise self._error(event, "a key must be a scalar")
        if len(self._frames) >= self._limits.depth:
            raise self._too_deep(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _NO_KEY  # incomplete: an alias to it would contain itself
        self._frames.append(_Frame(node, event.anchor))

    def _close(self, event: Any) -> None:  # noqa: ANN401
        frame = self._frames.pop()
        if frame.anchor is not None:
            self._anchors[frame.anchor] = frame.node
        self._put(frame.node, event)

    def _put(self, value: Any, event: Any) -> None:  # noqa: ANN401
        if not self._frames:
            self._document = value
            return
        frame = self._frames[-1]
        if isinstance(frame.node, list):
            frame.node.append(value)
        elif frame.key is _NO_KEY:
            frame.key = value if value is _MERGE else self._key(frame, value, event)
        else:
            if frame.key is _MERGE:
                self._merge(frame, value, event)
            else:
                frame.node[frame.key] = value
            frame.key = _NO_KEY

    def _key(self, frame: _Frame, value: Any, event: Any) -> str:  # noqa: ANN401
        """Return a key as in JSON: numbers and booleans become text."""
        if value is None or isinstance(value, dict | list):
            raise self._error(event, "a key must be a string")
        key = str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else repr(value)
        if key in frame.written:
            raise self._error(event, f"duplicate key {shown(key)}")
        frame.written.add(key)
        return key

    def _merge(self, frame: _Frame, value: Any, event: Any) -> None:  # noqa: ANN401
        """Merge mappings (``<<``): the first mapping wins, and later keys of the mapping itself win over all."""
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in sources):
            raise self._error(event, "<< needs a mapping or a list of mappings")
        for each in reversed(sources):
            frame.node.update(each)  # type: ignore[union-attr]  # only mappings have keys

    def _resolved(self, event: Any) -> Any:  # noqa: ANN401
        """Return a copy of the value of an alias, so that documents never share values."""
        if event.anchor not in self._anchors:
            raise self._error(event, f"unknown alias {shown(event.anchor)}")
        value = self._anchors[event.anchor]
        if value is _NO_KEY:
            raise self._error(event, f"alias {shown(event.anchor)} refers to a value that contains it")
        nodes, depth = _size(value, self._limits.aliased_nodes - self._aliased)
        self._aliased += nodes
        if self._aliased > self._limits.aliased_nodes:
            raise self._error(event, f"aliases expand to more than {self._limits.aliased_nodes} values")
        if len(self._frames) + depth > self._limits.depth:
            raise self._too_deep(event)
        return deepcopy(value)

    def _too_deep(self, event: Any) -> ManifestError:  # noqa: ANN401
        return self._error(event, f"nested more than {self._limits.depth} levels deep")

    def _error(self, event: Any, problem: str) -> ManifestError:  # noqa: ANN401
        mark = event.start_mark
        return ManifestError(self.source, self.number, f"line {mark.line + 1}, column {mark.column + 1}: {problem}")


def _size(value: Any, limit: int) -> tuple[int, int]:  # noqa: ANN401 - any JSON value
    """Return the number of values in a value and their depth; counting stops at the limit."""
    level, count, depth = [value], 1, 0
    while count <= limit:
        containers = [node for node in level if isinstance(node, dict | list)]
        if not containers:
            break
        depth += 1
        level = [each for node in containers for each in (node.values() if isinstance(node, dict) else node)]
        count += len(level)
    return count, depth


def _in_words(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    problem = _one_line(error.problem or error.context or "unreadable")
    if error.problem and error.context:
        problem = f"{problem}, {_one_line(error.context)}"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
