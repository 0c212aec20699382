"""The line of a field in a file, for annotations."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TOKENS: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_MAX_BYTES: Final = 4 * 2**20


class Lines:
    """Where fields stand in one file. It is parsed once more for that, with the marks that values have lost."""

    def __init__(self, path: str) -> None:
        self._documents: list[Any] = []
        try:
            if Path(path).stat().st_size <= _MAX_BYTES:
                self._documents = list(yaml.compose_all(Path(path).read_text("utf-8"), Loader=_LOADER))
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            self._documents = []  # stdin, say; then every field is on line 1

    def line(self, document: int, path: str) -> int:
        """The line, from 1, of the deepest part of a path that is there. ``document`` counts from 1."""
        # Numbers count the empty documents as well, which the composer yields as None.
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


def _child(node: Any, token: str) -> tuple[int, Any] | None:  # noqa: ANN401 - a node of PyYAML's
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
