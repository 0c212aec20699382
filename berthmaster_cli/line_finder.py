"""The lines of fields in files of YAML or JSON."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from berthmaster.model.cached import cached_property
from berthmaster.model.errors import ManifestError

_MAX_BYTES: Final = 4 * 2**20
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TOKENS: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class LineFinder:
    """Finds the lines of fields in one file. Parses the file again, because values have no line numbers."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def _documents(self) -> list[Any]:
        """The root node of each document up to the first that is not YAML."""
        found: list[Any] = []
        if len(self._data) <= _MAX_BYTES:
            with suppress(ValueError, yaml.YAMLError, RecursionError):
                found.extend(yaml.compose_all(self._data.decode("utf-8-sig"), Loader=_LOADER))
        return found

    def line(self, document: int, path: str) -> int:
        """Return the line of the deepest part of a path that exists. Documents and lines count from 1."""
        # The numbers include empty documents, which the composer yields as None.
        if not 0 < document <= len(self._documents):
            return 1
        node = self._documents[document - 1]
        line = node.start_mark.line + 1 if node is not None else 1
        for index, key in _TOKENS.findall(path):
            found = _child(node, index or key)
            if found is None:
                return line
            line, node = found
        return line


def text_with_line(error: ManifestError) -> str:
    """Return the message of an error, with the line of the field if its file can be read again."""
    line = 0
    path = Path(error.source)
    if error.document is not None and error.path and path.is_file():
        with suppress(OSError):
            line = LineFinder(path.read_bytes()).line(error.document, error.path)
    place = f": document {error.document}"
    return str(error).replace(place, f"{place}, line {line}", 1) if line > 1 else str(error)


def _child(node: Any, token: str) -> tuple[int, Any] | None:  # noqa: ANN401 - PyYAML's node
    if isinstance(node, yaml.SequenceNode):
        if not token.isdecimal() or int(token) >= len(node.value):
            return None
        entry = node.value[int(token)]
        return entry.start_mark.line + 1, entry
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == token:
                return key.start_mark.line + 1, value
    return None
