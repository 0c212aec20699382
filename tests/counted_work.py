"""Count the work of the project's code: a loader that adds counters to each module as it is imported.

The count is deterministic: it depends on the source and the input, not on the machine. A step is a call of a function,
a pass of a loop, or an element of a comprehension. Work that the interpreter does in C counts by size: a search in a
list, a copy, a join, an array of numpy. Strings and arrays count less, because C passes over them faster.

``install`` must run before the first import of the project. A separate process is the simplest way to ensure this.
"""

import ast
import builtins
import importlib.abc
import importlib.machinery
import itertools
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, TypeVar

import numpy as np

PACKAGES = ("berthmaster", "extender", "webhook", "certs", "console", "berthmaster_cli")
BYTES_PER_STEP = 64
CELLS_PER_STEP = 128
_CONTAINERS = (list, tuple, dict, set, frozenset)
_CONSUMERS = frozenset({"sorted", "set", "frozenset", "list", "tuple", "dict", "sum", "min", "max"})
_SCANS = frozenset({"count", "index", "remove", "insert", "find", "rfind", "split", "replace", "strip"})
_TAKERS = frozenset({"extend", "update", "union", "intersection", "difference"})
_MAKERS = frozenset({"copy", "decode", "encode", "format", "join", "tolist"})

T = TypeVar("T")


class Counter:
    """The count of all steps of this process."""

    def __init__(self) -> None:
        self._passes = itertools.count(1)
        self.step = self._passes.__next__
        self._weight = 0

    @property
    def steps(self) -> int:
        """The steps so far."""
        return self._passes.__reduce__()[1][0] + self._weight

    def sized(self, value: T) -> T:
        """Count a value that C code passes over, and return it."""
        if isinstance(value, _CONTAINERS):
            self._weight += len(value)
        elif isinstance(value, str | bytes | bytearray):
            self._weight += len(value) // BYTES_PER_STEP
        elif isinstance(value, np.ndarray):
            self._weight += value.size // CELLS_PER_STEP
        return value

    def copied(self, value: object) -> None:
        """Count a value that an assignment such as ``+=`` copied, because its type is immutable."""
        if isinstance(value, tuple | frozenset | str | bytes):
            self.sized(value)

    def searched(self, value: T) -> T:
        """Count a value in which ``in`` searches, unless it is a set or a map, and return it."""
        return value if isinstance(value, dict | set | frozenset) else self.sized(value)


COUNTER = Counter()


def install() -> None:
    """Count in all modules of the project that are imported from now on.

    Raises:
        RuntimeError: a module of the project is already imported.
    """
    early = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
    if early:
        raise RuntimeError(f"imported before the counters: {', '.join(early)}")
    for name in ("step", "sized", "copied", "searched"):
        setattr(builtins, f"__{name}__", getattr(COUNTER, name))
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def path_stats(self, path: str) -> Any:
        raise OSError(f"{path}: compiled code without counters must not be read, nor code with counters be written")

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> types.CodeType:  # type: ignore[override]
        return compile(counted(data), path, "exec", dont_inherit=True, optimize=_optimize)


def counted(source: str | bytes) -> ast.Module:
    """Return the syntax tree of a module with counters."""
    return ast.fix_missing_locations(_Counters().visit(ast.parse(source)))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(f"__{name}__", ast.Load()), list(arguments), [])


class _Counters(ast.NodeTransformer):
    """Adds the counters. ``__step__()`` is a number above 0, so it is also a condition that holds."""

    def _loop(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(_call("step")))
        return node

    visit_For = visit_While = _loop  # noqa: N815 - the names that NodeTransformer looks up

    def _function(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(1 if ast.get_docstring(node, clean=False) is not None else 0, ast.Expr(_call("step")))
        return node

    visit_FunctionDef = _function  # noqa: N815 - the same

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.And(), [_call("step"), node.body])
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.insert(0, _call("step"))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        node.comparators = [
            _call("searched", each) if isinstance(operator, ast.In | ast.NotIn) else each
            for operator, each in zip(node.ops, node.comparators, strict=True)
        ]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.func:
            case ast.Name(id=name) if name in _CONSUMERS and node.args and not isinstance(node.args[0], ast.Starred):
                node.args[0] = _call("sized", node.args[0])
            case ast.Attribute(value=ast.Name(id="np")):
                return _call("sized", node)
            case ast.Attribute(attr=name) as method if name in _SCANS:
                method.value = _call("searched", method.value)
            case ast.Attribute(attr=name) if name in _TAKERS and node.args:
                node.args = [each if isinstance(each, ast.Starred) else _call("sized", each) for each in node.args]
            case ast.Attribute(attr=name) if name in _MAKERS:
                return _call("sized", node)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = _call("sized", node.value)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        pairs = zip(node.keys, node.values, strict=True)
        node.values = [value if key is not None else _call("sized", value) for key, value in pairs]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _call("sized", node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        node.value = _call("sized", node.value)
        if not isinstance(node.target, ast.Name):
            return node
        return [node, ast.Expr(_call("copied", ast.Name(node.target.id, ast.Load())))]

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Slice):
            return _call("sized", node)
        return node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        return node
