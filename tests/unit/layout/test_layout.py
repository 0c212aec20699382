"""The layout of the repository: sizes of folders, names of classes, words, and assertions that assert."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("berthmaster", "webhook", "extender", "certs", "console", "berthmaster_cli")
PRODUCTION = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])

# Words that make a sentence about systems hard to read: a message, a client or a process has a name.
RIDDLES = re.compile(r"\b(told|whoever|nobody|somebody)\b", re.IGNORECASE)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)  # at the top level of a module
# This file lists the words.
UNCHECKED = {"LICENSE", "tests/unit/layout/test_layout.py"}


def lines_of(paths):
    return sum(len(path.read_text().splitlines()) for path in paths)


@pytest.mark.parametrize("folder", sorted(path.name for path in (ROOT / "berthmaster").iterdir() if path.is_dir()))
def test_no_folder_of_the_library_holds_more_than_a_quarter_of_the_code(folder):
    held = [path for path in PRODUCTION if path.is_relative_to(ROOT / "berthmaster" / folder)]
    assert lines_of(held) <= lines_of(PRODUCTION) / 4


def test_no_class_name_is_defined_more_than_once():
    names = Counter(name for path in PRODUCTION for name in CLASS.findall(path.read_text()))
    assert len(names) > 500, "the pattern finds classes"
    repeated = sorted(name for name, count in names.items() if count > 1)
    assert repeated == []


def tracked_texts():
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - the developer's git
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if name in UNCHECKED or not path.is_file():
            continue
        try:
            yield name, path.read_text()
        except UnicodeDecodeError:
            continue  # recorded data in compressed form


def test_sentences_name_who_acts():
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if RIDDLES.search(line)
    ]
    assert len(found) <= 20, "\n".join(found)


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in PAGES])
def test_prose_lines_have_at_most_120_characters(page):
    """Tables, code and quoted messages are not prose."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith(("|", ">", "    ", "!["))]
    assert long == []


def test_no_comparison_stands_in_the_place_of_a_message():
    """``assert a, b == c`` checks ``a`` alone; ``assert (a, b) == c`` was meant."""
    texts = {path: path.read_text() for path in TESTS}
    misplaced = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path, text in texts.items()
        if "assert" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assert) and isinstance(node.msg, ast.Compare | ast.BoolOp)
    ]
    assert misplaced == []
