"""What completion knows of the commands: their names, options and arguments, in ``command_table.json``.

To import a command takes longer than a shell should wait. So ``make reference`` writes the table from the commands, and
completion makes commands from the table, which do nothing.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from berthmaster.model.decode import decode_json
from berthmaster_cli import completion

FILE: Final = Path(__file__).with_name("command_table.json")
COMPLETERS: Final[Mapping[str, Callable[..., Any]]] = {
    each: getattr(completion, each)
    for each in (
        "changed_clusters", "clusters", "contexts", "namespaces", "policies", "workload_and_cluster", "workloads"
    )
}  # fmt: skip
"""What completes the value of a parameter with names, by its name in the table."""


class ParameterRow(msgspec.Struct, omit_defaults=True):
    """An option, or an argument, which has no ``opts``.

    Attributes:
        off: the names that set a flag to false.
        value_is_optional: the option can stand without its value.
        path: "file" or "dir" if the value is one.
    """

    name: str
    opts: list[str] = []
    off: list[str] = []
    nargs: int = 1
    multiple: bool = False
    is_flag: bool = False
    count: bool = False
    value_is_optional: bool = False
    hidden: bool = False
    variable: str = ""
    path: str = ""
    choices: list[str] = []
    completer: str = ""
    help: str = ""


class CommandRow(msgspec.Struct, omit_defaults=True):
    name: str
    help: str = ""
    help_options: list[str] = []
    parameters: list[ParameterRow] = []
    commands: list["CommandRow"] = []


class _LateGroup(click.Group):
    """A group that makes a command when it is asked for."""

    def __init__(self, row: CommandRow, **more: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(row.name, **more)
        self._rows = {each.name: each for each in row.commands}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return [*self._rows]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        row = self._rows.get(cmd_name)
        return None if row is None else _command(row)


def load() -> click.Command:
    """Return the root command that the table describes."""
    return _command(decode_json(CommandRow, FILE.read_bytes()))


def _command(row: CommandRow) -> click.Command:
    common: dict[str, Any] = {"params": [*map(_parameter, row.parameters)], "short_help": row.help}
    if row.help_options:
        common["context_settings"] = {"help_option_names": row.help_options}
    return _LateGroup(row, **common) if row.commands else click.Command(row.name, **common)


def _parameter(row: ParameterRow) -> click.Parameter:
    common: dict[str, Any] = {"nargs": row.nargs, "type": _type(row), "shell_complete": COMPLETERS.get(row.completer)}
    if not row.opts:
        return click.Argument([row.name], required=False, **common)
    if row.is_flag:
        common = {"is_flag": True}
    elif row.count:
        common = {"count": True}
    elif row.value_is_optional:
        common |= {"is_flag": False, "flag_value": ""}
    option = click.Option(
        [row.name, *row.opts], multiple=row.multiple, hidden=row.hidden, help=row.help, envvar=row.variable or None,
        **common,
    )  # fmt: skip
    option.secondary_opts = row.off
    return option


def _type(row: ParameterRow) -> click.ParamType[Any] | None:
    if row.choices:
        return click.Choice(row.choices)
    return click.Path(file_okay=row.path == "file") if row.path else None
