"""The summary of a plan and the table of clusters, for people."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from berthmaster.model.errors import name_list
from berthmaster.simulation.plan import ClusterTotal, PlanSummary
from berthmaster.views.texts import count_text, resource_text
from berthmaster_cli.output import print_line, print_table, styled

_COLUMNS: Final = ("CLUSTER", "REPLICAS:right", "ARRIVING:right", "CPU:right", "MEMORY:right", "")
_NAMED: Final = 5


def print_summary(console: Console, summary: PlanSummary) -> None:
    """Print what moves in total, as one sentence, then the workloads that are left without a place."""
    verb = "moves" if 1 in {summary.moved, summary.workloads} else "move"
    moved = f"{summary.moved} of {count_text(summary.workloads, 'workload')} {verb}"
    left: list[str | Text] = []
    for names, text in ((summary.nowhere, "left without a place"), (summary.short, "left with too few replicas")):
        if names:
            new = len(set(names) & set(summary.new_failures))
            some = f"{len(names) - new} of them " if new else ""
            before = "" if new == len(names) else f" ({some}also without the changes)"
            left += ["; ", styled(f"{len(names)} {text}", "bold red"), before]
    print_line(console, styled("Plan", "bold"), f": {moved}, {count_text(summary.replicas, 'replica')}", *left)
    if summary.new_failures:
        print_line(console, f"left by the changes: {name_list(summary.new_failures, _NAMED)}")


def print_clusters(console: Console, totals: Sequence[ClusterTotal], *, show_all: bool) -> None:
    """Print replicas and resources of the clusters that change; of all clusters on demand."""
    shown = [each for each in totals if show_all or each.before != each.after or each.arriving or each.overcommitted]
    if not shown:
        return
    rows = [
        (
            each.cluster,
            f"{each.before} → {each.after}" if each.before != each.after else str(each.after),
            str(each.arriving),
            _resource(each, "cpu"),
            _resource(each, "memory"),
            styled(f"overcommitted: {', '.join(each.overcommitted)}", "bold red") if each.overcommitted else "",
        )
        for each in shown
    ]
    console.print()
    print_table(console, _COLUMNS, rows)
    print_line(console, styled("CPU and MEMORY: what arriving replicas request / what is free now", "dim"))


def _resource(total: ClusterTotal, resource: str) -> str | Text:
    text = resource_text(total, resource)
    return styled(text, "bold red") if total.resources[resource].overcommitted else text
