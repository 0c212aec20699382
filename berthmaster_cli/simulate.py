"""``berthmaster simulate``: where workloads are placed, and what a change would move."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.change_set import PlanIndex, what_if
from berthmaster.simulation.changes import WhatIf
from berthmaster.simulation.losses import is_left
from berthmaster.simulation.plan_answer import Plan, Switch
from berthmaster.simulation.planner import plan_of_simulation, simulated
from berthmaster.simulation.report import row
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change, World, is_observed
from berthmaster_cli import change_options, inputs, tables
from berthmaster_cli.flags import option, options
from berthmaster_cli.idle_policies import report_idle_policies, written_policies
from berthmaster_cli.ignored import report_unused
from berthmaster_cli.kubeadmiral.options import FederationFlags
from berthmaster_cli.ledger_options import LedgerFlags
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.output import WorkloadOutputFlags, complain, echo, print_answer, print_line, styled
from berthmaster_cli.remote_extender import remote_from, report_gaps
from berthmaster_cli.scheduling_options import profile_from
from berthmaster_cli.source_options import AssumptionFlags, InputFlags, SharedCapacityFlags
from berthmaster_cli.watching import WatchFlags, watched

if TYPE_CHECKING:
    from berthmaster.native_api.client import Client

_CHECKS: Final = ("all", "new")
_TABLES: Final = frozenset({"table", "wide"})
_MAX_ROWS: Final = 100_000
"""The most rows that an extender lists."""
_EXIT_CODES: Final = "Exit codes: 0 success; 1 with --check, a workload lacks a place or replicas; 2 bad input."


class _SimulateFlags(
    InputFlags,
    AssumptionFlags,
    change_options.ChangeFlags,
    FederationFlags,
    SharedCapacityFlags,
    tables.ViewFlags,
    LedgerFlags,
    WorkloadOutputFlags,
    WatchFlags,
):
    all_namespaces: bool = option("Read all namespaces, which is the default.", names=("-A", "--all-namespaces"))
    check: str | None = option(
        "Exit with 1 if a workload cannot be scheduled, or if copies stop and nothing takes their place; with "
        "--check=new only if that is due to the changes. Workloads of schedulers that are not simulated do not count.",
        type=click.Choice(_CHECKS), is_flag=False, flag_value="all", metavar="[=new]",
    )  # fmt: skip
    jsonl: bool = option(
        "JSON Lines in, JSON Lines out: one fleet with its bindings per line of standard input (docs/simulate.md)."
    )


@click.command(epilog=f"{change_options.CHANGES_HELP} {tables.TRIGGERS_HELP} {_EXIT_CODES}")
@options(
    _SimulateFlags,
    server="the control plane to read",
    ledger="Record the decisions in this database, as the binding scheduler takes them",
)
@watched("dump", "jsonl", "ledger")
def command(flags: _SimulateFlags) -> None:
    """Show where workloads are placed, and what changes would move.

    Reads a control plane: Clusters, policies, bindings, and the resources that they name and select. With -f it reads
    manifests instead. With changes it prints what it assumes about failover and preemption, what stops, what moves, and
    what the clusters get. TYPE/NAME limits what is printed.

    \b
    Examples:
      berthmaster simulate --down member7
      berthmaster simulate -n shop --scale shop/deploy/checkout=20
      berthmaster simulate -f examples/karmada --reschedule
    """
    remote = remote_from(flags)
    profile = profile_from(flags)
    changes = change_options.changes_from(flags)
    _check_usage(flags, has_changes=bool(changes) or change_options.chooses_clusters(flags))
    if flags.jsonl:
        from berthmaster_cli.batch import answer_lines  # noqa: PLC0415 - a plain simulation needs neither
        from berthmaster_cli.kubeadmiral.lines import answer_federation  # noqa: PLC0415 - the same

        answer_lines(profile, {"object": answer_federation})
        return
    if remote is not None:
        all_placed = _simulate_remotely(remote, changes, flags)
    else:
        manifests = inputs.read_manifests(flags)
        changes = change_options.changes_from(flags, manifests.every_cluster)
        if manifests.federation.clusters:
            from berthmaster_cli.kubeadmiral.answers import simulate_federation  # noqa: PLC0415 - only KubeAdmiral needs it

            if flags.ledger is not None:
                raise InputError("--ledger records decisions for Karmada only, and this is a KubeAdmiral federation")
            view = tables.view_from(flags, manifests)
            all_placed = simulate_federation(
                manifests, flags.replica_fields, changes, flags.output, view, duplicate_limits=flags.duplicate_limits
            )
        else:
            world = inputs.present_world(manifests, flags)
            written = written_policies(manifests, flags.namespace)
            report_idle_policies(written, manifests.templates, manifests.bindings)
            all_placed = _simulate(world, manifests, changes, profile, flags)
    if flags.check and not all_placed:
        raise SystemExit(EXIT_CHECK_FAILED)


def _check_usage(flags: _SimulateFlags, *, has_changes: bool) -> None:
    if flags.namespace and flags.all_namespaces:
        raise click.UsageError("-n and -A cannot be combined")
    if flags.server and change_options.chooses_clusters(flags):
        raise click.UsageError("--server cannot be combined with patterns, regions and labels: name the clusters")
    if flags.jsonl and (flags.paths or has_changes):
        raise click.UsageError("--jsonl cannot be combined with -f and changes: it reads fleets from standard input")
    if flags.ledger is not None and (flags.jsonl or flags.shared_capacity or flags.server):
        raise click.UsageError("--ledger cannot be combined with --jsonl, --shared-capacity or --server")


def _simulate(
    world: World, manifests: Manifests, changes: Sequence[Change], profile: Profile, flags: _SimulateFlags
) -> bool:
    """Print the result of a simulation, and return whether the check succeeds."""
    edits = (*inputs.rebalances(manifests, world), *changes)
    now = inputs.time_of(manifests)
    changed = what_if(edits, world)
    found = simulated(world, changed, profile, now, shared_capacity=flags.shared_capacity)
    if flags.ledger is not None:
        from berthmaster_cli.recorded_simulation import record_simulation  # noqa: PLC0415 - only a ledger needs it

        record_simulation(world, edits, found.workloads, profile, now, flags.ledger)
    view, planned = tables.view_from(flags, manifests), found.workloads
    tables.require_known(view, [each.resource for each in planned])
    shown = {each.resource for each in planned if view.shows(each.resource, each.after.workload.labels)}
    if not shown and view.selector is not None and any(map(view.selector.matches, _cluster_labels(manifests))):
        complain("-l selects workloads, and only clusters have such labels; --down-selector chooses clusters")
    if flags.output in _TABLES:
        tables.print_preemption(manifests, world)
    if edits:
        gaps = [gap for gap in manifests.gaps if gap.changes_answers]
        answer = plan_of_simulation(
            PlanIndex(world, profile), changed, found,
            gaps=gaps, observed=is_observed(manifests, world), lists_all=_lists_all(view),
        )  # fmt: skip
        _print_changed(answer, shown, view, flags.output, flags.namespace)
        left = answer.summary.new_failures if flags.check == "new" else answer.unplaced
    else:
        rows = [row(each.settled or each.before, each.before) for each in planned if each.resource in shown]
        tables.print_results([each for each in rows if view.wants(fails=each.error is not None)], flags.output)
        left = [each.resource for each in planned if is_left(each, found.hosts) or each.after.has_no_place]
    if flags.output in _TABLES:
        report_unused(manifests)
    return not left


def _lists_all(view: tables.View) -> bool:
    """Return whether a view asks for workloads that changes do not concern."""
    return view.show_all or bool(view.names) or view.selector is not None or tables.Only.STAYS in view.only


def _print_changed(answer: Plan, shown: Collection[str], view: tables.View, output: str, namespace: str = "") -> None:
    """Print what changes stop and move. ``namespace``: the only one that was read; empty for all."""
    printed = view.of_plan(answer, shown)
    if output in _TABLES:
        if scope := tables.scope_of_totals(view, namespace):
            print_line(styled(scope, "dim"))
        tables.print_plan(printed, wide=output == "wide")
    elif output == "name":
        names = [*(each.resource for each in printed.unplaced), *(each.resource for each in printed.moves)]
        names += [each.resource for each in printed.staying] if _lists_all(view) else []
        for name in dict.fromkeys(names):
            echo(name)
    else:
        print_answer(tables.PLAN, printed, output)


def _cluster_labels(manifests: Manifests) -> Iterator[Mapping[str, str]]:
    return (each.metadata.labels for each in manifests.every_cluster)


def _simulate_remotely(remote: "Client", changes: Sequence[WhatIf], flags: _SimulateFlags) -> bool:
    """Print the result of a simulation by an extender, and return whether the check succeeds."""
    if flags.shared_capacity or flags.selector:
        raise click.UsageError("--server cannot be combined with --shared-capacity or -l")
    if not changes:
        raise click.UsageError("--server needs a change, such as --down CLUSTER: an extender says what changes move")
    view = tables.view_from(flags)
    from berthmaster.native_api.what_if import PlanRequest  # noqa: PLC0415 - imported only if it is used

    with remote as client:
        answer = client.plan(
            PlanRequest(
                changes=tuple(changes),
                limit=_MAX_ROWS,
                failover=Switch(flags.failover),
                preemption=Switch(flags.preemption),
            )
        )
    found, staleness = answer.plan, answer.staleness
    report_gaps(found.gaps, staleness)
    known = [*(each.resource for each in found.moves), *(each.resource for each in found.unplaced)]
    known += [each.resource for each in found.staying]
    for name in view.names:
        if not any(name.matches(ResourceName.parse(each)) for each in known):
            complain(f"{name} is not in the plan: the changes do not concern it, or the extender does not know it")
    _print_changed(found, {each for each in known if view.shows(each)}, view, flags.output)
    return not (found.summary.new_failures if flags.check == "new" else found.unplaced)
