"""Draw the pictures of README.md from the output of the commands: ``make pictures``."""

import io
import sys
from pathlib import Path

import click
from rich.console import Console

from berthmaster_cli import explain, output, simulate
from berthmaster_cli.output import styled

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
_COLUMNS = 118


def draw(name: str, title: str, calls: list[tuple[click.Command, str]]) -> None:
    """Run commands and save their output as ``docs/images/<name>.svg``."""
    console = Console(
        record=True,
        width=_COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        highlight=False,
        emoji=False,
        soft_wrap=True,
    )
    output.stdout = lambda: console
    for command, line in calls:
        output.print_line(styled("$", "bold cyan"), f" berthmaster {command.name} {line}")
        command.main(line.split(), standalone_mode=False)
        output.print_line()
    console.save_svg(str(IMAGES / f"{name}.svg"), title=title)


def main() -> None:
    """Draw all pictures."""
    simulate.command.name, explain.command.name = "simulate", "explain"
    fleet = "-f examples/clusters.yaml"
    draw(
        "story",
        "berthmaster",
        [
            (simulate.command, f"{fleet} -f examples/groups --down member1 --failover=on"),
            (explain.command, f"{fleet} -f examples/nowhere Deployment/trainer"),
        ],
    )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
