"""The part of jq that docs/json.md uses, so that its filters are tested on machines without jq."""

import json
import re
from collections.abc import Iterator
from typing import Any

_PATH = re.compile(r"(?:\.[A-Za-z]\w*|\[\d*\])+")
_STEP = re.compile(r"\.([A-Za-z]\w*)|\[(\d*)\]")
_SELECT = re.compile(r'select\((\S+)(?: == ("[^"]*"))?\)')
_INSERTED = re.compile(r"\\\(([^)]*)\)")


def filtered(program: str, document: Any) -> list[Any]:
    """Return what a filter makes of a document. Raises ``ValueError`` for what this module does not know."""
    found = [document]
    for part in program.split(" | "):
        found = [new for value in found for new in _applied(part, value)]
    return found


def _applied(part: str, value: Any) -> Iterator[Any]:
    if selected := _SELECT.fullmatch(part):
        (tested,) = _walked(selected[1], value)
        if tested == json.loads(selected[2]) if selected[2] else tested not in (None, False):
            yield value
    elif part.startswith('"') and part.endswith('"'):
        yield _INSERTED.sub(lambda found: str(next(_walked(found[1], value))), part[1:-1])
    elif part.startswith("[") and part.endswith("]"):
        yield [each for item in part[1:-1].split(", ") for each in _walked(item, value)]
    else:
        yield from _walked(part, value)


def _walked(path: str, value: Any) -> Iterator[Any]:
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is not in the part of jq that is known here")
    found = [value]
    for name, index in _STEP.findall(path):
        if name:
            found = [None if each is None else each.get(name) for each in found]
        elif index:
            found = [each[int(index)] for each in found]
        else:
            found = [item for each in found for item in each]
    yield from found
