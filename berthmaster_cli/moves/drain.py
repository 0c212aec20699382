"""``berthmaster drain`` and ``undrain``: move workloads off clusters, and allow them again."""

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import click
import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from berthmaster.deciding.config import DEFAULT_MOVES
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.http_client import connect
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.requests import get, merge_patch
from berthmaster.kube.responses import decode_response
from berthmaster.model.binding import Binding, short_assignment
from berthmaster.model.errors import ApiError, InputError, name_list, shown
from berthmaster.model.hints import closest
from berthmaster.model.meta import Key, timestamp_text
from berthmaster.model.selector import parse_selector
from berthmaster.views.texts import count_text
from berthmaster_cli import completion
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.doctor.facts import SCHEDULER_NAME
from berthmaster_cli.flags import argument, option, options
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.moves import reading
from berthmaster_cli.moves.drain_rows import (
    STAYING,
    DrainContext,
    DrainRow,
    DrainState,
    in_order,
    planned,
    rows_left,
    rows_unread,
    with_taint,
    without_taint,
)
from berthmaster_cli.output import OutputFlags, complain, echo, print_answer, print_line, print_table, stderr, styled

_TRIES: Final = 10
_LOOK_S: Final = 1.0
_REPORT_S: Final = 30.0
_NAMED: Final = 5
_OTHERS: Final = (
    "drain moves only what Berthmaster schedules. Hand the workloads of other schedulers over (docs/switch-over.md), "
    "or exclude the cluster in their policies; NoExecute evicts them only if Karmada's eviction is on"
)
_COLUMNS: Final = ("WORKLOAD", "ON", "STATE", "MESSAGE")
_STYLES: Final = {DrainState.MOVING: "cyan", DrainState.WAITING: "yellow"}


class DrainReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What ``-o json`` prints at the end. ``drained`` says whether no workload is left that counts."""

    clusters: list[str]
    drained: bool
    left: list[DrainRow]


_ANSWER: Final = AnswerKind("DrainReport", DrainReport)


class ClusterNamesFlags(reading.MovesAccessFlags):
    """Clusters by name or by label."""

    names: tuple[str, ...] = argument(nargs=-1, metavar="CLUSTER...", shell_complete=completion.clusters)
    selector: str | None = option(
        "The clusters whose labels match, as in kubectl.", names=("-l", "--selector"), metavar="SELECTOR"
    )


class _DrainFlags(ClusterNamesFlags, OutputFlags):
    dry_run: bool = option("Change nothing; show what would move where, and what would stay.")
    timeout_s: float = option(
        "How long to wait until the clusters are drained; 0 for no limit.",
        0.0, click.FloatRange(0), names=("--timeout",),
    )  # fmt: skip
    no_wait: bool = option("Set the taint and end.")
    ignore_others: bool = option("Succeed even if workloads of other schedulers stay.")
    scheduler_name: str | None = option(
        "The spec.schedulerName of the bindings that the controllers schedule. By default the Lease says it, otherwise "
        "it is berthmaster.",
        metavar="NAME",
    )


@click.command(
    name="drain",
    epilog="Exit codes: 0 drained; 1 workloads stay, or --timeout passed; 2 bad usage or input; 130 interrupted. "
    "An interrupted drain continues; undrain ends it.",
)
@options(_DrainFlags, server="the control plane")
def command(flags: _DrainFlags) -> None:
    """Move all workloads off clusters, and keep new ones away.

    Sets the taint policy.berthmaster.io/draining:NoSchedule, and shows what is left until nothing is. New copies start
    before old ones go. Workloads of other schedulers, workloads that tolerate the taint, and workloads that fit nowhere
    else stay, and are named. It needs Berthmaster's controllers: karmada-scheduler moves nothing by this taint.

    \b
    Examples:
      berthmaster drain member7 --dry-run
      berthmaster drain -l region=eu-west --timeout 3600
    """
    access, found, names = _read(flags)
    sources = found.lease.sources if found.lease is not None else None
    recorded = sources.scheduler if sources is not None else ""
    context = DrainContext(frozenset(names), flags.scheduler_name or recorded or SCHEDULER_NAME, found.braked)
    for gap in found.gaps:
        complain(gap)
    if flags.dry_run:
        _may_move(found, dry_run=True)
        gaps: list[str] = []
        facts = reading.read_drain_facts(access, _with_copies(found.bindings, context.draining), found.bindings, gaps)
        config = found.lease.moves if found.lease is not None else DEFAULT_MOVES
        rows = planned(found.bindings, found.clusters, context, facts=facts, config=config)
        for gap in gaps:
            complain(gap)
        _finish(in_order((*rows, *rows_unread(found.unread))), names, flags, planned=True)
        return
    for name in names:
        now = timestamp_text(datetime.now(UTC))
        changed = _change_taints(connect(access), name, partial(with_taint, now=now))
        # progress must not mix with data
        echo(f"cluster/{name} {'drains' if changed else 'drains already'}", error=flags.output != "table")
    if flags.no_wait:
        return
    left = _follow(access, context, flags) if _may_move(found) else rows_left(found.bindings, found.unread, context)
    _finish(left, names, flags)


class _UndrainFlags(ClusterNamesFlags):
    dry_run: bool = option("Change nothing; only name the clusters.")


@click.command(name="undrain", epilog="Exit codes: 0 success; 2 bad usage or input.")
@options(_UndrainFlags, server="the control plane")
def undrain(flags: _UndrainFlags) -> None:
    """Allow workloads on clusters again. Workloads that have left return by failback, or when they are rescheduled."""
    access, found, names = _read(flags)
    for name in names:
        taints = [msgspec.to_builtins(each) for each in found.clusters[name].spec.taints]
        changed = (
            without_taint(taints) is not None if flags.dry_run else _change_taints(connect(access), name, without_taint)
        )
        note = " (dry run)" if flags.dry_run else ""
        echo(f"cluster/{name} {'no longer drains' if changed else 'was not draining'}{note}")


def _with_copies(bindings: Iterable[Binding], draining: Collection[str]) -> list[str]:
    """Return all clusters of the workloads on some clusters. What runs elsewhere can keep a workload, too."""
    assigned = ({each.name for each in binding.spec.clusters} for binding in bindings)
    return sorted({*draining}.union(*(clusters for clusters in assigned if not clusters.isdisjoint(draining))))


def _read(flags: ClusterNamesFlags) -> tuple[ClusterAccess, reading.MovesInput, list[str]]:
    """Read the control plane. Return it with the names of the chosen clusters, each once."""
    if bool(flags.names) == (flags.selector is not None):
        raise click.UsageError("name the clusters, or select them with -l")
    access = flags.access()
    found = reading.read_live(access, flags)
    clusters = found.clusters
    names, selector = list(dict.fromkeys(flags.names)), flags.selector
    if selector is not None:
        wanted = parse_selector(selector)
        names = sorted(name for name, each in clusters.items() if wanted.matches(each.metadata.labels))
        if not names:
            raise InputError(f"no cluster matches the selector {shown(selector)}")
    for name in names:
        if name not in clusters:
            close = closest(name, clusters)
            hint = f"did you mean {close}?" if close else f"known are {name_list(sorted(clusters))}"
            raise InputError(f"there is no cluster {shown(name)}; {hint}")
    return access, found, names


def _change_taints(
    client: APIClient, name: str, change: Callable[[Sequence[Mapping[str, Any]]], list[Mapping[str, Any]] | None]
) -> bool:
    """Change the taints of a cluster, and return whether they changed.

    The write is valid only for the version that was read: other taints come and go with the health of a cluster.
    """
    key: Key = ("", name)
    for attempt in range(_TRIES):
        raw = decode_response(dict[str, Any], ask(client, get(KARMADA_CLUSTERS.collection, key)), f"cluster/{name}")
        taints = change((raw.get("spec") or {}).get("taints") or [])
        if taints is None:
            return False
        guard = {"resourceVersion": raw["metadata"]["resourceVersion"]}
        patch = {"metadata": guard, "spec": {"taints": taints or None}}
        try:
            ask(client, merge_patch(KARMADA_CLUSTERS.collection, key, patch))
        except ApiError as error:
            if not error.conflict or attempt == _TRIES - 1:
                raise
            continue
        return True
    raise AssertionError("the last attempt returns or raises")


def _may_move(found: reading.MovesInput, *, dry_run: bool = False) -> bool:
    """Report what keeps moves from beginning, and what a dry run does not know.

    Return False if none will begin however long the command waits.
    """
    if found.lease is None:
        return True
    sources = found.lease.sources
    if sources is None:
        complain("the controllers run without --moves-config, so nothing moves by a drain")
        return False
    if sources.problem:
        complain(f"the configuration of moves is invalid: {sources.problem}")
    if sources.drain != "On":
        complain(f"the configuration has drain mode {sources.drain}: only workloads with a rule of their own move")
    if sources.pause != "None":
        complain("the configuration pauses moves; they begin when the pause ends")
    if dry_run and not sources.rules_known:
        complain("the rules of the configuration are not known here: a workload that one of them selects may differ")
    return True


def _follow(access: ClusterAccess, context: DrainContext, flags: _DrainFlags) -> list[DrainRow]:
    """Show what is left until only what stays is left, or until the time is over. Return what is left."""
    started_s = reported_s = time.monotonic()
    columns = (TextColumn("draining"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    quiet = not sys.stderr.isatty()
    with (
        reading.FollowedBindings(connect(access), flags.lease) as followed,
        Progress(*columns, console=stderr(), transient=True, disable=quiet) as progress,
    ):
        task = progress.add_task("")
        total = 0
        while True:
            if news := followed.news():
                complain(news)
            rows = rows_left(followed.bindings(), followed.unread(), replace(context, braked=followed.brake().reason))
            waiting = [row for row in rows if row.state not in STAYING]
            total = max(total, len(waiting))
            progress.update(task, total=max(total, 1), completed=total - len(waiting), description=_blocking(waiting))
            now_s = time.monotonic()
            if quiet and now_s - reported_s >= _REPORT_S:
                reported_s = now_s
                complain(f"{len(waiting)} of {total} workloads left: {_blocking(waiting)}")
            if not waiting or (flags.timeout_s and now_s - started_s >= flags.timeout_s):
                return rows
            left_s = flags.timeout_s - (now_s - started_s) if flags.timeout_s else _LOOK_S
            followed.wait(min(_LOOK_S, left_s))


def _blocking(rows: Sequence[DrainRow]) -> str:
    """Return what the first workload waits for."""
    waiting = [row for row in rows if row.state is DrainState.WAITING] or rows
    return name_list([f"{row.workload}: {row.message}" for row in waiting], 1)


def _finish(rows: list[DrainRow], names: list[str], flags: _DrainFlags, *, planned: bool = False) -> None:
    """Print what is left, and end with 1 if that counts."""
    ignored = {DrainState.NOT_OURS} if flags.ignore_others else set()
    counted = [row for row in rows if row.state not in ignored and not (planned and row.state is DrainState.MOVING)]
    if flags.output != "table":
        print_answer(_ANSWER, DrainReport(names, not counted, rows), flags.output)
    else:
        _print(rows, names, counted, planned=planned)
    if any(row.state is DrainState.NOT_OURS for row in rows):
        complain(_OTHERS)
    if counted:
        raise SystemExit(EXIT_CHECK_FAILED)


def _print(rows: list[DrainRow], names: list[str], counted: list[DrainRow], *, planned: bool) -> None:
    where, words = name_list(names, _NAMED), {each: each.value for each in DrainState}
    if planned:
        words |= {DrainState.MOVING: "leaves", DrainState.WAITING: "stays"}
    if rows:
        cells = [
            (
                row.workload, short_assignment(row.clusters, none=""),
                styled(words[row.state], _STYLES.get(row.state, "red")), row.message,
            )
            for row in rows
        ]  # fmt: skip
        print_table(_COLUMNS, cells)
    if planned:
        moving = sum(row.state is DrainState.MOVING for row in rows)
        stay = f"{len(rows) - moving} would stay"
        print_line(f"{moving} of {count_text(len(rows), 'workload')} would leave {where}, {stay}")
    elif counted:
        print_line(f"{count_text(len(counted), 'workload')} {'is' if len(counted) == 1 else 'are'} still on {where}")
    else:
        remain = f"of other schedulers {'remains' if len(rows) == 1 else 'remain'}"
        print_line(f"{where} drained", f"; {count_text(len(rows), 'workload')} {remain}" if rows else "")
