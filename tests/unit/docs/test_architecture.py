"""The pages about the architecture name files that are there, and the order of imports that the contracts state."""

import re
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT
from sources import SOURCES

PAGE = "\n".join((ROOT / "docs" / name).read_text() for name in ("architecture.md", "architecture-paths.md"))
LAYOUT, ORDER, *_ = re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SECTIONS = [part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:] if "`" in part]
CONTRACTS = {
    each["name"]: each
    for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}


def places():
    """Yield the folders of the layout, each below those that are indented less."""
    above = []
    for line in LAYOUT.splitlines():
        indent = (len(line) - len(line.lstrip())) // 2
        names = re.findall(r"(\S+/)(?=\s|$)", re.split(r" {3,}", line.strip())[0] + " ")
        for name in names:
            yield Path(*above[:indent], name)
        above[indent:] = names[:1]


def layers(name):
    return [frozenset(map(str.strip, layer.split("|"))) for layer in CONTRACTS[name]["layers"]]


def named_below(section):
    """Return the folders in which a section looks for files, and the files that it names."""
    words = set(re.findall(r"`([\w./]+)`", section))
    files = {word for word in words if word.endswith(".py")}
    folders = {word.rstrip("/") for word in words if word.endswith("/")} | {str(Path(file).parent) for file in files}
    return [path for each in folders for path in (ROOT / each, ROOT / "berthmaster" / each) if path.is_dir()], files


@pytest.mark.parametrize("place", [*places()], ids=str)
def test_a_folder_of_the_layout_exists(place):
    assert (ROOT / place).is_dir()


def test_the_layout_has_each_folder_of_the_library():
    found = {path.name for path in (ROOT / "berthmaster").iterdir() if (path / "__init__.py").exists()}
    assert {place.name for place in places() if place.parent.name == "berthmaster"} == found


def test_the_order_of_imports_is_that_of_the_contracts():
    library = [{f"berthmaster.{each}" for each in layer} for layer in layers("Inside the library imports point down")]
    packages = layers("Services import the library, and only the command imports services")
    assert packages.pop() == {"berthmaster"}
    shown = [re.split(r" {3,}", line)[0].split(" | ") for line in ORDER.splitlines()]
    assert [set(each) for each in shown] == [*map(set, packages), *library]


@pytest.mark.parametrize("section", SECTIONS, ids=[each.partition("\n")[0] for each in SECTIONS])
def test_a_file_that_a_section_names_is_in_a_folder_that_it_names(section):
    folders, files = named_below(section)
    assert {
        file for file in files if not any((folder / file).exists() for folder in (ROOT, ROOT / "berthmaster", *folders))
    } == set()


def test_functions_and_types_that_are_named_exist():
    names = set(re.findall(r"`([A-Za-z_]*(?:[a-z]_[a-z]|[a-z][A-Z])[A-Za-z_.]*)`", PAGE))
    assert len(names) > 10
    assert {name for name in names for part in name.split(".") if part not in SOURCES} == set()


def test_a_function_of_a_file_is_defined_there():
    named = re.findall(r"`([\w.]+)`\s+in\s+`(\w+/[\w/]+\.py)`", PAGE)
    assert len(named) > 5
    places = {name: (ROOT / "berthmaster" / file).read_text() for name, file in named}
    last = {name: name.rpartition(".")[2] for name in places}
    assert [name for name, text in places.items() if not re.search(rf"\b(def|class) {last[name]}\b", text)] == []
