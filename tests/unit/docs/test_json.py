"""docs/json.md: its kinds are those of the commands, and each of its questions has an answer."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import jsonschema_rs
import pytest
from answer_schema import answers, schema_of_answers
from click.testing import CliRunner
from page_lines import whole_lines
from small_jq import filtered
from tables import cases, data

from berthmaster_cli.main import main

ROOT = Path(__file__).parents[3]
PAGE = whole_lines((ROOT / "docs" / "json.md").read_text())
QUESTIONS = dict(re.findall(r"^([A-Z].*\?)\n\n```sh\nberthmaster (.*)\n```", PAGE, re.MULTILINE))
LIVE = data("live_answers")
SCHEMA = jsonschema_rs.validator_for(schema_of_answers())
JQ = shutil.which("jq")


def document(line):
    """What a command prints about the examples; a written answer for a command that needs a control plane."""
    name = line.split()[0]
    if name in LIVE:
        return LIVE[name]["document"]
    fleet = "--against examples/karmada" if name == "plan" else "-f examples/karmada"
    words = shlex.split(f"{line.replace('changed.yaml', 'examples/plan/nginx.yaml')} {fleet}")
    done = CliRunner().invoke(main, words, prog_name="berthmaster")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_an_answer(question, monkeypatch):
    monkeypatch.chdir(ROOT)
    line, _, jq = QUESTIONS[question].partition(" | ")
    options, program = jq.split(" ", 2)[1:]
    found = document(line)
    assert [each.message for each in SCHEMA.iter_errors(found)] == []
    values = filtered(program.strip("'"), found)
    assert values
    assert None not in values
    if JQ is not None:
        words = [JQ, options, program.strip("'")]
        done = subprocess.run(  # noqa: S603 - jq, with a filter of the page
            words, input=json.dumps(found), capture_output=True, text=True, check=True
        )
        texts = [each if options == "-r" else json.dumps(each, separators=(",", ":")) for each in values]
        assert done.stdout.splitlines() == texts


def test_there_are_ten_questions():
    assert len(QUESTIONS) == 10


def test_the_page_has_every_kind():
    assert [each.kind for each in answers() if f"`{each.kind}`" not in PAGE] == []


@cases(
    ("program", "problem"),
    {"a function": (".items | length", "length"), "arithmetic": (".a + 1", "is not in the part")},
)
def test_what_is_not_known_of_jq_is_refused(program, problem):
    with pytest.raises(ValueError, match=problem):
        filtered(program, {"items": [], "a": 1})
