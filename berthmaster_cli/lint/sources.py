"""Reads the files of lint: every object, every problem of a file, and the lines of fields."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

import msgspec

from berthmaster.manifests.files import STDIN, deeper_than, expand, parsed_file, read_files
from berthmaster.manifests.foreign import Foreign, foreign_document
from berthmaster.manifests.heads import NESTED_LIST, is_list, required_errors
from berthmaster.manifests.limits import DEFAULT_LIMITS
from berthmaster.model.control_planes import DOMAINS
from berthmaster.model.errors import InputError, ManifestError
from berthmaster_cli.line_finder import LineFinder
from berthmaster_cli.reading import rendered, source_of

UNREADABLE: Final = "unreadable"
TEMPLATE: Final = Foreign.TEMPLATE.value
_PLACE: Final = re.compile(r"line (\d+), ")
_MARK: Final = "{{"
_CHECKED: Final = (*(each.encode() for each in DOMAINS), b"PropagationPolicy", b"WorkloadRebalancer")
"""A file that holds a policy, even one with a misspelled head, has one of these texts."""
_LIMITS: Final = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One Kubernetes object of a file. ``raw`` has an API version and a kind; its metadata is an object, or absent."""

    source: str
    number: int
    prefix: str
    raw: dict[str, Any]
    lines: LineFinder

    @property
    def metadata(self) -> dict[str, Any]:
        return self.raw.get("metadata") or {}

    @property
    def name(self) -> str:
        """The name, or ``PREFIX*`` for an object with ``generateName``."""
        generated = self.metadata.get("generateName")
        return str(self.metadata.get("name") or (f"{generated}*" if generated else ""))

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace") or "")

    def line(self, path: str) -> int:
        return self.lines.line(self.number, self.path(path))

    def path(self, path: str) -> str:
        return ".".join(filter(None, (self.prefix, path)))


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or a document that lint does not check. The reason completes a sentence that begins with it."""

    source: str
    line: int
    reason: str


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of one object, or of one file. Documents and lines count from 1; document 0 is the whole file."""

    level: str
    rule: str  # "invalid" if the API server would never store the object
    source: str
    document: int = 0
    line: int
    object: str = ""
    path: str = ""
    message: str


unreadable: Final = partial(LintFinding, level="error", rule=UNREADABLE)
"""Creates the finding for a file or document that cannot be read."""
Scanned = SourceObject | Skipped | LintFinding


def scan(paths: Sequence[str], kustomizations: Sequence[str] = (), *, only_policies: bool = False) -> Iterator[Scanned]:
    """Yield every object of files and folders, and what cannot be read or is no object. Continues after an error.

    ``only_policies``: leave out files whose text names nothing that is checked.
    """
    count = 0
    for found in chain(_scan_folders(kustomizations), _scan_files(paths, only_policies=only_policies)):
        count += isinstance(found, SourceObject)
        if count > _LIMITS.documents:
            problem = f"more than {_LIMITS.documents} objects in all; the rest is not checked"
            yield unreadable(source=found.source, line=1, message=problem)
            return
        yield found


def _scan_folders(kustomizations: Iterable[str]) -> Iterator[Scanned]:
    for folder in kustomizations:
        try:
            yield from _scan_text(source_of(folder), rendered(folder), found=False)
        except InputError as error:
            yield unreadable(source=folder, line=1, message=str(error))


def _scan_files(paths: Sequence[str], *, only_policies: bool) -> Iterator[Scanned]:
    seen: set[str] = set()
    for path in paths:
        try:
            files = list(expand([path]))
        except ManifestError as error:
            yield unreadable(source=error.source, line=1, message=error.problem)
            continue
        for file in files:
            if file in seen:
                continue
            seen.add(file)
            yield from _scan_file(file, found=file not in paths, only_policies=only_policies)


def _scan_file(path: str, *, found: bool, only_policies: bool) -> Iterator[Scanned]:
    try:
        content = list(read_files([path], stdin=sys.stdin.buffer, limit=_LIMITS.file_bytes))
    except ManifestError as error:
        yield unreadable(source=STDIN if path == "-" else path, line=1, message=error.problem)
        return
    for source, data in content:
        if not only_policies or any(each in data for each in _CHECKED):
            yield from _scan_text(source, data, found=found)


def _scan_text(source: str, data: bytes, *, found: bool) -> Iterator[Scanned]:
    lines = LineFinder(data)
    try:
        for number, raw in parsed_file(data, source, _LIMITS, found=found):
            if isinstance(raw, Foreign):
                yield Skipped(source, _marked_line(data) if raw is Foreign.TEMPLATE else 1, raw.value)
            elif isinstance(raw, dict | list) and deeper_than(raw, _LIMITS.depth):
                problem = f"nested more than {_LIMITS.depth} levels deep"
                yield unreadable(source=source, document=number, line=1, message=problem)
            else:
                yield from _objects(source, number, raw, lines)
    except ManifestError as error:
        yield _broken(source, error)


def _marked_line(data: bytes) -> int:
    """Return the line of the first mark of a template."""
    return data.split(_MARK.encode(), 1)[0].count(b"\n") + 1


def _broken(source: str, error: ManifestError) -> LintFinding:
    place = _PLACE.search(error.problem)
    if place is None:
        return unreadable(source=source, document=error.document or 0, line=1, path=error.path, message=error.problem)
    message = error.problem.replace(place[0], "", 1)  # the finding has the line
    return unreadable(source=source, document=error.document or 0, line=int(place[1]), path=error.path, message=message)


def _objects(source: str, number: int, raw: Any, lines: LineFinder) -> Iterator[Scanned]:  # noqa: ANN401 - JSON
    """Yield the objects of a document: the document itself, or the items of a list."""
    if raw is None:
        return
    if isinstance(raw, dict) and is_list(raw) and isinstance(raw["items"], list):
        kind = str(raw["kind"]).removesuffix("List")
        typed = {"apiVersion": raw.get("apiVersion"), "kind": kind} if kind else {}
        for index, item in enumerate(raw["items"]):
            if isinstance(item, dict) and is_list(item):
                path = f"items[{index}]"
                line = lines.line(number, path)
                yield unreadable(source=source, document=number, line=line, path=path, message=NESTED_LIST)
                continue
            whole = {**typed, **item} if isinstance(item, dict) else item
            yield _object(source, number, f"items[{index}]", whole, lines)
        return
    yield _object(source, number, "", raw, lines)


def _object(source: str, number: int, prefix: str, raw: Any, lines: LineFinder) -> Scanned:  # noqa: ANN401 - JSON
    what = foreign_document(raw)
    if what is not None:
        return Skipped(source, lines.line(number, prefix), what.value)
    for error in required_errors(raw):
        path = ".".join(filter(None, (prefix, error.path)))
        line = lines.line(number, path)
        return unreadable(source=source, document=number, line=line, path=path, message=error.problem)
    for field in ("apiVersion", "kind"):
        value = raw.get(field)
        if not isinstance(value, str) or not value:
            message = "is missing" if value in (None, "") else "accepted is a string"
            path, line = ".".join(filter(None, (prefix, field))), lines.line(number, prefix)
            return unreadable(source=source, document=number, line=line, path=path, message=message)
    found = SourceObject(source, number, prefix, raw, lines)
    metadata = raw.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        path, line = found.path("metadata"), found.line("metadata")
        return unreadable(source=source, document=number, line=line, path=path, message="accepted is an object")
    return found


def is_template(raw: dict[str, Any]) -> bool:
    """Return whether an object contains template marks outside of its annotations."""
    metadata = raw.get("metadata") or {}
    level: list[Any] = [{**raw, "metadata": {key: each for key, each in metadata.items() if key != "annotations"}}]
    while level:
        node = level.pop()
        if isinstance(node, dict):
            level.extend(node)
            level.extend(node.values())
        elif isinstance(node, list):
            level.extend(node)
        elif isinstance(node, str) and _MARK in node:
            return True
    return False
