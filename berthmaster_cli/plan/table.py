"""A plan as tables for a terminal."""

from typing import Final

from rich.console import Console
from rich.text import Text

from berthmaster.simulation.plan_answer import Plan
from berthmaster.views.plan_sections import INCOMPLETE, headline, sections
from berthmaster_cli.output import print_line, print_table, styled

_BAD: Final = {"no place", "too few replicas", "the change"}


def print_plan(console: Console, plan: Plan) -> None:
    """Print a plan: the headline with its id, what is not known, and the tables."""
    worst = bool(plan.summary.new_failures or plan.overcommitted)
    print_line(console, styled("Plan", "bold"), f" {plan.id}: ", styled(headline(plan), "bold red" if worst else ""))
    if not plan.complete:
        print_line(console, styled(INCOMPLETE, "bold red"))
        for gap in plan.gaps:
            print_line(console, f"not known: {gap}")
    for section in sections(plan):
        console.print()
        print_line(console, styled(section.title, "bold"))
        print_table(console, section.columns, [[_cell(cell) for cell in row] for row in section.rows])


def _cell(cell: str) -> str | Text:
    bad = cell in _BAD or cell.startswith("overcommitted:")
    return styled(cell, "bold red") if bad else cell
