"""``berthmaster explain``: why one workload landed where it did, and why not elsewhere."""

from collections import Counter
from typing import Final

import click
from rich.console import Console
from rich.markup import escape

from cli.console import output_option, print_data, print_table, stdout
from cli.inputs import input_options, now, profile, read_world, resource_name, workload_affinity_on
from cli.remote import Remote, explain_remotely, server_options
from extender.scheduling.decision import FailureKind, Mode
from extender.scheduling.diagnosis import ClusterDiagnosis, GroupDiagnosis, Outcome
from extender.simulation.report import UNCLAIMED, ClaimRow, Explanation, explanation
from extender.simulation.run import run
from extender.simulation.world import ResourceName, Workload, World
from fleet.errors import InputError

_STYLES: Final = {
    Outcome.ASSIGNED: "green",
    Outcome.NO_REPLICAS: "yellow",
    Outcome.NOT_SELECTED: "yellow",
    Outcome.REJECTED: "red",
}
_BEST_FIRST: Final = (Outcome.ASSIGNED, Outcome.NO_REPLICAS, Outcome.NOT_SELECTED, Outcome.REJECTED)


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
        explained = explain_remotely(remote, name)
    else:
        explained = _explain_here(
            name, paths, replica_paths, plugins=plugins, feature_gates=feature_gates, keep_empty=keep_empty
        )
    if output == "table":
        _print(stdout(), explained, limit)
    else:
        print_data(explained, output)


def _explain_here(
    name: ResourceName,
    paths: tuple[str, ...],
    replica_paths: tuple[str, ...],
    *,
    plugins: str,
    feature_gates: str,
    keep_empty: bool,
) -> Explanation:
    workload_affinity = workload_affinity_on(feature_gates)
    world, _ = read_world(paths, replica_paths, workload_affinity=workload_affinity)
    found = world.find(name)
    if len(found) != 1:
        raise InputError(_not_one(str(name), found, world))
    # The others are scheduled as well: workload affinity looks at them.
    decide = profile(plugins, workload_affinity=workload_affinity, keep_empty=keep_empty)
    index = list(world.workloads).index(found[0])
    return explanation(run(world, decide, now(), diagnose=True)[1][index])


def _not_one(resource: str, found: list[Workload], world: World) -> str:
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
        _print_group(console, group, limit)
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


def _print_group(console: Console, group: GroupDiagnosis, limit: int) -> None:
    title = f"group {group.group}" if group.group else "all clusters"
    console.print(f"[bold]{title}[/] {_verdict(group)}")
    shown = sorted(
        group.clusters, key=lambda each: (_BEST_FIRST.index(each.outcome), -(each.replicas or 0), each.cluster)
    )
    limit = limit or len(shown)
    columns = ("CLUSTER", "RESULT", "REPLICAS:right", "NOW:right", "ROOM:right", "SCORE:right", "WEIGHT:right", "WHY")
    print_table(console, columns, [_cells(each, group) for each in shown[:limit]])
    hidden = shown[limit:]
    if hidden:
        console.print(f"[dim]and {len(hidden)} more: {_counted(hidden)} (--limit 0 shows all)[/]")


def _verdict(group: GroupDiagnosis) -> str:
    if group.failure is None:
        return "[green]taken[/]"
    nothing_fits = group.failure.kind is FailureKind.NO_FIT
    counts = ", ".join(f"{plugin} {count}" for plugin, count in group.rejected_by() if nothing_fits)
    return f"[red]left[/]: {escape(group.failure.message)}{f' ({counts})' if counts else ''}"


def _cells(each: ClusterDiagnosis, group: GroupDiagnosis) -> tuple[str, ...]:
    def number(value: int | None) -> str:
        return "" if value is None else str(value)

    why = "; ".join(f"{rejection.plugin}: {rejection.reason}" for rejection in each.rejections)
    if not why and group.failure is None:
        why = each.reason  # the failure of a whole group stands above its table
    room = "" if each.capacity is None else f"{each.capacity} ({each.bound_by})"
    score = str(sum(each.scores.values()) or "") if each.scores else ""
    style = _STYLES[each.outcome]
    return (
        each.cluster,
        f"[{style}]{each.outcome.value}[/]",
        number(each.replicas),
        number(each.current),
        room,
        score,
        number(each.weight),
        escape(why),
    )


def _counted(clusters: list[ClusterDiagnosis]) -> str:
    counts = Counter(each.rejections[0].plugin if each.rejections else each.outcome.value for each in clusters)
    return ", ".join(f"{count} {what}" for what, count in counts.most_common())


def _told(assignment: dict[str, int]) -> str:
    return " ".join(f"{name}={count}" if count else name for name, count in assignment.items()) or "no cluster"
