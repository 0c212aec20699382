"""Tables as GitHub reads them: a row has the cells of the header. A pipe in code ends a cell unless it is escaped.

The tables of the kinds of changes, and of the reasons for moves, have all of them.
"""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from berthmaster.model.move import MoveReason
from berthmaster.simulation.change_texts import CHANGE_TEXTS
from berthmaster_cli.placement_tests.files import known_changes

ROOT = Path(__file__).parents[3]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "charts").rglob("*.md")])
_PIPE = re.compile(r"(?<!\\)\|")


def torn_rows(text):
    """Yield each row that has other cells than the header of its table. GitHub cuts the row, or adds empty cells."""
    lines = text.splitlines()
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type != "table_open":
            continue
        first, last = token.map
        cells = [len(_PIPE.findall(lines[number].strip().strip("|"))) for number in range(first, last)]
        yield from (lines[first + at] for at, found in enumerate(cells) if found != cells[0])


def test_a_pipe_in_code_tears_a_row():
    table = "| Option | Meaning |\n|---|---|\n| `a|b` | c |\n| `a\\|b` | c |\n"
    assert list(torn_rows(table)) == ["| `a|b` | c |"]


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in PAGES])
def test_no_row_of_a_table_is_torn(page):
    assert list(torn_rows((ROOT / page).read_text())) == []


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in PAGES])
def test_no_table_is_taken_for_text(page):
    """A line of cells outside of code must be in a table."""
    text = (ROOT / page).read_text()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    prose = [each.content for each in tokens if each.type == "inline" and each.map and each.content.startswith("| ")]
    assert prose == []


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in PAGES if path.name != "CHANGELOG.md"])
def test_no_cell_is_a_page(page):
    rows = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("|")]
    assert [cell for row in rows for cell in _PIPE.split(row) if len(cell.split()) > 90] == []


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in PAGES])
def test_no_cell_is_a_paragraph(page):
    rows = (line for line in (ROOT / page).read_text().splitlines() if line.startswith("|"))
    assert [cell for row in rows for cell in _PIPE.split(row) if len(cell.split()) >= 100] == []


@pytest.mark.parametrize(
    ("page", "terms"),
    [
        ("docs/simulate.md", [f"`{each.option} " for each in CHANGE_TEXTS]),
        ("docs/moves.md", [f"| `{each.value}` |" for each in MoveReason]),
        ("docs/placement-tests.md", [f"`{each}: " for each in known_changes()]),
    ],
)
def test_each_kind_has_a_row(page, terms):
    rows = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("|")]
    assert [each for each in terms if not any(each in row for row in rows)] == []
