"""``berthmaster simulate``: where workloads are placed, and what a change would move."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from berthmaster.model.cluster import EFFECTS, Taint
from berthmaster.model.meta import INT32_MAX
from berthmaster.model.selector import is_label_key, is_label_value
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.changes import AddLabel, AddTaint, Change, Down, Reschedule, Scale
from berthmaster.simulation.report import change_rows, rows
from berthmaster.simulation.run import compare, unplaced
from berthmaster.simulation.world import World
from berthmaster_cli.batch import answer_lines
from berthmaster_cli.console import output_option
from berthmaster_cli.federation import duplicate_limits_option, simulate_federation
from berthmaster_cli.inputs import (
    current_time,
    input_options,
    namespace_option,
    profile_from,
    remote_from,
    wire_change,
    workload_affinity_on,
)
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.names import resource_name
from berthmaster_cli.present import present_options, present_world, rebalances, report_unused
from berthmaster_cli.sources import read_manifests
from berthmaster_cli.tables import print_changes, print_results

if TYPE_CHECKING:
    from berthmaster_cli.inputs import Connect


@click.command(
    epilog="With --down, --taint, --label, --scale or --reschedule the command shows the placement before and after "
    "the change, and what moves. Workloads are rescheduled only where Karmada would reschedule them.",
)
@input_options
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Read all namespaces, which is the default.")
@present_options
@click.option("--down", multiple=True, metavar="CLUSTER", help="Change: the cluster is lost. Repeatable.")
@click.option(
    "--taint", multiple=True, metavar="CLUSTER=KEY[=VALUE]:EFFECT", help="Change: the cluster gets a taint. Repeatable."
)
@click.option(
    "--label", multiple=True, metavar="CLUSTER=KEY=VALUE", help="Change: the cluster gets a label. Repeatable."
)
@click.option(
    "--scale",
    multiple=True,
    metavar="[NAMESPACE/]KIND/NAME=N",
    help="Change: the workload gets N replicas. Repeatable.",
)
@click.option("--reschedule", is_flag=True, help="Change: every workload is rescheduled, as by a WorkloadRebalancer.")
@click.option("--check", is_flag=True, help="Exit with 1 if a workload that a policy claims cannot be scheduled.")
@click.option(
    "--jsonl",
    is_flag=True,
    help="JSON Lines in, JSON Lines out: one fleet with its bindings per line of standard input.",
)
@duplicate_limits_option
@output_option
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Show where workloads are placed, and what changes would move.

    Reads a control plane: Clusters, policies, bindings, and the resources that they name and select. With -f it reads
    manifests instead.
    """
    remote = remote_from(given)
    workload_affinity = workload_affinity_on(given["feature_gates"])
    profile = profile_from(given, workload_affinity=workload_affinity)
    changes = _changes(given)
    if given["namespace"] and given["all_namespaces"]:
        raise click.UsageError("-n and -A contradict each other")
    if given["jsonl"]:
        if given["paths"] or changes:
            raise click.UsageError(
                "--jsonl cannot be combined with -f and changes: it reads fleets from standard input"
            )
        answer_lines(profile)
        return
    if remote is not None:
        all_placed = _simulate_remotely(remote, changes, given["output"])
    else:
        manifests, replica_paths = read_manifests(given)
        if manifests.federation.clusters:
            all_placed = simulate_federation(
                manifests, replica_paths, changes, given["output"], duplicate_limits=given["duplicate_limits"]
            )
        else:
            world = present_world(manifests, replica_paths, given, workload_affinity=workload_affinity)
            now = manifests.read_at or current_time()
            all_placed = _simulate(world, [*rebalances(manifests, world), *changes], profile, given["output"], now)
            if given["output"] == "table":
                report_unused(manifests)
    if given["check"] and not all_placed:
        raise SystemExit(EXIT_CHECK_FAILED)


def _simulate(world: World, changes: Sequence[Change], profile: Profile, output: str, now: datetime) -> bool:
    """Print the result of a simulation, and return whether every workload is placed."""
    compared = compare(world, changes, profile, now)
    if changes:
        print_changes(change_rows(compared), output)
    else:
        print_results(rows(compared), output)
    return not unplaced(compared.after)


def _simulate_remotely(connect: "Connect", changes: Sequence[Change], output: str) -> bool:
    """Print the result of a simulation by an extender, and return whether every workload is placed."""
    with connect() as client:
        answer = client.simulate([wire_change(each) for each in changes], show_all=True)
    if changes:
        print_changes(answer.rows, output)
    else:
        print_results([each.before for each in answer.rows], output)
    return not answer.unplaced


def _changes(given: Mapping[str, Any]) -> list[Change]:
    """Return the changes in the order labels, taints, lost clusters, scales, rescheduling.

    Raises:
        click.UsageError: a change has an invalid form.
    """
    return [
        *(_label(text) for text in given["label"]),
        *(_taint(text) for text in given["taint"]),
        *(Down(name) for name in given["down"]),
        *(_scale(text) for text in given["scale"]),
        *([Reschedule()] if given["reschedule"] else []),
    ]


def _label(text: str) -> AddLabel:
    cluster, _, pair = text.partition("=")
    key, equals, value = pair.partition("=")
    if not (cluster and equals and is_label_key(key) and is_label_value(value)):
        raise click.UsageError(f"--label {text!r}: accepted is CLUSTER=KEY=VALUE, for example member1=env=prod")
    return AddLabel(cluster, key, value)


def _taint(text: str) -> AddTaint:
    cluster, _, rest = text.partition("=")
    pair, _, effect = rest.rpartition(":")
    key, _, value = pair.partition("=")
    if not (cluster and effect in EFFECTS and is_label_key(key) and is_label_value(value)):
        accepted = f"CLUSTER=KEY[=VALUE]:EFFECT, where the effect is one of {', '.join(EFFECTS)}"
        raise click.UsageError(f"--taint {text!r}: accepted is {accepted}")
    return AddTaint(cluster, Taint(key=key, value=value, effect=effect))


def _scale(text: str) -> Scale:
    name, _, number = text.rpartition("=")
    if not (name and number.isascii() and number.isdigit() and int(number) <= INT32_MAX):
        raise click.UsageError(f"--scale {text!r}: accepted is [NAMESPACE/]KIND/NAME=N, N from 0 to {INT32_MAX}")
    return Scale(resource_name(name), int(number))
