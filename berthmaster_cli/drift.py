"""``berthmaster drift``: how far a fleet is from its policies, and what a repair would move."""

from collections.abc import Iterable
from typing import Final

import click
import msgspec.structs

from berthmaster.model.errors import InputError
from berthmaster.scheduling.karmada.minimal import DEFAULT_TOLERANCE
from berthmaster.simulation import drift
from berthmaster.views.texts import (
    assignment_text,
    brief_assignment,
    columns_of,
    cost_text,
    count_text,
    numbers,
    without_zeros,
)
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import option, options
from berthmaster_cli.ignored import report_unknown_replicas, report_unused
from berthmaster_cli.inputs import present_world, read_manifests, selected, time_of
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.output import WorkloadOutputFlags, is_printed, print_line, print_table
from berthmaster_cli.scheduling_options import profile_from
from berthmaster_cli.source_options import SelectorFlags, SourceFlags
from berthmaster_cli.watching import WatchFlags, watched

_REPAIRS: Final = (*map(numbers, ("WORKLOADS", "DRIFTED", "MINIMAL", "FULL")),)
_LEGEND: Final = (
    "MINIMAL and FULL: the replicas that a repair with the fewest moves starts or stops, and those of a rescheduling "
    "of all workloads. Each workload is judged alone, with the capacity that clusters report. docs/drift.md explains "
    "the kinds of drift."
)
_EXIT_CODES: Final = "Exit codes: 0 success; 1 with --check, a workload drifts; 2 bad input."
_FEW: Final = 10
_ANSWER: Final = AnswerKind("FleetDrift", drift.FleetDrift)


class _DriftFlags(SourceFlags, SelectorFlags, WorkloadOutputFlags, WatchFlags):
    tolerance: float = option(
        "By how many percent the share of a cluster may differ from its weight.",
        DEFAULT_TOLERANCE, click.FloatRange(0, 100),
    )  # fmt: skip
    pending_s: float = option(
        "How many seconds after the last scheduling replicas that members report as not ready count.",
        drift.DEFAULT_PENDING_S, click.FloatRange(0, 86_400),
    )  # fmt: skip
    limit: int = option("The number of workloads to show, the most moves first; 0 for all.", 20, click.IntRange(0))
    check: bool = option("Exit with 1 if a workload drifts.")


@click.command(epilog=f"{_LEGEND} {_EXIT_CODES}")
@options(_DriftFlags, server="the control plane to read")
@watched("dump")
def command(flags: _DriftFlags) -> None:
    """Show how far the fleet is from its policies, and how few replicas a repair would move.

    Compares each binding with what its policy asks for now: group, clusters, spread constraints, weights, overflow.
    Reads a control plane; with -f it reads manifests with bindings, or a dump. Changes nothing.

    \b
    Examples:
      berthmaster drift
      berthmaster drift -n shop --tolerance 25 -o wide
      berthmaster drift -f fleet.yaml --check
    """
    profile = profile_from(flags)
    manifests = read_manifests(flags)
    world = selected(present_world(manifests, flags), flags)
    if world.workloads and not world.has_bindings:
        raise InputError("the input has no bindings, so that nothing can drift; read a control plane or a dump of one")
    now = time_of(manifests)
    found = drift.summary(
        drift.workload_drifts(world, profile, now, tolerance=flags.tolerance, pending_s=flags.pending_s)
    )
    shown = found.workloads[: flags.limit or None]
    answer, names = msgspec.structs.replace(found, workloads=shown), (each.resource for each in shown)
    if not is_printed(flags.output, _ANSWER, answer, names):
        _print(found, shown, wide=flags.output == "wide")
        report_unused(manifests)
        report_unknown_replicas(world)
    if flags.check and found.workloads:
        raise SystemExit(EXIT_CHECK_FAILED)


def _print(found: drift.FleetDrift, shown: list[drift.WorkloadDrift], *, wide: bool) -> None:
    total = found.total
    print_line(_headline(found))
    if not found.workloads:
        return
    print_table(columns_of("DRIFT", numbers("WORKLOADS")), [(kind, str(n)) for kind, n in found.kinds.items()])
    few = None if wide else _FEW
    for name, totals in (("POLICY", found.policies), ("GROUP", found.groups)):
        if totals:
            print_line()
            print_table(columns_of(name, *_REPAIRS), _rows(totals[:few]))
    if found.clusters:
        print_line()
        rows = [(each.name, str(each.leaving), str(each.arriving)) for each in found.clusters[:few]]
        print_table(columns_of("CLUSTER", numbers("LEAVING"), numbers("ARRIVING")), rows)
    print_line()
    columns = columns_of("WORKLOAD", "DRIFT", numbers("MINIMAL"), numbers("FULL"), "NOW", "MINIMAL REPAIR")
    print_table(columns, [_row(each, wide=wide) for each in shown])
    if len(shown) < total.drifted:
        print_line(f"{total.drifted - len(shown)} drifted workloads are not shown")


def _headline(found: drift.FleetDrift) -> str:
    total = found.total
    text = f"{total.drifted} of {count_text(total.workloads, 'workload')} drift"
    if total.drifted:
        text += f": a minimal repair moves {count_text(total.moves, 'replica')}, a full one {total.full_moves:,}"
    if found.cost is not None:
        text += f"; the minimal repair {cost_text(found.cost)}"
    if found.full_cost is not None:
        text += f"; the full one {cost_text(found.full_cost)}"
    if found.heuristic:
        text += f"; fewer moves may be possible for {found.heuristic}"
    if found.unplaced:
        text += f"; no group can hold {found.unplaced}"
    return text


def _rows(totals: Iterable[drift.DriftTotal]) -> list[tuple[str, ...]]:
    return [
        (each.name or "(unknown)", str(each.workloads), str(each.drifted), str(each.moves), str(each.full_moves))
        for each in totals
    ]


def _row(each: drift.WorkloadDrift, *, wide: bool) -> tuple[str, ...]:
    text = assignment_text if wide else brief_assignment
    return (
        each.resource,
        " ".join(each.kinds),
        f"{each.moves}" if each.is_exact else f"<={each.moves}",
        str(each.full_moves),
        text(without_zeros(each.clusters)),
        text(without_zeros(each.minimal)),
    )
