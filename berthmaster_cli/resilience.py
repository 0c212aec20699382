"""``berthmaster resilience``: what the loss of each cluster, region, zone or provider would do."""

import gc
import multiprocessing
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec
from rich.text import Text

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError, InputError, name_list
from berthmaster.simulation.failures import DomainLoss, FailureDomain, Failures, Impact, losses, ranked
from berthmaster.simulation.plan_answer import Assumptions
from berthmaster.views.assumption_texts import failover_lines
from berthmaster.views.heat_map import heat_map
from berthmaster.views.texts import columns_of, count_text, numbers
from berthmaster_cli import inputs
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import option, options
from berthmaster_cli.ignored import report_unknown_replicas, report_unused
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.output import WorkloadOutputFlags, complain, counting, is_printed, print_line, print_table, styled
from berthmaster_cli.scheduling_options import profile_from
from berthmaster_cli.source_options import AssumptionFlags, SelectorFlags, SharedCapacityFlags, SourceFlags
from berthmaster_cli.watching import WatchFlags, watched

_ANSWER: Final = AnswerKind("FailureList", list[Impact])
_CHUNKS: Final = 16
"""How many parts of the failures each process gets. More show the progress better."""
_SIMULATED: Final[list[Failures]] = []
"""The failures that the processes of a pool simulate. They get them from their parent, without a copy."""
_DOMAINS: Final = tuple(FailureDomain)
_STOPS: Final = columns_of("FAILURE", *map(numbers, ("CLUSTERS", "STOP", "REPLICAS", "NO COPY")))
_MOVES: Final = columns_of(*map(numbers, ("MOVE", "NOWHERE", "SHORT", "STAYING")), "OVERCOMMITTED")
_WORKLOADS: Final = columns_of("WORKLOADS")
_LEGEND: Final = (
    "What stops: STOP: workloads that lose copies. REPLICAS: their replicas that stop. NO COPY: workloads without "
    "another copy on a ready cluster. What failover then does, if it is on: MOVE: workloads that move. NOWHERE: "
    "workloads that run on no cluster afterwards. SHORT: workloads that run with too few replicas. STAYING: workloads "
    "that keep a lost cluster. OVERCOMMITTED: clusters that get more than is free. Capacity is what clusters report."
)
_EXIT_CODES: Final = "Exit codes: 0 success; 1 with --check, a failure leaves workloads without a place; 2 bad input."
_NAMED: Final = 3


class Shard(NamedTuple):
    """Every ``of``-th failure, from the one with this number on."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse ``NUMBER/OF``."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
            raise InputError(f"--shard {text!r} is no shard; use NUMBER/OF with numbers from 0, such as 0/10 to 9/10")
        return cls(int(number), int(of))


class ShardResult(msgspec.Struct, frozen=True, rename="camel"):
    """The impacts of a shard, in the order of the failures, and what all shards have in common."""

    number: int
    of: int
    failures: int
    workloads: int
    clusters: list[str]
    assumptions: Assumptions
    impacts: list[Impact]


def simulated(failures: Failures, lost: Sequence[DomainLoss], jobs: int) -> list[Impact]:
    """Return what each failure does, in the order of the failures."""
    found: list[Impact] = []
    with ExitStack() as stack:
        progress = stack.enter_context(counting("Simulating", "failures"))
        parts: Iterable[list[Impact]] = ([failures.impact(each)] for each in lost)
        if jobs > 1:
            size = max(1, len(lost) // (jobs * _CHUNKS))
            chunks = [lost[first : first + size] for first in range(0, len(lost), size)]
            _SIMULATED.append(failures)
            stack.callback(_SIMULATED.clear)
            gc.freeze()  # otherwise the first collection of each process copies all pages
            stack.callback(gc.unfreeze)
            parts = stack.enter_context(multiprocessing.get_context("fork").Pool(jobs)).imap(_impacts, chunks)
        for part in parts:
            found += part
            progress(len(found), len(lost))
    return found


def _impacts(lost: Sequence[DomainLoss]) -> list[Impact]:
    return list(map(_SIMULATED[0].impact, lost))


def merged(paths: Sequence[Path]) -> ShardResult:
    """Return the results of all shards as one. They must be complete, and of one state."""
    found: dict[int, ShardResult] = {}
    for path in paths:
        part = _read(path)
        first = next(iter(found.values()), part)
        if (part.of, part.failures, part.workloads, part.clusters) != (
            first.of, first.failures, first.workloads, first.clusters,
        ):  # fmt: skip
            raise InputError(
                f"--merge {path}: it is of another state than the other shards; use one dump for all shards"
            )
        if part.number in found:
            raise InputError(f"--merge {path}: shard {part.number}/{part.of} is there twice")
        found[part.number] = part
    first = next(iter(found.values()))
    missing = [f"{number}/{first.of}" for number in range(first.of) if number not in found]
    if missing:
        raise InputError(f"--merge: shards are missing: {', '.join(missing[:10])}")
    impacts = [found[each % first.of].impacts[each // first.of] for each in range(first.failures)]
    return msgspec.structs.replace(first, number=0, of=1, impacts=impacts)


def _read(path: Path) -> ShardResult:
    try:
        found = decode_json(ShardResult, path.read_bytes())
    except OSError as error:
        raise InputError(f"--merge {path}: cannot be read: {error.strerror or error}") from None
    except FieldError as error:
        raise InputError(f"--merge {path}: it is not what --shard writes: {error}") from None
    if not 0 <= found.number < found.of or len(found.impacts) != len(range(found.number, found.failures, found.of)):
        raise InputError(f"--merge {path}: the shard is incomplete")
    return found


class _ResilienceFlags(
    SourceFlags, SelectorFlags, AssumptionFlags, SharedCapacityFlags, WorkloadOutputFlags, WatchFlags
):
    domains: tuple[str, ...] = option(
        "What fails as a whole. Repeatable.",
        [FailureDomain.CLUSTER.value], click.Choice([each.value for each in _DOMAINS]), names=("--by",),
    )  # fmt: skip
    limit: int = option("The number of failures to show, the worst first; 0 for all.", 0, click.IntRange(0))
    heat_map: Path | None = option("Also write an SVG picture of where failover puts them.", metavar="FILE")
    jobs: int = option("The number of processes that simulate failures.", 1, click.IntRange(1, 256))
    shard: str = option(
        "Simulate only a part of the failures: NUMBER/OF, from 0/OF on. `--merge` reads the file that it writes.",
        "", metavar="NUMBER/OF",
    )  # fmt: skip
    shard_file: Path | None = option("With `--shard`: the file to write.", metavar="FILE")
    merge: tuple[Path, ...] = option("Rank what all shards wrote. Reads nothing else. Repeatable.", metavar="FILE")
    check: bool = option(
        "Exit with 1 if a failure leaves a workload nowhere or with too few replicas, as `simulate --check=new`."
    )


@click.command(epilog=f"{_LEGEND} {_EXIT_CODES}")
@options(_ResilienceFlags, server="the control plane to read")
@watched("dump", "shard", "merge")
def command(flags: _ResilienceFlags) -> None:
    """Show what the loss of each cluster, region, zone or provider would do.

    Each is lost alone. The losses are ranked by what stops running. What then moves depends on --failover. Reads a
    control plane; with -f it reads manifests instead.

    \b
    Examples:
      berthmaster resilience --by region
      berthmaster resilience -f examples/karmada --failover=on --heat-map failures.svg
      berthmaster resilience -f fleet.json --shard 3/10 --shard-file part-3.json --jobs 2
    """
    if flags.merge:
        if flags.shard:
            raise InputError("--merge and --shard exclude each other: a shard is merged once all are there")
        _show(merged(flags.merge), flags)
        return
    shard = Shard.parse(flags.shard) if flags.shard else Shard(0, 1)
    if bool(flags.shard) != (flags.shard_file is not None):
        raise InputError("--shard and --shard-file need each other")
    if flags.shard and (flags.limit or flags.heat_map is not None or flags.check):
        raise InputError("--shard writes a part; give --limit, --heat-map and --check with --merge")
    profile = profile_from(flags)
    manifests = inputs.read_manifests(flags)
    world = inputs.selected(inputs.present_world(manifests, flags), flags)
    domains = [FailureDomain(each) for each in dict.fromkeys(flags.domains)]
    lost = losses(world.clusters, domains)
    if not lost:
        raise InputError(f"no cluster has a {' or a '.join(domains)}")
    now = inputs.time_of(manifests)
    failures = Failures(world, profile, now, shared_capacity=flags.shared_capacity)
    impacts = simulated(failures, lost[shard.number :: shard.of], flags.jobs)
    found = ShardResult(*shard, len(lost), len(world.workloads), sorted(world.clusters), world.assumptions, impacts)
    if flags.shard_file is not None:
        _write(flags.shard_file, encode_json(found).decode(), "--shard-file")
        return
    _show(found, flags)
    if flags.output == "table":
        report_unused(manifests)
        report_unknown_replicas(world)


def _show(found: ShardResult, flags: _ResilienceFlags) -> None:
    impacts = ranked(found.impacts)
    shown = impacts[: flags.limit or None]
    if not is_printed(flags.output, _ANSWER, shown, (f"{each.domain}/{each.name}" for each in shown)):
        _print(shown, impacts, found, flags.namespace, wide=flags.output == "wide")
    if flags.heat_map is not None:
        _write(flags.heat_map, heat_map(impacts, found.clusters), "--heat-map")
    if flags.check and any(each.nowhere or each.short for each in impacts):
        raise SystemExit(EXIT_CHECK_FAILED)


def _print(
    shown: Sequence[Impact], impacts: Sequence[Impact], found: ShardResult, namespace: str, *, wide: bool
) -> None:
    """Print the failures to show. The totals are those of all failures.

    ``namespace``: the only one that was read; empty for all.
    """
    assumed = found.assumptions
    for line in failover_lines(assumed, max((len(each.clusters) for each in impacts), default=0)):
        print_line(styled(line, "bold"))
    rows = [_row(each, moves=assumed.moves_off_lost, wide=wide) for each in shown]
    print_table((*_STOPS, *(_MOVES if assumed.moves_off_lost else ()), *_WORKLOADS), rows)
    quiet = sum(not each.stopping for each in impacts)
    hidden = len(impacts) - len(shown)
    more = f"; {hidden:,} less severe failures are not shown" if hidden else ""
    within = f" in namespace {namespace}" if namespace else ""
    known = f"{count_text(found.workloads, 'workload')}{within}, {count_text(len(found.clusters), 'cluster')}"
    text = f"{known}: {quiet:,} of {len(impacts):,} failures stop nothing"
    if assumed.moves_off_lost:
        harmless = sum(each.harmless for each in impacts)
        text += f"; with failover {harmless:,} of {len(impacts):,} leave every workload running"
    print_line(f"{text}{more}")
    foreign = {name for each in impacts for name in each.not_simulated}
    if foreign:
        print_line(f"--check does not count workloads of schedulers that are not simulated: {len(foreign)}")


def _row(each: Impact, *, moves: bool, wide: bool) -> tuple[str | Text, ...]:
    def count(names: Sequence[str], style: str) -> str | Text:
        return styled(str(len(names)), style) if names else "0"

    def listed(names: Sequence[str]) -> str:
        return name_list(names, len(names) if wide else _NAMED)

    overcommitted = [f"{name} ({', '.join(resources)})" for name, resources in sorted(each.overcommitted.items())]
    moved = (
        str(each.moved), count(each.nowhere, "bold red"), count(each.short, "red"), count(each.staying, "yellow"),
        styled(listed(overcommitted), "red") if overcommitted else "",
    )  # fmt: skip
    # Workloads without another copy come first, then those that failover leaves.
    left = [*each.nowhere, *each.short, *each.staying] if each.assumptions.moves_off_lost else []
    clusters = str(len(each.clusters)) if each.domain is not FailureDomain.CLUSTER else ""
    return (
        f"{each.domain} {each.name}", clusters, str(each.stopping), str(each.stopped),
        count(each.only_copy, "bold red"), *(moved if moves else ()),
        listed([*dict.fromkeys([*each.only_copy, *left])]),
    )  # fmt: skip


def _write(path: Path, text: str, option_name: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"{option_name} {path}: cannot be written: {error.strerror or error}") from None
    complain(f"wrote {path}")
