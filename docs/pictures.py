"""Draw the pictures of README.md from the output of the commands: ``make pictures``."""

import io
import shutil
import sys
from contextlib import chdir, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console

from berthmaster_cli import explain, output, simulate
from berthmaster_cli.output import styled
from berthmaster_cli.placement_tests import command as placement_tests

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
_COLUMNS = 118
_FAILING = """\
apiVersion: test.berthmaster.io/v1alpha1
kind: PlacementTest
metadata: {name: nginx survives the loss of its region}
fleet: fleet
failover: off
given: [{down: {region: cn-north}}]
expect:
- {workload: default/Deployment/nginx, group: dc-hongkong, clusters: {in: [member2]}, replicas: {atLeast: 2}}
"""


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
        with suppress(SystemExit):  # a test that fails
            command.main(line.split(), standalone_mode=False)
        output.print_line()
    console.save_svg(str(IMAGES / f"{name}.svg"), title=title)


def main() -> None:
    """Draw all pictures."""
    simulate.command.name, explain.command.name, placement_tests.command.name = "simulate", "explain", "test"
    fleet = "-f examples/karmada/clusters.yaml"
    with TemporaryDirectory() as folder:
        for each in ("clusters.yaml", "groups/nginx.yaml"):
            target = Path(folder, "fleet", Path(each).name)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / "examples" / "karmada" / each, target)
        Path(folder, "region.yaml").write_text(_FAILING)
        with chdir(folder):
            draw("test", "berthmaster test", [(placement_tests.command, "region.yaml")])
    draw(
        "story",
        "berthmaster",
        [
            (simulate.command, f"{fleet} -f examples/karmada/groups --down member1 --failover=on"),
            (explain.command, f"{fleet} -f examples/karmada/nowhere Deployment/trainer"),
        ],
    )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
