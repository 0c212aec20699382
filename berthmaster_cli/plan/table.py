"""A plan as tables for a terminal."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from berthmaster.manifests import Manifests
from berthmaster.model.claims import PolicyCatalog
from berthmaster.model.cluster import NO_EXECUTE
from berthmaster.model.errors import name_list
from berthmaster.simulation.changes import AddTaint
from berthmaster.simulation.detector import PolicyEdit, preemptors
from berthmaster.simulation.plan_answer import Assumptions, ClusterTotal, Loss, Plan, PlanSummary
from berthmaster.simulation.world import Change, World
from berthmaster.views.assumption_texts import preemption_line
from berthmaster.views.plan_sections import (
    INCOMPLETE,
    assumed,
    cluster_section,
    headline,
    left_behind,
    moved_text,
    opening,
    sections,
)
from berthmaster.views.texts import Section
from berthmaster_cli.output import print_line, print_table, styled


def print_plan(console: Console, plan: Plan) -> None:
    """Print a plan: the headline with its id, what is not known, and the tables."""
    for line in opening(plan):
        print_line(console, line)
    worst = bool(plan.summary.new_failures or plan.overcommitted)
    print_line(console, styled("Plan", "bold"), f" {plan.id}: ", styled(headline(plan), "bold red" if worst else ""))
    if not plan.complete:
        print_line(console, styled(INCOMPLETE, "bold red"))
        for gap in plan.gaps:
            print_line(console, f"not known: {gap}")
    for section in sections(plan):
        print_section(console, section)


def print_section(console: Console, section: Section) -> None:
    """Print a table with its title."""
    console.print()
    print_line(console, styled(section.title, "bold"))
    rows = [[styled(each.text, "bold red") if each.is_bad else each.text for each in row] for row in section.rows]
    print_table(console, section.columns, rows)


_NAMED: Final = 5


def print_assumptions(
    console: Console, assumptions: Assumptions, loss: Loss | None, moved: int, changes: Sequence[Change]
) -> None:
    """Print what the answer assumes about the control plane, and what stops running."""
    taints = any(isinstance(each, AddTaint) and each.taint.effect == NO_EXECUTE for each in changes)
    lines = assumed(assumptions, loss, moved, evicting_taints=taints)
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
    if shown:
        print_section(console, cluster_section(shown))
