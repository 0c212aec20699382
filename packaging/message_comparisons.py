"""Finds code that compares a text with a sentence: a message must not decide anything.

A comparison (``==``, ``in``, ``match``), a test of a prefix or a suffix, a cut at a text, a regular expression and a
lookup in a dict count if the literal has more than three words. A literal behind a name of the module counts, too. Only
``FOREIGN`` may match the texts of other programs.

Run it at the root of the repository. It prints each place, and ends with 1 if there is one.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

FOREIGN: Final = "berthmaster/model/foreign_texts.py"
"""The module that matches texts of other programs and libraries. Tests pin these texts."""
PACKAGES: Final = ("berthmaster", "berthmaster_cli", "certs", "console", "extender", "webhook")
MAX_WORDS: Final = 3
_WORD: Final = re.compile("[A-Za-z]{2}")
_METHODS: Final = frozenset({
    "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit", "find",
    "rfind", "index", "rindex", "count",
})  # fmt: skip
_PATTERNS: Final = frozenset({"compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer"})
_Names = Mapping[str, ast.expr]


def main() -> int:
    """Check the packages. Return the exit code."""
    found = [each for package in PACKAGES for path in sorted(Path(package).rglob("*.py")) for each in problems(path)]
    for each in found:
        print(each)  # noqa: T201 - a script
    return 1 if found else 0


def problems(path: Path) -> Iterator[str]:
    """Yield each comparison of a module with a sentence."""
    if path.as_posix() == FOREIGN:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    names = _constants(tree)
    for node in ast.walk(tree):
        for text in _compared(node, names):
            if sum(_WORD.search(each) is not None for each in text.split()) > MAX_WORDS:
                yield f"{path}:{node.lineno}: compares with the sentence {text!r}; compare a fact"


def _constants(tree: ast.Module) -> _Names:
    """Return the values that are assigned to names of the module."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
    return found


def _compared(node: ast.AST, names: _Names) -> Iterator[str]:
    """Yield the literals that a node compares a text with."""
    match node:
        case ast.Compare(left=left, comparators=others):
            for each in (left, *others):
                yield from _texts(each, names)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[pattern, *_]) if name in _PATTERNS:
            yield from _texts(pattern, names)
        case ast.Call(func=ast.Attribute(attr=name), args=[text, *_]) if name in _METHODS:
            yield from _texts(text, names)
        case ast.MatchValue(value=value):
            yield from _texts(value, names)
        case ast.Call(func=ast.Attribute(value=table, attr="get")) | ast.Subscript(value=table):
            yield from _keys(table, names)


def _keys(node: ast.expr, names: _Names) -> Iterator[str]:
    """Yield the texts that are keys of a dict, or of a name that stands for one."""
    table = names.get(node.id) if isinstance(node, ast.Name) else node
    if isinstance(table, ast.Dict):
        for key in filter(None, table.keys):
            yield from _texts(key, names)


def _texts(node: ast.expr, names: _Names) -> Iterator[str]:
    """Yield the texts of a literal, of a collection of literals, or of a name that stands for one."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "" for each in parts)
        case ast.Name(id=name) if name in names:
            yield from _texts(names[name], {key: value for key, value in names.items() if key != name})
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for each in parts:
                yield from _texts(each, names)
        case ast.Dict():
            yield from _keys(node, names)
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple" | "list" | "dict"), args=[inner]):
            yield from _texts(inner, names)


if __name__ == "__main__":
    sys.exit(main())
