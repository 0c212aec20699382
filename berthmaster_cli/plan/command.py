"""The command ``berthmaster plan``."""

from collections.abc import Mapping
from typing import Any

import click

from berthmaster.model.errors import BerthmasterError
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.plan_index import PlanIndex
from berthmaster.simulation.planner import first_scheduled, plan
from berthmaster_cli.inputs import current_time, profile_from, scheduling_options, workload_affinity_on
from berthmaster_cli.options import kubeconfig_options
from berthmaster_cli.output import complain
from berthmaster_cli.plan.comment import SERVICES, write_comment
from berthmaster_cli.plan.formats import FORMATS, write
from berthmaster_cli.plan.inputs import read_input
from berthmaster_cli.plan.limits import CONDITIONS, EXIT_CODES_HELP, EXIT_ERROR, Limits, outcome
from berthmaster_cli.plan.markdown import markdown_lines
from berthmaster_cli.present import assumption_options, present_options

_NO_BINDINGS = "no bindings are known: the plan starts from a first scheduling of the manifests"
_NO_DATA = click.Path(allow_dash=True)


class _PlanCommand(click.Command):
    """A command that ends with 1 after an error: 2 means that something moves."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - click's
        try:
            return super().make_context(*args, **extra)
        except click.ClickException as error:
            error.exit_code = EXIT_ERROR  # type: ignore[misc]  # the only place that every caller reads
            raise

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.exit_code = EXIT_ERROR  # type: ignore[misc]  # the only place that every caller reads
            raise
        except BerthmasterError as error:
            complain(str(error))
            raise SystemExit(EXIT_ERROR) from None


@click.command(cls=_PlanCommand, epilog=EXIT_CODES_HELP)
@click.option(
    "-f", "--filename", "paths", multiple=True, type=_NO_DATA, metavar="PATH",
    help="The objects that would be applied: a file, a folder, or - for standard input. Repeatable.",
)  # fmt: skip
@click.option(
    "--delete", "deleted", multiple=True, metavar="[NAMESPACE/]KIND/NAME",
    help="An object that would be deleted: a policy, a cluster or a workload. Repeatable.",
)  # fmt: skip
@click.option(
    "--prune", is_flag=True,
    help="The policies and workloads that -l selects and that -f does not have would be deleted, too.",
)  # fmt: skip
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="With --prune: their labels, as in kubectl.")
@click.option(
    "--against", multiple=True, type=_NO_DATA, metavar="PATH",
    help="Read manifests, such as a dump of `berthmaster simulate --dump`, instead of a control plane. Repeatable.",
)  # fmt: skip
@kubeconfig_options("the control plane to read")
@click.option(
    "--read-timeout-s", type=click.FloatRange(1, 3600), default=120.0, show_default=True,
    help="The time limit for reading the control plane, in seconds.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True,
    help="Output format: markdown for a comment on a pull request, html for a page of its own.",
)  # fmt: skip
@click.option(
    "--comment", type=click.Choice(SERVICES),
    help="Also write the plan as a comment on the pull request (GitHub) or merge request (GitLab) of the CI job. A "
    "later plan replaces the comment. GITHUB_TOKEN or GITLAB_TOKEN has the token.",
)  # fmt: skip
@click.option("--detailed-exitcode", "detailed", is_flag=True, help="Exit with 2 if something moves.")
@click.option(
    "--fail-on", "conditions", multiple=True, type=click.Choice(CONDITIONS),
    help="Exit with 3 if a workload would have no place or too few replicas (lost), if any would move (moved), or if "
    "a cluster would be overcommitted (overcommit). Repeatable.",
)  # fmt: skip
@click.option("--max-moves", type=click.IntRange(min=0), metavar="N", help="Exit with 3 if more workloads would move.")
@click.option(
    "--max-percent", type=click.FloatRange(0, 100), metavar="P",
    help="Exit with 3 if a larger part of all workloads would move, in percent.",
)  # fmt: skip
@click.option(
    "--check", "expected_id", default="", metavar="ID", help="Exit with 3 if the plan is not the one with this id.",
)  # fmt: skip
@scheduling_options
@present_options
@assumption_options
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Show what a change of objects would move, before it is applied.

    Reads a control plane, or with --against files, and compares the workloads as they are with what they would be
    after the objects of -f are applied: policies, overrides, clusters and workloads. The id in the first line stands
    for the change and its effect; --check ID fails once the effect differs.

    \b
    Examples:
      berthmaster plan -f policy.yaml
      berthmaster plan --delete ClusterPropagationPolicy/default-all
      berthmaster plan --against examples -f examples-plan/nginx.yaml
    """
    found = _planned(given)
    limits = Limits(
        given["conditions"], given["max_moves"], given["max_percent"], given["expected_id"], given["detailed"]
    )
    exit_code, messages = outcome(found, limits)
    write(found, given["output"], messages)
    if given["comment"]:
        write_comment(given["comment"], markdown_lines(found, messages))
    for message in messages:
        complain(message)
    if exit_code:
        raise SystemExit(exit_code)


def _planned(given: Mapping[str, Any]) -> Plan:
    workload_affinity = workload_affinity_on(given["feature_gates"])
    profile = profile_from(given, workload_affinity=workload_affinity)
    read = read_input(given, workload_affinity=workload_affinity)
    now = read.manifests.read_at or current_time()
    world = read.world
    if not read.manifests.knows_bindings and world.workloads:
        complain(_NO_BINDINGS)
        world = first_scheduled(world, profile, now)
    return plan(PlanIndex(world, profile), read.changes, now, gaps=read.gaps)
