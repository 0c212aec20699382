"""The tests that the pages about tests name exist, and each test of moves in trouble is named."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
PAGE = "".join(each.read_text() for each in sorted((TESTS.parent / "docs").glob("testing*.md")))
CASES = PAGE.partition("### Moves in trouble")[2].partition("\n### ")[0]
NAME = re.compile(r"`(test_\w+)`")


def defined(*folders: str) -> set[str]:
    """Return the names of the tests in some folders, and below them."""
    files = (file for folder in folders for file in (TESTS / folder).rglob("test_*.py"))
    return {name for file in files for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)}


def test_each_case_names_tests_on_members_that_exist():
    rows = [line.split("|")[1:-1] for line in CASES.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 28
    members, others = defined("fleet"), defined("contract/controllers", "e2e")
    for _, on_members, without in rows:
        assert NAME.findall(on_members), on_members
        assert {*NAME.findall(on_members)} <= members
        assert {*NAME.findall(without)} <= others


def test_each_test_of_moves_in_trouble_belongs_to_a_case():
    text = (TESTS / "fleet/test_trouble.py").read_text()
    assert {*re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)} <= {*NAME.findall(CASES)}
