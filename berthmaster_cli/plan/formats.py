"""The output formats of a plan."""

from collections.abc import Sequence
from typing import Final

from berthmaster.simulation.plan_answer import Plan
from berthmaster_cli.output import print_data, print_page, stdout
from berthmaster_cli.plan.markdown import markdown_lines
from berthmaster_cli.plan.page import page
from berthmaster_cli.plan.table import print_plan

FORMATS: Final = ("table", "json", "yaml", "markdown", "html")


def write(plan: Plan, output: str, problems: Sequence[str] = ()) -> None:
    """Print a plan on standard output, in one of ``FORMATS``.

    Args:
        plan: the plan.
        output: the format.
        problems: which limits the plan exceeds. Documents say it, because their readers do not see standard error.
    """
    match output:
        case "json" | "yaml":
            print_data(plan, output)
        case "markdown":
            print_page(markdown_lines(plan, problems))
        case "html":
            print_page(page(plan, problems))
        case _:
            print_plan(stdout(), plan)
