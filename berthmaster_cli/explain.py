"""``berthmaster explain``: why one workload landed where it did, and why not elsewhere."""

import click
from rich.console import Console
from rich.markup import escape

from berthmaster.model.errors import InputError
from berthmaster.scheduling.decision import Mode
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.report import UNCLAIMED, ClaimRow, Explanation, explanation
from berthmaster.simulation.run import run
from berthmaster.simulation.world import ResourceName, SimulatedWorkload, World, world_of
from berthmaster_cli.console import output_option, print_data, stdout
from berthmaster_cli.federation import explain_in_federation, print_federation_explanation
from berthmaster_cli.group_table import print_group
from berthmaster_cli.inputs import (
    Remote,
    explain_remotely,
    input_options,
    now,
    profile,
    read_manifests,
    resource_name,
    server_options,
    workload_affinity_on,
)


@click.command()
@input_options
@server_options
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(0), help="Clusters to show of each group; 0 for all."
)
@output_option
@click.argument("resource", metavar="[NAMESPACE/]KIND/NAME")
def command(
    *,
    remote: Remote | None,
    paths: tuple[str, ...],
    replica_paths: tuple[str, ...],
    plugins: str,
    feature_gates: str,
    keep_empty: bool,
    limit: int,
    output: str,
    resource: str,
) -> None:
    """Show why one workload landed where it did, and why not elsewhere.

    Group by group and cluster by cluster: which plugin ruled it out, or what it scored, holds, weighs and got.
    """
    name = resource_name(resource)
    if remote is not None:
        _show(explain_remotely(remote, name), output, limit)
        return
    manifests, parsed_paths = read_manifests(paths, replica_paths)
    if manifests.federation.clusters:
        told = explain_in_federation(manifests, parsed_paths, name)
        print_federation_explanation(stdout(), told, limit) if output == "table" else print_data(told, output)
        return
    workload_affinity = workload_affinity_on(feature_gates)
    decide = profile(plugins, workload_affinity=workload_affinity, keep_empty=keep_empty)
    world = world_of(manifests, parsed_paths, workload_affinity=workload_affinity)
    _show(_explain_here(name, world, decide), output, limit)


def _show(explained: Explanation, output: str, limit: int) -> None:
    if output == "table":
        _print(stdout(), explained, limit)
    else:
        print_data(explained, output)


def _explain_here(name: ResourceName, world: World, decide: Profile) -> Explanation:
    found = world.find(name)
    if len(found) != 1:
        raise InputError(_not_one(str(name), found, world))
    # The others are scheduled as well: workload affinity looks at them.
    index = list(world.workloads).index(found[0])
    return explanation(run(world, decide, now(), diagnose=True)[1][index])


def _not_one(resource: str, found: list[SimulatedWorkload], world: World) -> str:
    if found:
        return f"{resource} means {', '.join(map(str, found))}; name it as NAMESPACE/KIND/NAME"
    known = ", ".join(str(workload) for workload in list(world.workloads)[:8])
    return f"there is no {resource} among the manifests" + (f"; known are {known}" if known else "")


def _print(console: Console, explained: Explanation, limit: int) -> None:
    diagnosis = explained.diagnosis
    console.print(f"[bold]{explained.resource}[/]", *_headline(explained), sep="  ")
    _print_claims(console, explained.claims)
    if explained.replicas is None:
        return
    if diagnosis is None:
        console.print(f"stays on {_told(explained.clusters)}: nothing triggers a rescheduling")
        return
    if diagnosis.skipped:
        console.print(f"[dim]the walk goes on after {', '.join(diagnosis.skipped)}, where the workload came from[/]")
    for group in diagnosis.groups:
        console.print()
        print_group(console, group, limit)
    if diagnosis.untried:
        console.print(f"\n[dim]not tried: {', '.join(diagnosis.untried)}[/]")
    if explained.error is not None:
        stays = f"; it stays on {_told(explained.clusters)}" if explained.clusters else ""
        console.print(f"\n[bold red]goes nowhere[/]: {escape(explained.message or '')}{stays}")
    else:
        console.print(f"\n[bold green]goes to[/] {_told(explained.clusters)}")


def _headline(explained: Explanation) -> list[str]:
    if explained.replicas is None:
        return [UNCLAIMED]
    replicas = f"{explained.replicas} replicas" if explained.replicated else "no replicas of its own"
    strategy = explained.diagnosis.strategy.value if explained.diagnosis is not None else ""
    trigger = f"{explained.trigger.value}{', all replicas anew' if explained.mode is Mode.FRESH else ''}"
    return [part for part in (replicas, strategy, trigger) if part]


def _print_claims(console: Console, claims: list[ClaimRow]) -> None:
    for place, claim in enumerate(claims):
        how = f"priority {claim.priority}, by {claim.matched_by}"
        console.print(f"claimed by {claim.policy} ({how})" if not place else f"[dim]not by {claim.policy} ({how})[/]")


def _told(assignment: dict[str, int]) -> str:
    return " ".join(f"{name}={count}" if count else name for name, count in assignment.items()) or "no cluster"
