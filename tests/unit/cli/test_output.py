"""What is printed: any text, any stream."""

import ast
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tables import cases, data

import berthmaster_cli.output as output_module
from berthmaster.views.texts import numbers
from berthmaster_cli import explain, simulate
from berthmaster_cli.answers import API_VERSION, AnswerKind
from berthmaster_cli.lint import command as lint
from berthmaster_cli.lint.command import FORMATS
from berthmaster_cli.main import run
from berthmaster_cli.output import (
    complain,
    echo,
    inert,
    joined,
    json_line,
    print_answer,
    print_line,
    print_table,
    styled,
)

ANSWER = AnswerKind("Any", Any)
HOSTILE = (
    "\x1b]8;;http://x\x1b\\", "\x1b[2J", "\x9b1m", "[/x]", "[bold]", "\n::error::x", "##[add-mask]x", "\u202e", "\r",
    "\x85",
)  # fmt: skip
TEXTS = st.text(st.characters(), max_size=6) | st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join)
JSON_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | TEXTS.filter(str.isascii)
DATA = st.recursive(
    JSON_TEXTS | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(JSON_TEXTS, inner, max_size=3),
)


def check(printed, *, commands=False):
    """Assert that no terminal and no CI system interprets the text. ``commands``: lines are commands for GitHub."""
    assert printed.endswith("\n")
    for line in printed.split("\n"):
        assert line.isprintable(), repr(line)
        assert line.strip().startswith("::") == (commands and line != "")
        assert "##[" not in line


def test_lines_show_any_text_as_data(capsys):
    @given(TEXTS, TEXTS)
    def holds(one, other):
        print_line(one, styled(other, "bold"), joined(other, styled(one, "red")))
        print_line(one)
        check(capsys.readouterr().out)

    holds()


def test_tables_show_any_text_as_data(capsys):
    @given(st.lists(st.tuples(TEXTS, TEXTS.map(lambda text: styled(text, "red")), TEXTS), min_size=1, max_size=3))
    def holds(rows):
        print_table(("NAME", "STATE", numbers("COUNT")), rows)
        check(capsys.readouterr().out)

    holds()


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_data_is_exact_and_printable(capsys, output):
    @given(DATA)
    def holds(data):
        print_answer(ANSWER, {"data": data}, output)
        printed = capsys.readouterr().out
        check(printed)
        found = (json.loads if output == "json" else yaml.safe_load)(printed)
        assert found == {"apiVersion": API_VERSION, "kind": "Any", "data": data}

    holds()


@given(DATA)
def test_lines_of_json_are_exact_and_printable(data):
    line = json_line(data)
    check(line.decode())
    assert msgspec.json.decode(line) == data


def is_direct(call):
    """Whether a call prints text without the functions of the output module."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "print"
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"echo", "print", "secho"} and bool(call.args)


def test_all_commands_print_through_the_output_module():
    # The completion script is click's text.
    known = {"output.py", "main.py"}
    direct = {
        path.name
        for path in Path(output_module.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and is_direct(node)
    }
    assert direct == known


def test_ordinary_data_is_written_as_usual(capsys):
    print_answer(ANSWER, {"name": "größe", "replicas": 3, "note": "a: b"}, "yaml")
    header = f"apiVersion: {API_VERSION}\nkind: Any\n"
    assert capsys.readouterr().out == f"{header}name: größe\nreplicas: 3\nnote: 'a: b'\n"


def test_markup_is_data(capsys):
    print_line("m[/x]", styled("[bold]", "red"))
    assert capsys.readouterr().out == "m[/x][bold]\n"


def test_messages_are_one_line(capsys):
    echo("a\nb", "\x1b[1m")
    complain("a\n::error::b \udc80")
    printed = capsys.readouterr()
    assert printed.out == "a\\nb\\x1b[1m\n"
    assert printed.err == "berthmaster: a\\n\\x3a:error\\x3a:b \ufffd\n"


@pytest.mark.parametrize("text", ["2001:db8::1", "a: b", "#1", "x::", "::1"])
def test_colons_and_hashes_of_usual_text_stay(text):
    assert inert(text) == text


PAYLOAD = "x\x1b[31m\x1b]8;;x\x1b\\\n::error file=a::b\r##[add-mask]\x9b1m[bold]\u202e"
CLUSTER, OTHER, WEB, POLICY, BAD_POLICY = json.loads(
    json.dumps(data("hostile_objects")).replace("PAYLOAD", json.dumps(PAYLOAD)[1:-1])
).values()


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "a\n##[x]\udc80"  # no text in UTF-8
    folder.mkdir()

    def write(*objects):
        (folder / "m.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return str(folder / "m.json")

    return write


@pytest.mark.parametrize("arguments", ["-o table", "-o json", "-o yaml", "--down m2", "--down m2 -o yaml"])
def test_simulate(path, arguments):
    manifests = path(CLUSTER, OTHER, WEB, POLICY)
    result = CliRunner().invoke(simulate.command, ["--lenient", "-f", manifests, *arguments.split()])
    assert result.exit_code == 0
    check(result.output)
    assert "web" in result.output


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_explain(path, output):
    name = f"{PAYLOAD}/Deployment/web{PAYLOAD}"
    manifests = path(CLUSTER, OTHER, WEB, POLICY)
    result = CliRunner().invoke(explain.command, ["--lenient", "-f", manifests, "-o", output, "--", name])
    assert result.exit_code == 0
    check(result.output)


@pytest.mark.parametrize("output", FORMATS)
@cases("policy", {"warnings": POLICY, "errors": BAD_POLICY})
def test_lint(path, output, policy):
    result = CliRunner().invoke(lint.command, ["-f", path(policy), "-o", output])
    check(result.output, commands=output == "github")
    assert not result.exception or isinstance(result.exception, SystemExit)
    assert result.exit_code in (0, 1)


@cases(
    ("arguments", "objects"),
    {
        "an invalid value": (["simulate", "-f"], [{**POLICY, "metadata": {"name": [PAYLOAD]}}]),
        "an unknown field": (["simulate", "-f"], [BAD_POLICY]),
        "a duplicate": (["simulate", "-f"], [WEB, WEB]),
        "an unknown name": (["explain", f"Deployment/[/x]{PAYLOAD}", "-f"], [CLUSTER, WEB, POLICY]),
        "an option": (["simulate", "--down", PAYLOAD, "-f"], [CLUSTER, WEB]),
        "a command": ([PAYLOAD], []),
        "a flag": ([f"--{PAYLOAD}"], []),
    },
)
def test_errors(path, monkeypatch, capsys, arguments, objects):
    monkeypatch.setattr("sys.argv", ["berthmaster", *arguments, *([path(*objects)] if objects else [])])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    check(capsys.readouterr().err)
