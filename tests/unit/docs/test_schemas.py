"""The JSON schemas of docs/schemas are those of the types, and accept what the commands read and print."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from click.testing import CliRunner
from placement_test_schema import schema_of_reports, schema_of_tests, schemas
from tables import data

from berthmaster_cli.main import main

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "tests"
TESTS = jsonschema_rs.validator_for(schema_of_tests())
FIELD_ERRORS = ("unknown field", "is missing or null", "where a", "is out of range", "is not accepted; accepted are")


def test_the_files_match_the_types():
    stale = [path.name for path, text in schemas().items() if not path.exists() or path.read_text() != text]
    assert stale == [], "a type changed; run make reference"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_schema_accepts_the_examples(path):
    for raw in yaml.safe_load_all(path.read_text()):
        assert [each.message for each in TESTS.iter_errors(raw)] == []


WRONG = {
    name: row
    for name, row in data("wrong_placement_tests").items()
    if any(each in row["problem"] for each in FIELD_ERRORS)
}


@pytest.mark.parametrize("row", WRONG.values(), ids=WRONG)
def test_the_schema_refuses_wrong_fields(row):
    assert not TESTS.is_valid(yaml.safe_load(row["file"]))


def test_many_wrong_fields_are_refused():
    assert len(WRONG) > 15


def test_a_report_has_its_schema(monkeypatch):
    monkeypatch.chdir(ROOT)
    printed = CliRunner().invoke(main, ["test", "examples/tests", "-o", "json"]).stdout
    jsonschema_rs.validator_for(schema_of_reports()).validate(json.loads(printed))
