"""``berthmaster simulate``: where workloads are placed, and what a change would move."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError
from berthmaster.native_api.what_if import SimulateAnswer, simulate_answer
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.losses import is_left
from berthmaster.simulation.plan_answer import Switch
from berthmaster.simulation.planner import planned_fleet
from berthmaster.simulation.report import row
from berthmaster.simulation.run import PlannedWorkload, WorkloadResult
from berthmaster.simulation.world import Change, World, is_observed
from berthmaster_cli import change_options, inputs, tables
from berthmaster_cli.flags import option, options
from berthmaster_cli.idle_policies import report_idle_policies, written_policies
from berthmaster_cli.ignored import report_unused
from berthmaster_cli.ledger_options import LedgerFlags
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.output import WorkloadOutputFlags, complain, print_data

if TYPE_CHECKING:
    from berthmaster.native_api.client import Client

_CHECKS: Final = ("all", "new")
_EXIT_CODES: Final = "Exit codes: 0 success; 1 with --check, a workload lacks a place or replicas; 2 bad input."


class _SimulateFlags(
    inputs.InputFlags,
    inputs.AssumptionFlags,
    change_options.ChangeFlags,
    inputs.SharedCapacityFlags,
    tables.ViewFlags,
    LedgerFlags,
    WorkloadOutputFlags,
):
    all_namespaces: bool = option("Read all namespaces, which is the default.", names=("-A", "--all-namespaces"))
    check: str | None = option(
        "Exit with 1 if a workload cannot be scheduled, or if copies stop and nothing takes their place; with "
        "--check=new only if that is due to the changes. Workloads of schedulers that are not simulated do not count.",
        type=click.Choice(_CHECKS), is_flag=False, flag_value="all", metavar="[=new]",
    )  # fmt: skip
    summary: bool = option(
        "With changes and -o json|yaml: print an object with assumptions, loss, plan, clusters and workloads."
    )
    jsonl: bool = option(
        "JSON Lines in, JSON Lines out: one fleet with its bindings per line of standard input (docs/simulate.md)."
    )


@click.command(epilog=f"{change_options.CHANGES_HELP} {tables.TRIGGERS_HELP} {_EXIT_CODES}")
@options(
    _SimulateFlags,
    server="the control plane to read",
    ledger="Record the decisions in this database, as the binding scheduler takes them",
)
def command(flags: _SimulateFlags) -> None:
    """Show where workloads are placed, and what changes would move.

    Reads a control plane: Clusters, policies, bindings, and the resources that they name and select. With -f it reads
    manifests instead. With changes it prints what it assumes about failover and preemption, what stops, what moves, and
    what the clusters get. TYPE/NAME limits what is printed.

    \b
    Examples:
      berthmaster simulate --down member7
      berthmaster simulate -n shop --scale shop/deploy/checkout=20
      berthmaster simulate -f examples --reschedule
    """
    remote = inputs.remote_from(flags)
    profile = inputs.profile_from(flags)
    changes = change_options.changes_from(flags)
    _check_usage(flags, has_changes=bool(changes) or change_options.chooses_clusters(flags))
    if flags.jsonl:
        from berthmaster_cli.batch import answer_lines  # noqa: PLC0415 - a plain simulation needs neither

        answer_lines(profile)
        return
    if remote is not None:
        all_placed = _simulate_remotely(remote, changes, flags)
    else:
        manifests = inputs.read_manifests(flags)
        changes = change_options.changes_from(flags, manifests.every_cluster)
        if manifests.federation.clusters:
            from berthmaster_cli.federation import simulate_federation  # noqa: PLC0415 - only KubeAdmiral needs it

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
    if flags.summary and flags.output not in {"json", "yaml"}:
        raise click.UsageError("--summary needs -o json or -o yaml; tables of changes always have it")
    if flags.ledger is not None and (flags.jsonl or flags.shared_capacity or flags.server):
        raise click.UsageError("--ledger cannot be combined with --jsonl, --shared-capacity or --server")


def _simulate(
    world: World, manifests: Manifests, changes: Sequence[Change], profile: Profile, flags: _SimulateFlags
) -> bool:
    """Print the result of a simulation, and return whether the check succeeds."""
    edits = (*inputs.rebalances(manifests, world), *changes)
    now = manifests.read_at or inputs.current_time()
    fleet = planned_fleet(world, ChangeSet(edits=edits), profile, now, shared_capacity=flags.shared_capacity)
    if flags.ledger is not None:
        from berthmaster_cli.recorded_simulation import record_simulation  # noqa: PLC0415 - only a ledger needs it

        record_simulation(world, edits, fleet.workloads, profile, now, flags.ledger)
    view, planned = tables.view_from(flags, manifests), fleet.workloads
    tables.require_known(view, [each.resource for each in planned])
    shown = {each.resource for each in planned if view.shows(each.resource, _labels(each.after))}
    if not shown and view.selector is not None and any(map(view.selector.matches, _cluster_labels(manifests))):
        complain("-l selects workloads, and only clusters have such labels; --down-selector chooses clusters")
    if flags.output in {"table", "wide"}:
        tables.print_preemption(manifests, world)
    if edits:
        answer = simulate_answer(fleet, show_all=True, observed=is_observed(manifests, world))
        _print_changed(answer, shown, edits, view, flags)
    else:
        rows = [row(each.settled or each.before, each.before) for each in planned if each.resource in shown]
        tables.print_results(view.of_results(rows), flags.output)
    if flags.output in {"table", "wide"}:
        report_unused(manifests)
    only_new = flags.check == "new"
    return not any(is_left(each, fleet.hosts) or _is_unplaced(each, only_new=only_new) for each in planned)


def _is_unplaced(planned: PlannedWorkload, *, only_new: bool) -> bool:
    """Return whether a workload cannot be scheduled, or is stuck, with ``only_new`` by the changes."""
    after, settled = planned.after, planned.settled
    if only_new and settled is not None and (settled.failure is not None or settled.is_stuck):
        return False
    return after.failure is not None or after.is_stuck


def _print_changed(
    answer: SimulateAnswer, shown: Collection[str], changes: Sequence[Change], view: tables.View, flags: _SimulateFlags
) -> None:
    """Print what changes stop and move: the assumptions, the summary, the workloads to show, and the clusters."""
    output = flags.output
    is_table = output in {"table", "wide"}
    rows = [each for each in answer.rows if each.resource in shown]
    printed = view.of_changes(rows, table=is_table or output == "name")
    if flags.summary:
        about = {"assumptions": answer.assumptions, "loss": answer.loss, "plan": answer.plan}
        print_data({**about, "clusters": answer.clusters, "workloads": printed}, output)
        return
    if is_table:
        tables.print_assumptions(answer.assumptions, answer.loss, answer.moved, changes)
        tables.print_summary(answer.plan)
    if printed or not is_table:
        tables.print_changes(printed, output)
    if is_table:
        tables.print_clusters(answer.clusters, show_all=view.show_all or output == "wide")


def _labels(result: WorkloadResult) -> Mapping[str, str]:
    metadata = (result.workload.template or {}).get("metadata") or {}
    return metadata.get("labels") or {}


def _cluster_labels(manifests: Manifests) -> Iterator[Mapping[str, str]]:
    return (each.metadata.labels for each in manifests.every_cluster)


def _simulate_remotely(remote: "Client", changes: Sequence[Change], flags: _SimulateFlags) -> bool:
    """Print the result of a simulation by an extender, and return whether the check succeeds."""
    if flags.shared_capacity or flags.selector:
        raise click.UsageError("--server cannot be combined with --shared-capacity or -l")
    view, output = tables.view_from(flags), flags.output
    from berthmaster.native_api.what_if import wire_change  # noqa: PLC0415 - imported only if it is used

    with remote as client:
        answer = client.simulate(
            [wire_change(each) for each in changes],
            show_all=True,
            failover=Switch(flags.failover),
            preemption=Switch(flags.preemption),
        )
    inputs.report_gaps(answer.gaps, answer.staleness)
    tables.require_known(view, [each.resource for each in answer.rows])
    shown = [each for each in answer.rows if view.shows(each.resource)]
    if changes:
        _print_changed(answer, {each.resource for each in shown}, changes, view, flags)
    else:
        tables.print_results(view.of_results([each.before for each in shown]), output)
    if flags.check == "new":
        return not any(each.left for each in answer.rows)
    return not answer.unplaced
