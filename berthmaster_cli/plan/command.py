"""The command ``berthmaster plan``."""

from typing import Any

import click

from berthmaster.manifests import Document
from berthmaster.model.errors import BerthmasterError
from berthmaster.runtime import traces
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.plan_index import PlanIndex
from berthmaster.simulation.planner import first_scheduled, plan
from berthmaster_cli.flags import options
from berthmaster_cli.inputs import current_time, profile_from, workload_affinity_on
from berthmaster_cli.output import complain
from berthmaster_cli.plan.comment import write_comment
from berthmaster_cli.plan.inputs import EXIT_CODES_HELP, EXIT_ERROR, Limits, PlanFlags, outcome, read_input, write
from berthmaster_cli.plan.markdown import markdown_lines

_NO_BINDINGS = "no bindings are known: the plan starts from a first scheduling of the manifests"


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
@options(PlanFlags, server="the control plane to read")
def command(flags: PlanFlags) -> None:
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
    with traces.span("plan"):
        found = planned(flags)
    limits = Limits(flags.conditions, flags.max_moves, flags.max_percent, flags.expected_id, flags.detailed)
    exit_code, messages = outcome(found, limits)
    write(found, flags.output, messages)
    if flags.comment is not None:
        write_comment(flags.comment, markdown_lines(found, messages))
    for message in messages:
        complain(message)
    if exit_code:
        raise SystemExit(exit_code)


def planned(flags: PlanFlags, known: list[Document] | None = None) -> Plan:
    """Return the plan that the options ask for."""
    workload_affinity = workload_affinity_on(flags.feature_gates)
    profile = profile_from(flags, workload_affinity=workload_affinity)
    with traces.inner_span("read"):
        read = read_input(flags, workload_affinity=workload_affinity, known=known)
    now = read.manifests.read_at or current_time()
    world = read.world
    if not read.manifests.knows_bindings and world.workloads:
        complain(_NO_BINDINGS)
        world = first_scheduled(world, profile, now)
    with traces.inner_span("decide"):
        return plan(PlanIndex(world, profile), read.changes, now, gaps=read.gaps)
