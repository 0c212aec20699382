import ast
import json
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import berthmaster_cli.output as output_module
from berthmaster.views.cells import numbers
from berthmaster_cli.output import (
    complain,
    echo,
    inert,
    joined,
    json_line,
    print_data,
    print_line,
    print_table,
    styled,
)

HOSTILE = (
    "\x1b]8;;http://x\x1b\\",
    "\x1b[2J",
    "\x9b1m",
    "[/x]",
    "[bold]",
    "\n::error::x",
    "##[add-mask]x",
    "\u202e",
    "\r",
    "\x85",
)
TEXTS = st.text(st.characters(), max_size=6) | st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join)
JSON_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | TEXTS.filter(str.isascii)
DATA = st.recursive(
    JSON_TEXTS | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(JSON_TEXTS, inner, max_size=3),
)


def check(printed):
    """Assert that no terminal and no CI system interprets the text."""
    assert printed.endswith("\n")
    for line in printed.split("\n"):
        assert line.isprintable(), repr(line)
        assert not line.strip().startswith("::")
        assert "##[" not in line


def captured(width=40):
    console = Console(width=width, highlight=False, emoji=False)
    return console, console.capture()


@given(TEXTS, TEXTS)
def test_lines_show_any_text_as_data(one, other):
    console, capture = captured()
    with capture as printed:
        print_line(console, one, styled(other, "bold"), joined(other, styled(one, "red")))
        print_line(console, one)
    check(printed.get())


@given(st.lists(st.tuples(TEXTS, TEXTS.map(lambda text: styled(text, "red")), TEXTS), min_size=1, max_size=3))
def test_tables_show_any_text_as_data(rows):
    console, capture = captured()
    with capture as printed:
        print_table(console, ("NAME", "STATE", numbers("COUNT")), rows)
    check(printed.get())


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_data_is_exact_and_printable(capsys, output):
    @given(DATA)
    def holds(data):
        print_data({"data": data}, output)
        printed = capsys.readouterr().out
        check(printed)
        assert (json.loads if output == "json" else yaml.safe_load)(printed) == {"data": data}

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
    print_data({"name": "größe", "replicas": 3, "note": "a: b"}, "yaml")
    assert capsys.readouterr().out == "name: größe\nreplicas: 3\nnote: 'a: b'\n"


def test_markup_is_data():
    console, capture = captured()
    with capture as printed:
        print_line(console, "m[/x]", styled("[bold]", "red"))
    assert printed.get() == "m[/x][bold]\n"


def test_messages_are_one_line(capsys):
    echo("a\nb", "\x1b[1m")
    complain("a\n::error::b \udc80")
    printed = capsys.readouterr()
    assert printed.out == "a\\nb\\x1b[1m\n"
    assert printed.err == "berthmaster: a\\n\\x3a:error\\x3a:b \ufffd\n"


@pytest.mark.parametrize("text", ["2001:db8::1", "a: b", "#1", "x::", "::1"])
def test_colons_and_hashes_of_usual_text_stay(text):
    assert inert(text) == text
