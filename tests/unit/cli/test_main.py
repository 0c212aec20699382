"""The command: options, variables, help, extras, and the plugin of kubectl."""

import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib.metadata import requires
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tables import cases

from berthmaster.native_api.wire import Staleness
from berthmaster_cli import entry
from berthmaster_cli.complete_line import completions
from berthmaster_cli.flags import Flags, argument, group, option, options
from berthmaster_cli.main import COMMANDS, main, run
from berthmaster_cli.option_variables import variable_of
from berthmaster_cli.remote_extender import report_gaps

CRASHES = """
import os, signal, sys
from berthmaster_cli.main import main, run
main.command("crash")(lambda: os.kill(os.getpid(), signal.SIGSEGV))
sys.argv[1:] = ["crash"]
run()
"""


@cases(
    ("stderr", "message"),
    {
        "standard error has the stacks": ("2>&1", b"Fatal Python error: Segmentation fault"),
        "standard error is closed": ("2>&-", b""),
    },
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


def commands(ctx):
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            yield from commands(click.Context(command, info_name=name, parent=ctx, **command.context_settings))


ALL = {each.command_path: each for each in commands(click.Context(main, info_name="berthmaster"))}
CONTEXTS = {path: each for path, each in ALL.items() if each.auto_envvar_prefix}


@pytest.mark.parametrize("path", CONTEXTS)
def test_the_name_of_an_option_is_the_name_of_its_variable(path, monkeypatch):
    ctx = CONTEXTS[path]
    options = [each for each in ctx.command.params if isinstance(each, click.Option)]
    variables = [variable_of(each, ctx.auto_envvar_prefix) for each in options]
    assert len(set(variables)) == len(options)
    for each, variable in zip(options, variables, strict=True):
        spelled = max(each.opts, key=len).removeprefix("--").replace("-", "_").upper()
        assert variable.endswith(f"_{spelled}")
        with monkeypatch.context() as environment:
            environment.setenv(variable, "given")
            assert [other for other in options if other.resolve_envvar_value(ctx) == "given"] == [each]


def test_the_name_in_python_still_sets_an_option(monkeypatch):
    monkeypatch.setenv("BERTHMASTER_WEBHOOK_RULES", "unknown=deny")
    done = CliRunner().invoke(main, ["webhook", "--cert-file", "crt", "--key-file", "key"])
    assert (done.exit_code, "unknown rule 'unknown'" in done.output) == (2, True)


def test_paths_in_a_variable_are_separated_by_colons(monkeypatch):
    monkeypatch.setenv("BERTHMASTER_LINT_FILENAME", "absent-1:absent-2")
    done = CliRunner().invoke(main, ["lint"])
    assert (done.exit_code, "absent-1" in done.output, "absent-2" in done.output) == (2, True, True)


def test_most_commands_that_serve_have_variables():
    served = {path.split()[1] for path in CONTEXTS}
    assert {"webhook", "extender", "controllers", "console", "certs", "doctor", "register"} <= served <= {*COMMANDS}


class Peer(Flags):
    ca_file: Path | None = option("The CA of {peer}.")


class Base(Flags):
    limit: int = option("How many.", 5, click.IntRange(1))
    only: tuple[str, ...] = option("Repeatable.", names=("--just",))


class Own(Base):
    names: tuple[str, ...] = argument(nargs=-1)
    strict: bool = option("A flag.")
    store: Peer = group()


@click.command()
@options(Own, {"limit": {"default": 7}}, peer="the store")
def command(flags: Own) -> None:
    click.echo(repr(flags))


@cases(
    ("words", "changed"),
    {
        "defaults, one of which the command replaces": ([], {}),
        "a flag and a number": (["--strict", "--limit=2"], {"strict": True, "limit": 2}),
        "several values": (["--just=a", "--just=b", "x"], {"only": ("a", "b"), "names": ("x",)}),
        "a group": (["--store-ca-file=f"], {"store": Peer(ca_file=Path("f"))}),
    },
)
def test_a_command_gets_its_options_as_one_value(words, changed):
    plain = {"limit": 7, "only": (), "names": (), "strict": False, "store": Peer(ca_file=None)}
    assert CliRunner().invoke(command, words).output == f"{Own(**plain | changed)!r}\n"


def test_help_has_own_options_first_and_the_texts_of_the_command():
    listed = CliRunner().invoke(command, ["--help"]).output
    assert listed.index("--strict") < listed.index("--store-ca-file") < listed.index("--limit")
    assert "The CA of the store." in listed
    assert "default: 7" in listed


@pytest.mark.parametrize("path", ALL)
def test_no_line_of_help_ends_inside_a_word(path):
    result = CliRunner().invoke(main, [*path.split()[1:], "--help"], terminal_width=80)
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


SINCE = datetime(2026, 1, 1, tzinfo=UTC)


@cases(
    ("staleness", "lines"),
    {
        "a service that does not say how current it is": (None, ["no templates"]),
        "current": (Staleness(SINCE, None, ""), ["no templates"]),
        "stale": (
            Staleness(SINCE, SINCE, "lost"),
            ["no templates", "the extender is stale since 2026-01-01T00:00:00+00:00: lost"],
        ),
    },
)
def test_gaps_and_staleness_are_reported(capsys, staleness, lines):
    report_gaps(["no templates"], staleness)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"berthmaster: {line}" for line in lines]


ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@cases(
    ("words", "incomplete", "values", "directive"),
    {
        "a command": ([], "expl", ["explain"], ":4"),
        "an option": (["simulate"], "--red", ["--redact"], ":4"),
        "a value": (["explain", "-o"], "", ["table", "wide", "name", "json", "yaml"], ":4"),
        "a file": (["explain", "-f"], "", [], ":0"),
        "a type": (["explain"], "deploy", ["deployments"], ":4"),
        "an unknown command": (["unknown"], "x", [], ":4"),
    },
)
def test_kubectl_gets_values_and_a_directive(words, incomplete, values, directive):
    *lines, last = completions(words, incomplete)
    assert ([line.partition("\t")[0] for line in lines], last) == (values, directive)


@cases("words", {"no command": [], "a group alone": ["certs"]})
def test_a_missing_command_shows_the_help_in_its_lines(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["berthmaster", *words])
    with pytest.raises(SystemExit) as ended:
        run()
    shown = capsys.readouterr().err.splitlines()
    assert (ended.value.code, shown[0][:18]) == (2, "Usage: berthmaster")
    assert "Commands:" in shown or "Set up:" in shown


@cases(
    ("words", "message"),
    {
        "help as a command": (["help"], "No such command 'help'. Did you mean --help?"),
        "a file instead of a name": (["simulate", "README.md"], "'README.md' is not a resource name"),
    },
)
def test_a_wrong_word_is_named_before_anything_is_read(words, message, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, message in done.output) == (2, True)


def test_a_completion_has_its_description():
    assert completions(["plan"], "--det")[0] == "--detailed-exitcode\tExit with 2 if something moves."


@pytest.mark.parametrize(
    ("script", "function"),
    [("berthmaster", "berthmaster"), ("kubectl-berthmaster", "plugin"), ("kubectl_complete-berthmaster", "completion")],
)
def test_the_scripts_that_kubectl_looks_for_are_installed(script, function):
    assert PROJECT["scripts"][script] == f"berthmaster_cli.entry:{function}"
    assert callable(getattr(entry, function))


def test_usage_messages_name_the_plugin():
    code = "from berthmaster_cli.main import run_plugin; run_plugin()"
    result = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", code, "explain", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.startswith("Usage: kubectl berthmaster explain [OPTIONS] [TYPE/NAME]")


HELP = [f"{name} --help" for name in (*COMMANDS, "shadow report", "ledger export")]
READING = [
    "simulate -f examples/karmada",
    "simulate -f examples/karmada --ledger sqlite:///LEDGER",
    "history --ledger sqlite:///LEDGER",
    "replay --ledger sqlite:///LEDGER",
    "ledger verify --ledger sqlite:///LEDGER",
    "explain -f examples/karmada Deployment/nginx",
    "why-not -f examples/karmada Deployment/nginx member3",
    "plan --against examples/karmada/clusters.yaml --against examples/karmada/groups -f examples/plan/nginx.yaml",
    "resilience -f examples/karmada",
    "lint -f examples/karmada",
    "--help",
]
WITH_EXTRAS = [
    ("history --ledger postgresql+psycopg://a@127.0.0.1:1/ledger", "postgresql"),
    ("ledger export --ledger sqlite:///LEDGER --format parquet --file LEDGER.parquet", "parquet"),
]
# Runs command lines in turn, as if no distribution were installed except the given ones. Then imports all modules.
DEFAULT = """\
import contextlib, importlib, io, json, pkgutil, sys
from importlib.metadata import packages_distributions
given = json.load(sys.stdin)
owners = {name: {each.lower().replace("_", "-") for each in found} for name, found in packages_distributions().items()}
absent = {name for name in owners if owners[name].isdisjoint(given["installed"])}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from berthmaster_cli.main import run
for line in given["lines"]:
    sys.argv[1:], stderr = line.split(), io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(stderr):
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps([code, stderr.getvalue()]))
failed = {}
for package in ("berthmaster", "webhook", "extender", "certs", "console", "berthmaster_cli"):
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            failed[found.name] = error.name
        except AttributeError:  # it runs inside Alembic only
            assert found.name == "berthmaster.ledger.migrations.env"
print(json.dumps(failed))
"""


def default_installation():
    """Return the names of the distributions that the project needs without extras, as their metadata says."""
    names, found = [*PROJECT["dependencies"]], {"berthmaster"}
    while names:
        needed = Requirement(names.pop())
        name = canonicalize_name(needed.name)
        if name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        names += requires(name) or []
    return found


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    """The exit code and the standard error of each command line, and the modules that cannot be imported."""
    ledger = str(tmp_path_factory.mktemp("default") / "ledger.db")
    lines = [*HELP, *READING, *(line for line, _ in WITH_EXTRAS)]
    given = {"installed": sorted(default_installation()), "lines": [line.replace("LEDGER", ledger) for line in lines]}
    program = [sys.executable, "-c", DEFAULT]
    done = subprocess.run(  # noqa: S603 - ours
        program, input=json.dumps(given), capture_output=True, text=True, check=False, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    *results, modules = map(json.loads, done.stdout.splitlines())
    return dict(zip(lines, results, strict=True)), modules


@pytest.mark.parametrize("line", [*HELP, *READING])
def test_each_command_works_in_the_default_installation(line, default):
    assert default[0][line][0] == 0, default[0][line][1]


@pytest.mark.parametrize(("line", "extra"), WITH_EXTRAS)
def test_what_few_have_names_its_extra_in_one_line(line, extra, default):
    code, stderr = default[0][line]
    assert code == 2
    assert f"needs the extra '{extra}'" in stderr
    assert f"[{extra}]" in stderr
    assert len(stderr.splitlines()) == 1
    assert extra in PROJECT["optional-dependencies"]


def test_only_modules_of_extras_need_more_than_the_default_installation(default):
    assert default[1] == {
        "berthmaster.interpreters.sandbox": "lupa",
        "berthmaster.controllers.estimators.channels": "grpc",
        "berthmaster.controllers.estimators.estimator_pb2": "google",
    }
