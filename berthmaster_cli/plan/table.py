"""A plan as tables for a terminal."""

from rich.console import Console

from berthmaster.simulation.plan_answer import Plan
from berthmaster.views.cells import Section
from berthmaster.views.plan_sections import INCOMPLETE, headline, opening, sections
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
