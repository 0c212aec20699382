"""One group of a diagnosis as a table that a person reads in ten seconds."""

from collections import Counter
from typing import Final

from rich.console import Console
from rich.markup import escape

from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.diagnosis import ClusterDiagnosis, GroupDiagnosis, Outcome
from berthmaster_cli.console import print_table

_STYLES: Final = {
    Outcome.ASSIGNED: "green",
    Outcome.NO_REPLICAS: "yellow",
    Outcome.NOT_SELECTED: "yellow",
    Outcome.REJECTED: "red",
}
_BEST_FIRST: Final = (Outcome.ASSIGNED, Outcome.NO_REPLICAS, Outcome.NOT_SELECTED, Outcome.REJECTED)


def print_group(console: Console, group: GroupDiagnosis, limit: int) -> None:
    """Print whether the group was taken, then its clusters, the best first; ``limit`` 0 shows all of them."""
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
