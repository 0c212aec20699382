"""The tables of docs/written-objects.md about what Berthmaster writes into objects, compared with the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from berthmaster.deciding import lease_record
from berthmaster.ledger.entries import FORMAT
from berthmaster.ledger.schema import REVISION
from berthmaster.model.meta import Value
from berthmaster.model.move import MOVE, MoveState
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION, PriorityDrop

ROOT = Path(__file__).parents[3]
PACKAGES = ("berthmaster", "webhook", "extender", "certs", "console", "berthmaster_cli")
PAGE = (ROOT / "docs" / "written-objects.md").read_text().partition("## What Berthmaster writes into objects")[2]
KEYS, RECORDS = (part.partition("\n### Back")[0] for part in PAGE.split("### Fields of records"))
KEY = re.compile(r"(?:[a-z]+\.)?berthmaster\.io/[a-z-]+")
NO_KEYS = frozenset({"berthmaster.io/controllers", "berthmaster.io/webhook", "berthmaster.io/certs"})
"""The names of components in events."""
STRUCTS: dict[str, type[Value]] = {
    MOVE: MoveState,
    lease_record.SOURCES: lease_record.SourcesRecord,
    lease_record.BRAKE: lease_record.BrakeRecord,
    lease_record.RESUME: lease_record.ResumeRequest,
    lease_record.CONTROLLERS: lease_record.ControllersRecord,
    PRIORITY_DROP_ANNOTATION: PriorityDrop,
}


def rows(table: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a table."""
    for line in table.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def keys_in_code() -> set[str]:
    """Every text of the code that is a key of an annotation, a label or a taint."""
    texts = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if "berthmaster.io/" in (source := path.read_text()):
                found = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
                texts |= {each for each in found if isinstance(each, str) and KEY.fullmatch(each)}
    return texts - NO_KEYS


def test_each_key_has_a_row() -> None:
    assert {cells[0].strip("`") for cells in rows(KEYS)} == keys_in_code()


def test_a_row_says_who_writes_it_since_when_and_what_an_older_reader_does() -> None:
    for key, on, writer, fmt, readers, older in rows(KEYS):
        assert re.fullmatch(r".+, \d+\.\d+\.\d+", writer), key
        assert all((on, readers, older)), key
        assert fmt.isdecimal(), key


@pytest.mark.parametrize("key", STRUCTS)
def test_the_fields_of_a_record_are_those_of_its_formats(key: str) -> None:
    [formats] = [cells[1:] for cells in rows(RECORDS) if cells[0] == f"`{key}`"]
    written = [re.findall(r"`(\w+)`", cell) for cell in formats]
    listed = [name for fields in written for name in fields]
    assert sorted(listed) == sorted(each.encode_name for each in msgspec.structs.fields(STRUCTS[key]))
    [row] = [cells for cells in rows(KEYS) if cells[0] == f"`{key}`"]
    assert int(row[3]) == sum(map(bool, written)), "the format is the number of the last release that added fields"


def test_the_ledger_has_the_schema_and_the_format_of_the_page() -> None:
    assert f"schema `{REVISION}` and batches of format `{FORMAT}`" in PAGE
