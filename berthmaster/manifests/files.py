"""Documents with their source: which files are read, in which order, and the objects in them.

A dump also has a record of what was read from an API server, when, and what is missing.

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

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec
import yaml

from berthmaster.manifests.foreign import (
    Foreign,
    PassedOver,
    foreign_broken_file,
    foreign_document,
    foreign_file,
)
from berthmaster.manifests.heads import NESTED_LIST, is_list, required_errors
from berthmaster.manifests.packed import GZIP, refuse_address, unpacked, within
from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import FieldError, InputError, ManifestError, shown
from berthmaster.model.gaps import Gap
from berthmaster.model.kinds import Scope, group_of, is_namespaced, scope_of
from berthmaster.model.policy import DEFAULT_NAMESPACE

STDIN: Final = "<stdin>"


class ManifestLimits(NamedTuple):
    """The limits that guard against mistakes and attacks.

    Attributes:
        aliased_nodes: the largest number of values that the aliases of a YAML file may expand to, in total.
        documents: the largest number of documents in all files. Each item of a ``List`` counts.
    """

    file_bytes: int = 64 * 2**20
    depth: int = 100
    aliased_nodes: int = 100_000
    documents: int = 200_000


DEFAULT_LIMITS: Final = ManifestLimits()

Identity = tuple[str, str, str, str]
"""The API group, kind, namespace and name of an object. The namespace of a cluster-scoped object is empty."""


@dataclass(frozen=True, slots=True)
class Document:
    """One API object as written in a manifest or stored by an API server.

    Attributes:
        source: the path of the file, or ``<stdin>``; for an object of an API server, the server and the object.
        number: the number of the document in the file, from 1; empty documents count. 0 without a file.
        prefix: the path of the object in the document: ``items[2]`` in a List, else empty.
        raw: the object. ``apiVersion``, ``kind`` and ``metadata.name`` are non-empty strings.
        applied: the object comes from a file beside stored objects: it would be applied to the control plane.
        replaced: the stored object that it replaces; None without one.
    """

    source: str
    number: int
    prefix: str
    raw: dict[str, Any]
    applied: bool = False
    replaced: dict[str, Any] | None = None

    @property
    def api_version(self) -> str:
        return str(self.raw["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.raw["kind"])

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """``metadata.namespace``; empty if absent."""
        return str(self.raw["metadata"].get("namespace") or "")

    @property
    def stored(self) -> bool:
        """Whether an API server has stored the object as it is written: it has a UID, and no file changes it."""
        return bool(self.raw["metadata"].get("uid")) and not self.applied

    @property
    def is_live(self) -> bool:
        """Whether the object was read from an API server, not from a file."""
        return self.number == 0

    @property
    def place(self) -> str:
        place = f"{self.source}: document {self.number}" if self.number else self.source
        return f"{place}: {self.prefix}" if self.prefix else place

    @property
    def identity(self) -> Identity:
        """What distinguishes the object from all others, in any version of its API group."""
        namespace = self.namespace if is_namespaced(self.api_version, self.kind) else ""
        return group_of(self.api_version), self.kind, namespace, self.name

    @property
    def resource(self) -> str:
        """``NAMESPACE/KIND/NAME``, or ``KIND/NAME`` for an object without a namespace."""
        return "/".join(filter(None, (self.namespace, self.kind, self.name)))

    def with_namespace(self, namespace: str = DEFAULT_NAMESPACE) -> "Document":
        """Return the document with the namespace that ``kubectl apply -n NAMESPACE`` would set if it has none.

        An API server sets a namespace and a UID for each namespaced object. An object of an unknown kind with a UID
        and without a namespace is therefore cluster-scoped.
        """
        metadata = self.raw["metadata"]
        scope = scope_of(self.api_version, self.kind)
        if self.namespace or scope is Scope.CLUSTER or (scope is None and metadata.get("uid")):
            return self
        return replace(self, raw={**self.raw, "metadata": {**metadata, "namespace": namespace}})

    def error(self, error: FieldError) -> ManifestError:
        placed = error.below(self.prefix) if self.prefix else error
        return ManifestError(self.source, self.number or None, placed.problem, placed.path)


SNAPSHOT_GROUP: Final = "berthmaster.io"
_SCRIPTS: Final = "resourceinterpretercustomizations.config.karmada.io"
_WEBHOOKS: Final = "resourceinterpreterwebhookconfigurations.config.karmada.io"
_API_VERSION: Final = f"{SNAPSHOT_GROUP}/v1alpha1"


def is_snapshot(document: Document) -> bool:
    """Return whether a document is the record of a dump, in any version."""
    return document.identity[:2] == (SNAPSHOT_GROUP, FleetSnapshot.__name__)


class ListRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One list of a resource such as ``deployments.apps``. The lists of a dump are not of one moment."""

    resource: str
    namespace: str
    resource_version: str
    objects: int
    read_at: datetime
    metadata_only: bool = False


class FleetSnapshot(msgspec.Struct, frozen=True, rename="camel"):
    """The record of a dump, one of its objects. Simulations of the dump start at ``read_at``."""

    name: str
    read_at: datetime
    lists: tuple[ListRecord, ...] = ()
    gaps: tuple[Gap, ...] = ()
    existing: dict[str, bool] = {}
    redacted: bool = False

    @property
    def interpreters_complete(self) -> bool:
        """Whether all interpreters of the control plane are known: its scripts were listed, and it has no webhooks."""
        listed = {each.resource: each.objects for each in self.lists}
        return _SCRIPTS in listed and listed.get(_WEBHOOKS) == 0

    @classmethod
    def of(cls, document: Document) -> "FleetSnapshot":
        """Decode the record. Raises ``ManifestError`` if the document has another form or version."""
        if document.api_version != _API_VERSION:
            problem = f"{document.api_version!r} is not accepted; accepted is {_API_VERSION!r}"
            raise document.error(FieldError("apiVersion", problem))
        try:
            return convert(cls, {**document.raw, "name": document.name})
        except FieldError as error:
            raise document.error(error) from None

    def manifest(self) -> dict[str, Any]:
        fields = builtins(self)
        name = fields.pop("name")
        return {"apiVersion": _API_VERSION, "kind": type(self).__name__, "metadata": {"name": name}, **fields}


SUFFIXES: Final = (".yaml", ".yml", ".json")
_NOT_AN_OBJECT: Final = "is not an API object, but"


def read_documents(
    paths: Iterable[str | Path], *, stdin: BinaryIO | None = None, limits: ManifestLimits = DEFAULT_LIMITS
) -> Iterator[Document]:
    """Yield every object of files, folders and standard input. Anything else in them is an error.

    A file holds any number of YAML or JSON documents, each an object or a ``List`` of objects. A folder is read
    recursively in the order of paths; folders with a leading dot are ignored. Links in a folder must stay inside it.
    Each file is read once.

    Raises:
        ManifestError: at the first invalid document, after the documents before it.
    """
    count = 0
    for source, data in read_files(paths, stdin=stdin or sys.stdin.buffer, limit=limits.file_bytes):
        for number, raw in parse_file(data, source, limits):
            for document in objects_in(source, number, raw, limits.depth) if raw is not None else ():
                count += 1
                if count > limits.documents:
                    raise ManifestError(source, number, _too_many(limits))
                yield document


def _too_many(limits: ManifestLimits) -> str:
    return f"more than {limits.documents} documents in all"


def scan_documents(
    paths: Sequence[str | Path], *, stdin: BinaryIO | None = None, limits: ManifestLimits = DEFAULT_LIMITS
) -> Iterator[Document | PassedOver]:
    """Yield what ``read_documents`` yields, and pass over files and documents that are meant for other programs.

    Raises:
        ManifestError: at the first invalid document, after the documents before it.
    """
    count, named = 0, frozenset(map(str, paths))
    for source, data in read_files(paths, stdin=stdin or sys.stdin.buffer, limit=limits.file_bytes):
        for found in documents_in(data, source, limits, found=source not in named and source != STDIN):
            count += isinstance(found, Document)
            if count > limits.documents:
                raise ManifestError(source, None, _too_many(limits))
            yield found


def documents_in(
    data: bytes, source: str, limits: ManifestLimits = DEFAULT_LIMITS, *, found: bool = False
) -> Iterator[Document | PassedOver]:
    """Yield the objects of one file, and what is none. ``found``: whether the file was found in a folder."""
    for number, raw in parsed_file(data, source, limits, found=found):
        if isinstance(raw, Foreign):
            yield PassedOver(source, raw, number)
        elif raw is None:
            continue
        elif (what := foreign_document(raw)) is not None:
            yield PassedOver(source, what, number)
        else:
            yield from objects_in(source, number, raw, limits.depth)


def parsed_file(data: bytes, source: str, limits: ManifestLimits, *, found: bool) -> Iterator[tuple[int, Any]]:
    """Yield the numbered documents of a file as ``parse_file``; a ``Foreign`` with 0 for a file that is none."""
    what = foreign_file(source, data)
    if what is not None:
        yield 0, what
        return
    try:
        yield from parse_file(data, source, limits)
    except ManifestError:
        what = foreign_broken_file(source, data, found=found)
        if what is None:
            raise
        yield 0, what


def read_files(paths: Iterable[str | Path], *, stdin: BinaryIO, limit: int) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file once. Raises ``ManifestError`` for an unreadable or large one."""
    seen: set[str] = set()
    for path in expand(paths):
        identity = path if path == "-" else os.path.realpath(path)
        if identity in seen:
            continue
        seen.add(identity)
        source = STDIN if path == "-" else path
        try:
            if path == "-":
                yield source, unpacked(_bounded(stdin, source, limit), source, limit)
            else:
                refuse_address(path)
                with Path(path).open("rb") as file:
                    yield source, unpacked(_bounded(file, source, limit), source, limit)
        except OSError as error:
            raise ManifestError(source, None, f"cannot be read: {error.strerror or error}") from None


def expand(paths: Iterable[str | Path]) -> Iterator[str]:
    """Replace each folder by its files. Raises ``ManifestError`` if a folder cannot be read, or has no manifest."""
    for path in map(str, paths):
        if path == "-" or not Path(path).is_dir():
            yield path
            continue
        files = _files_below(path)
        if not files:
            raise ManifestError(path, None, f"no {', '.join(f'*{suffix}' for suffix in SUFFIXES)} file in this folder")
        yield from files


def _files_below(folder: str) -> Sequence[str]:
    """Return the manifests in a folder.

    Links to folders are not followed, because they could form a loop. A link to a file outside of the folder, or in
    ``.git``, is an error: a person who adds a link to a folder must not make the reader print a file that the person
    cannot read.
    """

    def refuse(error: OSError) -> None:
        raise ManifestError(str(error.filename), None, f"cannot be read: {error.strerror}")

    found: list[Path] = []
    for parent, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found.extend(Path(parent, name) for name in files if name.removesuffix(GZIP).endswith(SUFFIXES))
    root = os.path.realpath(folder)
    for path in found:
        if path.is_symlink() and not _is_read(Path(os.path.realpath(path)), root):
            problem = "is a link to a file outside of the folder; to read it, name the file"
            raise ManifestError(str(path), None, problem)
        if path.exists() and not path.is_file():  # reading a pipe without a writer would block forever
            raise ManifestError(str(path), None, "is not a regular file; to read it, name the file, not its folder")
    return [str(path) for path in sorted(found)]


def _is_read(path: Path, root: str) -> bool:
    """Return whether a file is below a folder, and is none of git's, which can have a token."""
    return path.is_relative_to(root) and ".git" not in path.relative_to(root).parts


def _bounded(file: BinaryIO, source: str, limit: int) -> bytes:
    """Read a file up to the limit. Pipes and devices have no size, so the limit applies to the read."""
    return within(file.read(limit + 1), source, limit)


def parse_file(data: bytes, source: str, limits: ManifestLimits) -> Iterable[tuple[int, Any]]:
    """Return the numbered documents of a file; what looks like JSON is read as JSON. Raises ``ManifestError``."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    is_json = source.endswith(".json")
    if is_json or data.lstrip()[:1] == b"{":
        try:
            return [(1, msgspec.json.decode(data))]  # noqa: TID251 - other readers follow
        except (msgspec.DecodeError, UnicodeDecodeError):
            if is_json:
                return _json_stream(data, source)
        except RecursionError:
            raise _too_deep(source, 1, limits.depth) from None
    return read_yaml(data, source, limits)


def _json_stream(data: bytes, source: str) -> Iterator[tuple[int, Any]]:
    """Yield concatenated JSON documents, as some tools write them; locate the syntax error in a single document."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ManifestError(source, None, f"not UTF-8 text: byte {error.start} is not valid") from None
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    number, at = 0, _skip_space(text, 0)
    if at == len(text):
        return
    while at < len(text):
        number += 1
        try:
            raw, end = decoder.raw_decode(text, at)
            msgspec.json.encode(raw)  # rejects an unpaired surrogate, which the decoder accepts
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise ManifestError(source, number, f"{where}: not valid JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            problem = str(error) if isinstance(error, ValueError) else "nested too deeply"
            raise ManifestError(source, number, f"not valid JSON: {problem}") from None
        yield number, raw
        at = _skip_space(text, end)


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def objects_in(source: str, number: int, raw: Any, depth: int = DEFAULT_LIMITS.depth) -> Iterator[Document]:  # noqa: ANN401
    """Yield the objects of a document: itself, or the items of a list. Raises ``ManifestError`` if one is none."""
    if not isinstance(raw, dict):
        raise ManifestError(source, number, f"{_NOT_AN_OBJECT} {_described(raw)}")
    if deeper_than(raw, depth):
        raise _too_deep(source, number, depth)
    if not is_list(raw):
        yield _checked(Document(source, number, "", raw))
        return
    items = raw["items"] if raw["items"] is not None else []
    if not isinstance(items, list):
        raise ManifestError(source, number, f"{_described(items)} is not accepted; accepted is an array", "items")
    for index, item in enumerate(items):
        prefix = f"items[{index}]"
        if not isinstance(item, dict):
            raise ManifestError(source, number, f"{_NOT_AN_OBJECT} {_described(item)}", prefix)
        if is_list(item):
            raise ManifestError(source, number, NESTED_LIST, prefix)
        yield _checked(Document(source, number, prefix, _typed_item(raw, item)))


def _typed_item(raw: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with its type. API servers omit the type of items in typed lists."""
    kind = raw["kind"].removesuffix("List")
    if not kind or "kind" in item or "apiVersion" in item or not isinstance(raw.get("apiVersion"), str):
        return item
    return {"apiVersion": raw["apiVersion"], "kind": kind, **item}


def _checked(document: Document) -> Document:
    """Return the document if it has a type and a name."""
    raw = document.raw
    for misspelled in required_errors(raw):
        raise document.error(misspelled)
    for field in ("apiVersion", "kind"):
        _require_text(document, field, raw.get(field))
    metadata = raw.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise document.error(FieldError("metadata", f"{_described(metadata)} is not accepted; accepted is an object"))
    _require_text(document, "metadata.name", (metadata or {}).get("name"))
    if (metadata or {}).get("namespace") is not None:
        _require_text(document, "metadata.namespace", metadata["namespace"], empty=True)  # type: ignore[index]
    return document


def _require_text(document: Document, path: str, value: object, *, empty: bool = False) -> None:
    if value is None or (value == "" and not empty):
        raise document.error(FieldError(path, "is missing"))
    if not isinstance(value, str):
        raise document.error(FieldError(path, f"{_described(value)} is not accepted; accepted is a string"))


def _described(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case bool():
            return str(value).lower()
    return shown(value)


def deeper_than(raw: Any, depth: int) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether containers are nested deeper than a limit, without recursion."""
    level = [raw]
    for _ in range(depth):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _too_deep(source: str, number: int, depth: int) -> ManifestError:
    return ManifestError(source, number, f"nested more than {depth} levels deep")


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
