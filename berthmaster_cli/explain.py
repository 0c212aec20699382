"""``berthmaster explain``: why a workload is placed where it is, and why not elsewhere."""

from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError, name_list
from berthmaster.scheduling.decision import Mode
from berthmaster.scheduling.diagnosis import Diagnosis
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.report import UNCLAIMED, ClaimRow, Explanation, explanation
from berthmaster.simulation.run import run
from berthmaster.simulation.world import ResourceName, SimulatedWorkload, World, world_of
from berthmaster_cli.console import output_option, print_data, print_line, stdout, styled
from berthmaster_cli.federation import explain_in_federation, print_federation_explanation
from berthmaster_cli.inputs import (
    current_time,
    explain_remotely,
    input_options,
    namespace_option,
    profile_from,
    remote_from,
    workload_affinity_on,
)
from berthmaster_cli.names import name_in, resource_argument
from berthmaster_cli.sources import read_workload_manifests
from berthmaster_cli.tables import assignment_text, print_group, without_zeros


@click.command()
@input_options
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(0),
    help="The number of clusters to show for each group; 0 for all.",
)  # fmt: skip
@output_option
@namespace_option
@click.argument("resource", metavar="TYPE/NAME", nargs=-1, required=True)
def command(*, resource: tuple[str, ...], limit: int, output: str, **given: Any) -> None:  # noqa: ANN401 - click's values
    """Show why one workload is placed where it is, and why not elsewhere.

    TYPE/NAME is as in kubectl, for example deploy/checkout or deployments.apps/checkout. Also accepted are TYPE NAME
    and NAMESPACE/TYPE/NAME. Reads a control plane; with -f it reads manifests instead.

    For each group and cluster: the plugin that rejected it, or its score, current replicas, weight and result.
    """
    remote = remote_from(given)
    name = resource_argument(resource, given["namespace"])
    workload_affinity = workload_affinity_on(given["feature_gates"])
    if remote is not None:
        _show(explain_remotely(remote, name_in(Manifests(), name, given["namespace"])), output, limit)
        return
    manifests, replica_paths, name = read_workload_manifests(given, name, workload_affinity=workload_affinity)
    if manifests.federation.clusters:
        explained = explain_in_federation(manifests, replica_paths, name)
        print_federation_explanation(stdout(), explained, limit) if output == "table" else print_data(explained, output)
        return
    profile = profile_from(given, workload_affinity=workload_affinity)
    world = world_of(manifests, replica_paths, workload_affinity=workload_affinity)
    _show(_explain(name, world, profile, manifests.read_at or current_time()), output, limit)


def _show(explained: Explanation, output: str, limit: int) -> None:
    if output == "table":
        _print(stdout(), explained, limit)
    else:
        print_data(explained, output)


def _explain(name: ResourceName, world: World, profile: Profile, now: datetime) -> Explanation:
    found = world.find(name)
    if len(found) != 1:
        raise InputError(_not_one(str(name), found, world))
    # All workloads are scheduled, because workload affinity depends on the others.
    index = list(world.workloads).index(found[0])
    return explanation(run(world, profile, now, diagnose=True)[1][index])


def _not_one(resource: str, found: list[SimulatedWorkload], world: World) -> str:
    if found:
        return f"{resource} is ambiguous: {', '.join(map(str, found))}; name it as NAMESPACE/KIND/NAME"
    known = name_list([str(workload) for workload in world.workloads])
    return f"the manifests contain no {resource}" + (f"; known are {known}" if known else "")


def _print(console: Console, explained: Explanation, limit: int) -> None:
    diagnosis = explained.diagnosis
    clusters = assignment_text(without_zeros(explained.clusters)) or "no cluster"
    print_line(console, styled(explained.resource, "bold"), *(f"  {part}" for part in _headline(explained)))
    _print_claims(console, explained.claims)
    if explained.replicas is None:
        return
    if diagnosis is None:
        print_line(console, f"stays on {clusters}: nothing triggers rescheduling")
        return
    if diagnosis.skipped:
        current = diagnosis.groups[0].group if diagnosis.groups else None
        from_current = f"the current assignment comes from group {current}; " if current else ""
        skipped = ", ".join(diagnosis.skipped)
        print_line(console, styled(f"{from_current}groups before it, not tried: {skipped}", "dim"))
    for group in diagnosis.groups:
        console.print()
        print_group(console, group, limit)
    console.print()
    if diagnosis.untried:
        print_line(console, styled(f"groups not tried: {', '.join(diagnosis.untried)}", "dim"))
        console.print()
    print_line(console, *_last_line(explained, diagnosis, clusters))


def _last_line(explained: Explanation, diagnosis: Diagnosis, clusters: str) -> tuple[Text, str]:
    if explained.error is None and explained.clusters:
        return styled("scheduled to", "bold green"), f" {clusters}"
    failed = len(diagnosis.groups)
    reason = f"none of the {failed} groups that were tried can place it" if failed > 1 else explained.message or ""
    stays = f"; stays on {clusters}" if explained.clusters else ""
    return styled("not scheduled", "bold red"), f": {reason}{stays}"


def _headline(explained: Explanation) -> list[str]:
    if explained.replicas is None:
        return [UNCLAIMED]
    replicas = f"{explained.replicas} replicas" if explained.replicated else "no replicas"
    strategy = explained.diagnosis.strategy.value if explained.diagnosis is not None else ""
    trigger = f"{explained.trigger.value}{', all replicas reassigned' if explained.mode is Mode.FRESH else ''}"
    return [part for part in (replicas, strategy, trigger) if part]


def _print_claims(console: Console, claims: list[ClaimRow]) -> None:
    for place, claim in enumerate(claims):
        how = f"priority {claim.priority}, by {claim.matched_by}"
        text = f"also matches {claim.policy} ({how})" if place else f"claimed by {claim.policy} ({how})"
        print_line(console, styled(text, "dim" if place else ""))
