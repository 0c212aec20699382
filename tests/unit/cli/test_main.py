import shlex
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from berthmaster_cli.main import COMMANDS, main

CRASHES = """
import os, signal, sys
from berthmaster_cli.main import main, run
main.command("crash")(lambda: os.kill(os.getpid(), signal.SIGSEGV))
sys.argv[1:] = ["crash"]
run()
"""


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        pytest.param("2>&1", b"Fatal Python error: Segmentation fault", id="standard error has the stacks"),
        pytest.param("2>&-", b"", id="standard error is closed"),
    ],
)
def test_a_crash_in_c_code_is_reported(stderr, message):
    command = ["/bin/sh", "-c", f'exec "$0" -c "$1" {stderr}', sys.executable, CRASHES]
    child = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False)  # noqa: S603 - ours
    assert child.returncode == -signal.SIGSEGV
    assert child.stdout.startswith(message)
    assert (b"most recent call first" in child.stdout) == bool(message)


def test_help_lists_every_command_once():
    lines = main.get_help(click.Context(main)).splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2].isalpha() and "  " in line[3:]]
    assert sorted(names) == sorted([*COMMANDS, "completion"])


def test_examples_in_help_are_valid_usage():
    commands = {name: main.get_command(click.Context(main), name) for name in COMMANDS}
    texts = [(command.help or "").partition("Examples:\n")[2] for command in commands.values()]
    examples = [shlex.split(line) for text in texts for line in text.strip().splitlines()]
    for _, name, *arguments in examples:
        commands[name].make_context(name, arguments)
    assert {"simulate", "explain", "why-not", "plan", "drain"} <= {name for _, name, *_ in examples}


def test_a_misspelt_command_gets_a_suggestion():
    done = CliRunner().invoke(main, ["explian"])
    assert (done.exit_code, "Did you mean explain?" in done.output) == (2, True)


@pytest.mark.parametrize("command", ["drain", "undrain"])
def test_a_drain_without_clusters_reads_nothing(command):
    done = CliRunner().invoke(main, [command])
    assert (done.exit_code, "name the clusters, or select them with -l" in done.output) == (2, True)
