"""Commands on the objects of a file."""

import json
import shlex
from typing import Any

import jsonschema_rs
import pytest
from answer_schema import closed, schema_of_answers
from click.testing import CliRunner

from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.main import main


@pytest.fixture(scope="session")
def answer_validators():
    """A validator for each kind of answer. It refuses fields that the schema does not have."""
    found = closed(schema_of_answers())
    parts = {"$schema": found["$schema"], "$defs": found["$defs"]}
    return {each["title"]: jsonschema_rs.validator_for({**parts, **each}) for each in found["oneOf"]}


@pytest.fixture(autouse=True)
def every_answer_has_its_schema(answer_validators, monkeypatch):
    document = AnswerKind.document

    def checked(self, plain):
        found = document(self, plain)
        if self.form is not Any:
            answer_validators[self.kind].validate(found)
        return found

    monkeypatch.setattr(AnswerKind, "document", checked)


@pytest.fixture
def on_objects(tmp_path):
    """Run a command with ``-f`` on objects. ``code`` is the expected exit code; None for any."""

    def run(line, *objects, code=None):
        path = tmp_path / "fleet.json"
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
        command, *rest = shlex.split(line)
        result = CliRunner().invoke(main, [command, "-f", str(path), *rest], prog_name="berthmaster")
        assert code in {None, result.exit_code}, result.output + repr(result.exception)
        return result

    return run
