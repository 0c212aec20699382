"""Reading of paths: which files are read, in which order, and the documents in them."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from berthmaster.manifests.document import DEFAULT_LIMITS, STDIN, Document, ManifestLimits
from berthmaster.manifests.yaml_reader import read_yaml
from berthmaster.model.errors import FieldError, ManifestError, shown

SUFFIXES: Final = (".yaml", ".yml", ".json")
_NOT_AN_OBJECT: Final = "is not an API object, but"


def read_documents(
    paths: Iterable[str | Path], *, stdin: BinaryIO | None = None, limits: ManifestLimits = DEFAULT_LIMITS
) -> Iterator[Document]:
    """Yield every object of files, folders and standard input.

    A file holds any number of YAML or JSON documents, each an object or a ``List`` of objects. A folder is read
    recursively in the order of paths; folders with a leading dot are ignored. Links in a folder must stay inside it.
    Each file is read once.

    Args:
        paths: files and folders; ``-`` is standard input.
        stdin: the standard input; None is that of the process.
        limits: the limits of reading.

    Raises:
        ManifestError: at the first invalid document, after the documents before it.
    """
    count = 0
    for source, data in read_files(paths, stdin=stdin or sys.stdin.buffer, limit=limits.file_bytes):
        for number, raw in parse_file(data, source, limits):
            if raw is None:
                continue
            for document in objects_in(source, number, raw, limits.depth):
                count += 1
                if count > limits.documents:
                    raise ManifestError(source, number, f"more than {limits.documents} documents in all")
                yield document


def read_files(paths: Iterable[str | Path], *, stdin: BinaryIO, limit: int) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file once. Folders are read as by ``read_documents``.

    Args:
        paths: files and folders; ``-`` is standard input.
        stdin: the standard input.
        limit: the largest size of a file, in bytes.

    Raises:
        ManifestError: a file cannot be read or is too large.
    """
    seen: set[str] = set()
    for path in expand(paths):
        identity = path if path == "-" else os.path.realpath(path)
        if identity in seen:
            continue
        seen.add(identity)
        source = STDIN if path == "-" else path
        try:
            if path == "-":
                yield source, _bounded(stdin, source, limit)
            else:
                with Path(path).open("rb") as file:
                    yield source, _bounded(file, source, limit)
        except OSError as error:
            raise ManifestError(source, None, f"cannot be read: {error.strerror or error}") from None


def expand(paths: Iterable[str | Path]) -> Iterator[str]:
    """Replace each folder by its files.

    Raises:
        ManifestError: a folder cannot be read, or has no manifest.
    """
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

    Links to folders are not followed, because they could form a loop. A link to a file outside of the folder is an
    error: a person who adds a link to a folder must not make the reader print a file that the person cannot read.
    """

    def refuse(error: OSError) -> None:
        raise ManifestError(str(error.filename), None, f"cannot be read: {error.strerror}")

    found: list[Path] = []
    for parent, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found.extend(Path(parent, name) for name in files if name.endswith(SUFFIXES))
    root = os.path.realpath(folder)
    for path in found:
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
            problem = "is a link to a file outside of the folder; to read it, name the file"
            raise ManifestError(str(path), None, problem)
        if path.exists() and not path.is_file():  # reading a pipe without a writer would block forever
            raise ManifestError(str(path), None, "is not a regular file; to read it, name the file, not its folder")
    return [str(path) for path in sorted(found)]


def _bounded(file: BinaryIO, source: str, limit: int) -> bytes:
    """Read a file up to the limit. Pipes and devices have no size, so the limit applies to the read."""
    data = file.read(limit + 1)
    if len(data) > limit:
        raise ManifestError(source, None, f"larger than {limit} bytes")
    return data


def parse_file(data: bytes, source: str, limits: ManifestLimits) -> Iterable[tuple[int, Any]]:
    """Return the numbered documents of a file. Text that looks like JSON is read as JSON.

    Raises:
        ManifestError: the file is not YAML or JSON, or exceeds a limit. Documents before the error are yielded.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    is_json = source.endswith(".json")
    if is_json or data.lstrip()[:1] == b"{":
        try:
            return [(1, msgspec.json.decode(data))]
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
    """Yield the objects of a document: the document itself, or the items of a list.

    Args:
        source: where the document was read, for errors.
        number: the number of the document there, from 1.
        raw: the document, any JSON value.
        depth: the deepest nesting of lists and mappings.

    Raises:
        ManifestError: the document is not an object or a list of objects, is nested too deeply, or an object has no
            type or no name.
    """
    if not isinstance(raw, dict):
        raise ManifestError(source, number, f"{_NOT_AN_OBJECT} {_described(raw)}")
    if deeper_than(raw, depth):
        raise _too_deep(source, number, depth)
    if not (str(raw.get("kind", "")).endswith("List") and "items" in raw):
        yield _checked(Document(source, number, "", raw))
        return
    items = raw["items"] if raw["items"] is not None else []
    if not isinstance(items, list):
        raise ManifestError(source, number, f"{_described(items)} is not accepted; accepted is an array", "items")
    for index, item in enumerate(items):
        prefix = f"items[{index}]"
        if not isinstance(item, dict):
            raise ManifestError(source, number, f"{_NOT_AN_OBJECT} {_described(item)}", prefix)
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
