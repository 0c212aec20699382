"""Finds constants of a module below its first function or class: often a sign that the file has a second subject.

A constant that is made of functions or classes of the module may stand directly after one of them, and one that a class
uses directly after that class.

Run it at the root of the repository. It prints each place, and ends with 1 if there is one.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

PACKAGES: Final = ("berthmaster", "berthmaster_cli", "certs", "console", "extender", "webhook")
GENERATED: Final = "_pb2.py"
_CONSTANT: Final = re.compile(r"_?[A-Z][A-Z0-9_]+")


def main() -> int:
    """Check the packages. Return the exit code."""
    found = [(path, line, name) for path in modules() for line, name in misplaced(path)]
    for path, line, name in found:
        print(f"{path}:{line}: {name} stands below a function or class; move it up, or into a file of its own")  # noqa: T201 - a script
    return 1 if found else 0


def modules() -> Sequence[Path]:
    """Return the modules of the packages."""
    found = (path for package in PACKAGES for path in sorted(Path(package).rglob("*.py")))
    return [path for path in found if not path.name.endswith(GENERATED)]


def misplaced(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each constant that stands below a definition to which it does not belong."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    above: set[str] = set()  # the definitions directly above, and the constants that belong to them
    used: set[str] = set()  # what the classes among them use
    before: ast.stmt | None = None
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                above, used = {name}, set()
            case ast.ClassDef(name=name):
                follows = isinstance(before, ast.ClassDef)
                above = above | {name} if follows else {name}
                used = _names(node) | (used if follows else set())
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if above:
                if name in used or not above.isdisjoint(_names(node)):
                    above |= {name}
                elif _CONSTANT.fullmatch(name) and not _is_type_variable(value):
                    yield node.lineno, name
        before = node


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_type_variable(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in {"TypeVar", "ParamSpec"}
    )


if __name__ == "__main__":
    sys.exit(main())
