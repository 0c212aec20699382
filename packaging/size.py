"""Prints the size of the code by room: statements without imports and docstrings. ``make size`` runs it.

A count of statements does not depend on how lines are broken, and comments and docstrings cost nothing.
"""

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import Final

PACKAGES: Final = ("berthmaster", "berthmaster_cli", "webhook", "extender", "certs", "console")
GENERATED: Final = "_pb2.py"


def statements(source: str) -> int:
    """Return the number of statements of a module without imports and texts that stand alone."""
    return sum(map(_counts, ast.walk(ast.parse(source))))


def _counts(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return False
    return isinstance(node, ast.stmt)


def rooms() -> Counter[str]:
    """Return the statements of each room: a folder of the library, or another package."""
    found: Counter[str] = Counter()
    for package in PACKAGES:
        for path in sorted(Path(package).rglob("*.py")):
            if not path.name.endswith(GENERATED):
                room = "/".join(path.parts[:2]) if package == "berthmaster" and len(path.parts) > 2 else package
                found[room] += statements(path.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Print the table, the largest room first."""
    found = rooms()
    for room, number in [*found.most_common(), ("all", found.total())]:
        sys.stdout.write(f"{number:7,} {room}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
