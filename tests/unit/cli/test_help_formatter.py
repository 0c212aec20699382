"""`--help` of every command: lines break at spaces only."""

import re

import click
import pytest
from click.testing import CliRunner

from berthmaster_cli.main import main

NARROW = {"terminal_width": 80}


def commands(command=main, words=()):
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*words, name))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_no_line_of_help_ends_inside_a_word(words):
    result = CliRunner().invoke(main, [*words, "--help"], **NARROW)
    assert result.exit_code == 0
    assert "Options:" in result.output
    assert re.findall(r"^.*\w-$", result.output, re.MULTILINE) == []


def test_a_long_name_of_an_option_stays_whole_beside_other_words():
    @click.command(help="Needs the certificate of --a-file-with-client-certificates and its key.")
    @click.option("--key", help="The key of --a-file-with-client-certificates, which has another option.")
    def command(key):
        """Do nothing."""

    output = CliRunner().invoke(command, ["--help"], terminal_width=50).output
    assert output.count("--a-file-with-client-certificates") == 2
