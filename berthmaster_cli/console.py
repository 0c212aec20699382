"""What commands print: tables for people, JSON and YAML for programs, complaints on stderr."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from berthmaster.model.decode import builtins

FORMATS: Final = ("table", "json", "yaml")
_PLAIN_WIDTH: Final = 160


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``-o``, the same for all commands."""
    option = click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )
    return option(command)


def stdout() -> Console:
    """Standard output: colours on a terminal only and never with NO_COLOR; wide enough for a table in a pipe."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else _PLAIN_WIDTH, highlight=False, emoji=False, soft_wrap=False)


def stderr() -> Console:
    """Standard error, for progress."""
    return Console(stderr=True, highlight=False, emoji=False)


def complain(message: str) -> None:
    """One line on stderr."""
    click.echo(f"berthmaster: {message}", err=True)


def print_data(data: object, output: str) -> None:
    """A value as JSON or YAML."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(builtins(data)), indent=2).decode())
    else:
        click.echo(yaml.safe_dump(builtins(data), sort_keys=False, allow_unicode=True), nl=False)


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without frames, as kubectl does; a column in which nothing stands is left out.

    Args:
        console: where to.
        columns: their names; ``NAME:right`` for numbers.
        rows: a cell for each column, with rich's markup.
    """
    told = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for name, _, align in (columns[index].partition(":") for index in told):
        made.add_column(name, justify="right" if align else "left", overflow="fold", no_wrap=bool(align))
    for row in rows:
        made.add_row(*(row[index] for index in told))
    console.print(made)
