"""The table of commands from which names and options complete. Writes it as a script."""

import click

from berthmaster.model.decode import encode_json
from berthmaster_cli.command_table import COMPLETERS, FILE, CommandRow, ParameterRow
from berthmaster_cli.main import main


def table() -> bytes:
    """Return the content of the table, one line for each command."""
    row = described(main)
    commands = b",\n".join(map(encode_json, row.commands))
    row.commands = []
    return encode_json(row)[:-1] + b',"commands":[\n' + commands + b"\n]}\n"


def described(command: click.Command, name: str = "", parent: click.Context | None = None) -> CommandRow:
    """Return the row of a command, with those of the commands below it."""
    context = click.Context(command, parent, name, **command.context_settings)
    row = CommandRow(name, command.get_short_help_str(), parameters=[*map(_row, command.params)])
    if parent is None:
        row.help_options = context.help_option_names
    if isinstance(command, click.Group):
        found = {below: command.get_command(context, below) for below in command.list_commands(context)}
        row.commands = [described(each, below, context) for below, each in found.items() if each and not each.hidden]
    return row


def _row(parameter: click.Parameter) -> ParameterRow:
    names = {function: name for name, function in COMPLETERS.items()}
    kind = parameter.type
    row = ParameterRow(
        parameter.name or "", nargs=parameter.nargs, multiple=parameter.multiple,
        variable=parameter.envvar if isinstance(parameter.envvar, str) else "",
        completer=names.get(parameter._custom_shell_complete, ""),  # noqa: SLF001 - click has no other way
        choices=[*kind.choices] if isinstance(kind, click.Choice) else [],
    )  # fmt: skip
    if isinstance(kind, click.Path):
        row.path = "file" if kind.file_okay else "dir"
    if isinstance(parameter, click.Option):
        row.opts, row.off, row.help = parameter.opts, parameter.secondary_opts, parameter.help or ""
        row.is_flag, row.count, row.hidden = parameter.is_flag, parameter.count, parameter.hidden
        row.value_is_optional = not row.is_flag and isinstance(parameter.flag_value, str)
    return row


if __name__ == "__main__":
    FILE.write_bytes(table())
