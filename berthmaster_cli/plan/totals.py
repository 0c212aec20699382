"""The summary of a plan and the table of clusters, for people."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from berthmaster.manifests import Manifests
from berthmaster.model.cluster import NO_EXECUTE
from berthmaster.model.errors import name_list
from berthmaster.model.holding import PolicyCatalog
from berthmaster.simulation.assumptions import Assumptions
from berthmaster.simulation.changes import AddTaint
from berthmaster.simulation.plan_answer import ClusterTotal, Loss, PlanSummary
from berthmaster.simulation.policy_edit import PolicyEdit, preemptors
from berthmaster.simulation.world import Change, World
from berthmaster.views.assumption_texts import eviction_line, loss_lines, preemption_line
from berthmaster.views.cells import numbers
from berthmaster.views.plan_sections import left_behind, moved_text
from berthmaster.views.texts import resource_text
from berthmaster_cli.output import print_line, print_table, styled

_ARRIVING: Final = numbers("ARRIVING")
_COLUMNS: Final = ("CLUSTER", numbers("REPLICAS"), _ARRIVING, numbers("CPU"), numbers("MEMORY"), "")
_LEGEND: Final = "CPU and MEMORY: what arriving replicas request / what is free now"
_UNOBSERVED: Final = (
    "CPU and MEMORY: what all replicas request / what is free. No bindings: it is not known what clusters run already"
)
_NAMED: Final = 5


def print_assumptions(
    console: Console, assumptions: Assumptions, loss: Loss | None, moved: int, changes: Sequence[Change]
) -> None:
    """Print what the answer assumes about the control plane, and what stops running.

    Args:
        console: where to print.
        assumptions: what the answer assumes.
        loss: what stops running; None if no cluster is lost or deleted.
        moved: the number of workloads that move.
        changes: the changes.
    """
    lines = list(loss_lines(assumptions, loss, moved)) if loss is not None else []
    taints = any(isinstance(each, AddTaint) and each.taint.effect == NO_EXECUTE for each in changes)
    if taints:
        lines.insert(0, eviction_line(assumptions, evicts=True))
    for number, line in enumerate(lines):
        print_line(console, styled(line, "bold") if not number else line)


def print_preemption(console: Console, manifests: Manifests, world: World) -> None:
    """Print what an answer assumes about preemption, if a policy of a file can take workloads over."""
    edits = [PolicyEdit(before, after) for before, after in manifests.policy_edits]
    catalog = PolicyCatalog(manifests.policies)
    if any(each.has_effect and any(True for _ in preemptors(each, catalog)) for each in edits):
        print_line(console, preemption_line(world.assumptions))


def print_summary(console: Console, summary: PlanSummary) -> None:
    """Print what moves in total, as one sentence, then the workloads that are left without a place."""
    left: list[str | Text] = []
    for each in left_behind(summary):
        left += ["; ", styled(f"{each.workloads} {each.text}", "bold red"), each.also]
    print_line(console, styled("Plan", "bold"), f": {moved_text(summary)}", *left)
    if summary.new_failures:
        print_line(console, f"left by the changes: {name_list(summary.new_failures, _NAMED)}")


def print_clusters(console: Console, totals: Sequence[ClusterTotal], *, show_all: bool) -> None:
    """Print replicas and resources of the clusters that change; of all clusters on demand."""
    shown = [each for each in totals if show_all or each.before != each.after or each.arriving or each.overcommitted]
    if not shown:
        return
    observed = all(each.arriving is not None for each in shown)
    rows = [
        (
            each.cluster,
            f"{each.before} → {each.after}" if each.before != each.after else str(each.after),
            *([str(each.arriving)] if observed else []),
            _resource(each, "cpu"),
            _resource(each, "memory"),
            styled(f"overcommitted: {', '.join(each.overcommitted)}", "bold red") if each.overcommitted else "",
        )
        for each in shown
    ]
    console.print()
    print_table(console, _COLUMNS if observed else [each for each in _COLUMNS if each != _ARRIVING], rows)
    print_line(console, styled(_LEGEND if observed else _UNOBSERVED, "dim"))


def _resource(total: ClusterTotal, resource: str) -> str | Text:
    text = resource_text(total, resource)
    return styled(text, "bold red") if total.resources[resource].overcommitted else text
