"""KubeAdmiral has rooms of its own. Few files outside know it: those that put the rooms together."""

import ast
import re

from conftest import ROOT

PACKAGES = ("berthmaster", "webhook", "extender", "certs", "console", "berthmaster_cli")
ROOM = re.compile(r"(^|[/_])kubeadmiral([/_.]|$)")
KNOWLEDGE = re.compile(
    r"kubeadmiral|federation|federated_?(cluster|object)|scheduling_?profile|scheduler_?plugin", re.IGNORECASE
)
OUTSIDE = {
    "berthmaster/manifests/manifests.py": "the objects of a set of files",
    "berthmaster/model/control_planes.py": "the table of control planes and their kinds",
    "berthmaster_cli/certs.py": "an option for each kind of configuration that holds a bundle",
    "berthmaster_cli/explain.py": "explains workloads of both control planes",
    "berthmaster_cli/extender.py": "the options of each protocol",
    "berthmaster_cli/simulate.py": "simulates fleets of both control planes",
    "extender/app.py": "the protocols",
    "webhook/admission/catalog.py": "the reviews and the rules of each control plane",
}
"""The files outside that know KubeAdmiral, and what for. There may be fewer, and no more."""


def words(tree):
    """Yield the names and the texts of code. Docstrings, and the texts below constants, explain code."""
    explaining = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in explaining:
                yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield f"{name} {other}"
            case ast.ImportFrom(module=str(name)):
                yield name


def test_only_these_files_outside_its_rooms_know_kubeadmiral():
    modules = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    outside = {str(path): (ROOT / path).read_text() for path in modules if not ROOM.search(path.as_posix())}
    assert len(outside) < len(modules), "the pattern finds rooms"
    mentions = {path: text for path, text in outside.items() if KNOWLEDGE.search(text)}
    known = {path for path, text in mentions.items() if any(map(KNOWLEDGE.search, words(ast.parse(text))))}
    assert known == set(OUTSIDE)
