"""The output of commands: tables for people, JSON and YAML for programs, errors on standard error."""

import sys
from collections.abc import Sequence
from typing import Final

import click
import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from berthmaster.model.decode import builtins

FORMATS: Final = ("table", "json", "yaml")
_PLAIN_WIDTH: Final = 160

output_option: Final = click.option(
    "-o", "--output", "output", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format.",
)  # fmt: skip


def stdout() -> Console:
    """Return standard output: in colour on a terminal unless NO_COLOR is set, and 160 columns wide in a pipe."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else _PLAIN_WIDTH, highlight=False, emoji=False, soft_wrap=False)


def stderr() -> Console:
    """Return standard error, for progress."""
    return Console(stderr=True, highlight=False, emoji=False)


def complain(message: str) -> None:
    """Print one line on standard error."""
    click.echo(f"berthmaster: {message}", err=True)


def print_data(data: object, output: str) -> None:
    """Print a value as JSON or YAML."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(builtins(data)), indent=2).decode())
    else:
        click.echo(yaml.safe_dump(builtins(data), sort_keys=False, allow_unicode=True), nl=False)


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without borders, like kubectl, and without columns that are empty in every row.

    Args:
        console: the output.
        columns: their names; ``NAME:right`` for numbers.
        rows: one cell for each column, with rich's markup.
    """
    used = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for name, _, align in (columns[index].partition(":") for index in used):
        table.add_column(name, justify="right" if align else "left", overflow="fold", no_wrap=bool(align))
    for row in rows:
        table.add_row(*(row[index] for index in used))
    console.print(table)
