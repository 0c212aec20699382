"""Environment variables set options, by the names of the options."""

import click
import pytest
from click.testing import CliRunner

from berthmaster_cli.environment import variable_of
from berthmaster_cli.main import COMMANDS, main


def commands(ctx):
    if ctx.auto_envvar_prefix:
        yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            yield from commands(click.Context(command, info_name=name, parent=ctx, **command.context_settings))


CONTEXTS = {each.command_path: each for each in commands(click.Context(main, info_name="berthmaster"))}


@pytest.mark.parametrize("path", CONTEXTS)
def test_the_name_of_an_option_is_the_name_of_its_variable(path, monkeypatch):
    ctx = CONTEXTS[path]
    options = [each for each in ctx.command.params if isinstance(each, click.Option)]
    variables = [variable_of(each, ctx.auto_envvar_prefix) for each in options]
    assert len(set(variables)) == len(options)
    for option, variable in zip(options, variables, strict=True):
        spelled = max(option.opts, key=len).removeprefix("--").replace("-", "_").upper()
        assert variable.endswith(f"_{spelled}")
        with monkeypatch.context() as environment:
            environment.setenv(variable, "given")
            assert [each for each in options if each.resolve_envvar_value(ctx) == "given"] == [option]


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
