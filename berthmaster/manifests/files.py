"""Which files are read, in which order, and the objects in them."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from berthmaster.manifests.document import Document
from berthmaster.manifests.foreign import (
    Foreign,
    PassedOver,
    foreign_broken_file,
    foreign_document,
    foreign_file,
    is_generated,
)
from berthmaster.manifests.heads import NESTED_LIST, is_list, required_errors
from berthmaster.manifests.limits import DEFAULT_LIMITS, ManifestLimits
from berthmaster.manifests.packed import GZIP, refuse_address, unpacked, within
from berthmaster.manifests.yaml_reader import read_yaml
from berthmaster.model.errors import FieldError, ManifestError, shown

STDIN: Final = "<stdin>"


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
        elif is_generated(raw):
            yield PassedOver(source, Foreign.GENERATED, number)
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
