"""``berthmaster explain``: why a workload is placed where it is, and why not elsewhere."""

from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.policy import DEFAULT_SCHEDULER
from berthmaster.scheduling.decision import Mode
from berthmaster.scheduling.diagnosis import Diagnosis
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.report import Explanation, explanation
from berthmaster.simulation.run import explained
from berthmaster.simulation.world import ResourceName, SimulatedWorkload, World
from berthmaster_cli.console import output_option, print_data, print_line, stdout, styled
from berthmaster_cli.federation import duplicate_limits_option, explain_in_federation, print_federation_explanation
from berthmaster_cli.inputs import (
    current_time,
    explain_remotely,
    input_options,
    namespace_option,
    profile_from,
    remote_from,
    workload_affinity_on,
)
from berthmaster_cli.names import completed_types, name_in, resource_argument
from berthmaster_cli.present import present_options, present_world
from berthmaster_cli.sources import read_workload_manifests
from berthmaster_cli.tables import assignment_text, print_group, without_zeros


@click.command()
@input_options
@present_options
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(0),
    help="The number of clusters to show for each group; 0 for all.",
)  # fmt: skip
@duplicate_limits_option
@output_option
@namespace_option
@click.argument("resource", metavar="TYPE/NAME", nargs=-1, required=True, shell_complete=completed_types)
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
        explained = explain_in_federation(manifests, replica_paths, name, duplicate_limits=given["duplicate_limits"])
        print_federation_explanation(stdout(), explained, limit) if output == "table" else print_data(explained, output)
        return
    profile = profile_from(given, workload_affinity=workload_affinity)
    world = present_world(manifests, replica_paths, given, workload_affinity=workload_affinity)
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
    return explanation(*explained(world, found[0], profile, now))


def _not_one(resource: str, found: list[SimulatedWorkload], world: World) -> str:
    if found:
        return f"{resource} is ambiguous: {', '.join(map(str, found))}; name it as NAMESPACE/KIND/NAME"
    known = name_list([str(workload) for workload in world.workloads])
    return f"the manifests contain no {resource}" + (f"; known are {known}" if known else "")


def _print(console: Console, explained: Explanation, limit: int) -> None:
    print_line(console, styled(explained.resource, "bold"), *(f"  {part}" for part in _headline(explained)))
    _print_claims(console, explained)
    _print_companions(console, explained)
    for note in explained.notes:
        print_line(console, styled(note, "dim"))
    if explained.diagnosis is not None:
        _print_diagnosis(console, explained.diagnosis, limit)
    result = _result(explained)
    if result:
        print_line(console, *result)


def _print_diagnosis(console: Console, diagnosis: Diagnosis, limit: int) -> None:
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


def _result(explained: Explanation) -> tuple[str | Text, ...]:
    """Return the last line: where the workload is or goes, and why; empty if nothing places it."""
    clusters = assignment_text(without_zeros(explained.clusters)) or "no cluster"
    if explained.follows and explained.replicas is None:
        return (f"follows to {clusters}",)
    if explained.not_scheduled is not None:
        return (f"stays on {clusters}: {explained.message or ''}",) if explained.replicas is not None else ()
    if explained.error is None and explained.trigger is Trigger.NONE:
        return (f"stays on {clusters}: nothing triggers rescheduling",)
    if explained.error is not None or not explained.clusters:
        failed = len(explained.diagnosis.groups) if explained.diagnosis is not None else 0
        reason = f"none of the {failed} groups that were tried can place it" if failed > 1 else explained.message or ""
        stays = f"; stays on {clusters}" if explained.clusters else ""
        return styled("not scheduled", "bold red"), f": {reason}{stays}"
    moves = explained.present is not None and explained.present != explained.clusters
    now = assignment_text(without_zeros(explained.present or {})) or "no cluster"
    return styled("scheduled to", "bold green"), f" {clusters}{f'; now on {now}' if moves else ''}"


def _headline(explained: Explanation) -> list[str]:
    if explained.replicas is None:
        return [explained.message or ""]
    replicas = f"{explained.replicas} replicas" if explained.replicated else "no replicas"
    strategy = explained.diagnosis.strategy.value if explained.diagnosis is not None else ""
    trigger = "" if explained.trigger is Trigger.NONE else explained.trigger.value
    fresh = ", all replicas reassigned" if explained.mode is Mode.FRESH else ""
    return [part for part in (replicas, strategy, f"{trigger}{fresh}") if part]


def _print_claims(console: Console, explained: Explanation) -> None:
    if explained.policy is not None and not any(claim.holds for claim in explained.claims):
        print_line(console, f"claimed by {explained.policy}")
    for claim in explained.claims:
        how = f"{claim.policy} (priority {claim.priority}, by {claim.matched_by})"
        if claim.holds:
            print_line(console, f"claimed by {how}")
        else:
            reason = f": {claim.why_not}" if claim.why_not else ""
            print_line(console, styled(f"also matches {how}{reason}", "dim"))
    if explained.scheduler not in {None, DEFAULT_SCHEDULER}:
        print_line(console, f"scheduled by {explained.scheduler}")


def _print_companions(console: Console, explained: Explanation) -> None:
    for text, names in (
        ("follows", explained.follows),
        ("followed by", explained.followed_by),
        ("needs, not among the input:", explained.missing),
    ):
        if names:
            print_line(console, f"{text} {', '.join(names)}")
