"""``berthmaster moves``: what moves, waits, is held down, or is blocked by the storm brake."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import click
from rich.text import Text

from berthmaster.deciding.lease_record import RESUME, ResumeRequest, text_of
from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.http_client import connect
from berthmaster.kube.lease import LEASES
from berthmaster.kube.manner import RequestManner
from berthmaster.kube.requests import get, merge_patch
from berthmaster.kube.responses import decode_response
from berthmaster.model.binding import Binding, short_assignment
from berthmaster.model.errors import InputError, shown
from berthmaster.model.meta import Key, timestamp_text
from berthmaster.views.move_budgets import KnownMoves, moves_report, percent_totals
from berthmaster.views.move_rows import (
    BudgetUse,
    MoveRow,
    MovesReport,
    RowContext,
    RowState,
    age_text,
    changed_rows,
    move_rows,
    moves_among,
)
from berthmaster.views.texts import count_text, numbers
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import option, options
from berthmaster_cli.live.labelled import LabelledResources
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.moves.reading import FollowedBindings, MovesAccessFlags, MovesInput, read_files, read_live
from berthmaster_cli.options import AccessFlags
from berthmaster_cli.output import (
    WorkloadOutputFlags,
    complain,
    echo,
    is_printed,
    print_answer,
    print_json_line,
    print_line,
    print_table,
    styled,
)
from berthmaster_cli.source_options import NamespaceFlags, SelectorFlags

_COLUMNS: Final = ("WORKLOAD", "STATE", "REASON", "PHASE", "FROM", "TO", "SINCE", "MESSAGE")
_WIDE: Final = (*_COLUMNS[:-1], "STRATEGY", numbers("FAILURES"), "UNTIL", "BINDING", _COLUMNS[-1])
_BUDGETS: Final = ("BUDGET", "MOVES", numbers("REPLICAS"), numbers("WAITING"), "WINDOW", "WORKLOADS")
_STYLES: Final = {
    RowState.OVERDUE: "bold red",
    RowState.MOVING: "cyan",
    RowState.WAITING: "yellow",
    RowState.BLOCKED: "bold red",
    RowState.HELD_DOWN: "yellow",
    RowState.DONE: "green",
    RowState.INVALID: "red",
}
_LOOK_S: Final = 2.0
_LABELS_S: Final = 10.0
"""How often the labels of workloads are read again with -w."""
_POLL_S: Final = 0.5
_ANSWER: Final = AnswerKind("MovesReport", MovesReport)
_LINE: Final = AnswerKind("Move", MoveRow)


class _MovesFlags(MovesAccessFlags, WorkloadOutputFlags, NamespaceFlags, SelectorFlags):
    paths: tuple[str, ...] = option(
        "Read a dump or manifests instead of a control plane: a file, a folder, or - for standard input. Repeatable.",
        type=click.Path(allow_dash=True), names=("-f", "--filename"), metavar="PATH",
    )  # fmt: skip
    follow: bool = option("Print each change until interrupted.", names=("-w", "--watch"))


@click.group(
    invoke_without_command=True,
    epilog="Exit codes: 0 success; 2 bad usage or input; 130 interrupted.",
)
@options(_MovesFlags, server="the control plane")
@click.pass_context
def command(ctx: click.Context, flags: _MovesFlags, /) -> None:
    """Show what moves, what waits and for what, what is held down, and what the storm brake blocks.

    Reads a control plane; with -f it reads a dump instead.
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = flags
        return
    if flags.paths and flags.follow:
        raise click.UsageError("-w watches a control plane; it cannot be combined with -f")
    namespace = flags.namespace
    if flags.paths:
        flags.refuse_manner_of_files("leave out -f")
        found = read_files(flags.paths, flags.lease, namespace)
    else:
        found = read_live(flags.access(), flags, namespace)
    totals = partial(percent_totals, bindings=found.bindings)
    gaps, is_chosen, every = tuple(found.gaps), _choice(flags, found), list(moves_among(found.bindings))
    moves = [each for each in every if is_chosen(each.binding)]
    if every and not moves:
        complain(f"no workload with a move has the labels of -l {shown(flags.selector)}")
    complete = not namespace and not flags.selector
    report, _ = moves_report(KnownMoves(moves, totals, found.lease, found.now, gaps=gaps, complete=complete))
    _print(report, flags.output, follow=flags.follow, knows_bindings=found.knows_bindings and not found.unread)
    if flags.follow:
        _follow(flags, found, report.moves)


def _choice(flags: _MovesFlags, found: MovesInput) -> Callable[[Binding], bool]:
    """Return what says whether -l chooses the workload of a binding, by its labels as they are now."""
    selector = flags.labels
    if selector is None:
        return lambda _: True
    if flags.paths:
        chosen = {identity for identity, labels in found.labels.items() if selector.matches(labels)}
        return lambda binding: _identity(binding) in chosen
    labelled = LabelledResources(flags.access(), flags.selector, flags.namespace)
    return lambda binding: labelled.has(*_identity(binding))


def _identity(binding: Binding) -> tuple[str, Key]:
    resource = binding.spec.resource
    return resource.kind, (resource.namespace, resource.name)


def _print(report: MovesReport, output: str, *, follow: bool, knows_bindings: bool) -> None:
    rows = report.moves
    if output == "json" and follow:
        for row in rows:
            print_json_line(_LINE, row)
    elif not is_printed(output, _ANSWER, report, (row.workload for row in rows)):
        _print_tables(report, wide=output == "wide", knows_bindings=knows_bindings)
    if output not in {"json", "yaml"}:
        for gap in report.gaps:
            complain(gap)


def _print_tables(report: MovesReport, *, wide: bool, knows_bindings: bool) -> None:
    rows, sources = report.moves, report.sources
    if report.brake.reason:
        since = f" for {age_text(report.brake.since, report.read_at)}" if report.brake.since is not None else ""
        engaged = f"storm brake engaged{since}: {report.brake.reason}; nothing is evicted or moved"
        print_line(styled(engaged, "bold red"))
        print_line("It ends when the clusters are back. If they are lost: berthmaster moves resume")
    if report.controllers.silent and report.controllers.renewed_at is not None:
        age = age_text(report.controllers.renewed_at, report.read_at)
        silent = f"no controller has renewed its lease for {age}: nothing starts, continues or ends a move"
        print_line(styled(silent, "bold red"))
    if sources is not None and sources.problem:
        print_line(styled(f"the configuration of moves is invalid: {sources.problem}", "red"))
    if sources is not None and sources.pause != "None":
        which = "all" if sources.pause == "All" else "planned"
        print_line(styled(f"the configuration pauses {which} moves", "yellow"))
    if wide and report.budgets:
        print_table(_BUDGETS, [_budget_cells(each) for each in report.budgets])
    if rows:
        print_table(_WIDE if wide else _COLUMNS, [_cells(row, report.read_at, wide=wide) for row in rows])
    counts = [(state, sum(row.state is state for row in rows)) for state in RowState]
    summary = ", ".join(f"{count} {state.value}" for state, count in counts if count)
    print_line(summary or ("nothing moves" if knows_bindings else "nothing is known to move"))


def _cells(row: MoveRow, now: datetime, *, wide: bool) -> list[str | Text]:
    source, target = short_assignment(row.source, none=""), short_assignment(row.target, none="")
    state, since = styled(row.state.value, _STYLES[row.state]), age_text(row.since, now)
    more: list[str] = []
    if wide:
        until = timestamp_text(row.until) if row.until is not None else ""
        more = [row.strategy, str(row.failures) if row.failures else "", until, row.binding]
    return [row.workload, state, row.reason, row.phase, source, target, since, *more, row.message]


def _budget_cells(budget: BudgetUse) -> tuple[str, ...]:
    moves = str(budget.moves) if budget.max_moves is None else f"{budget.moves} of {budget.max_moves}"
    opens = "" if budget.opens_at is None else f"opens at {budget.opens_at:%Y-%m-%d %H:%M:%SZ}"
    return budget.name, moves, str(budget.replicas_moving), str(budget.waiting), opens, budget.selects


def _follow(flags: _MovesFlags, found: MovesInput, printed: list[MoveRow]) -> None:
    """Print each row that changes, as ``kubectl get -w`` does, and one last row when the record is removed."""
    known = {row.workload: row for row in printed}
    with FollowedBindings(connect(flags.access()), flags.lease) as followed:
        brake, read_s = followed.brake(), time.monotonic()
        is_chosen, labelled_s = _choice(flags, found), read_s
        while True:
            if news := followed.news():
                complain(news)
            if time.monotonic() - read_s >= _LOOK_S:
                brake, read_s = followed.brake(), time.monotonic()
            if read_s - labelled_s >= _LABELS_S:
                is_chosen, labelled_s = _choice(flags, found), read_s
            now = datetime.now(UTC)
            moving = (each.binding for each in moves_among(followed.bindings()))
            wanted = [each for each in moving if flags.namespace in {"", each.metadata.namespace} and is_chosen(each)]
            rows = move_rows(wanted, RowContext(now, brake.reason))
            for row in changed_rows(known, rows):
                _print_change(row, now, flags.output)
            known = {row.workload: row for row in rows}
            followed.wait(_LOOK_S)


def _print_change(row: MoveRow, now: datetime, output: str) -> None:
    if output == "json":
        print_json_line(_LINE, row)
    elif output == "yaml":
        echo("---")
        print_answer(_LINE, row, output)
    elif output == "name":
        echo(row.workload)
    else:
        cells = [each if isinstance(each, Text) else each.strip() for each in _cells(row, now, wide=output == "wide")]
        print_line(*(part for cell in cells if cell for part in (cell, "   ")))


class _MovesResumeFlags(AccessFlags):
    message: str = option("Why, for the log and the event.", "", metavar="TEXT")
    dry_run: bool = option("Only show whether the brake is engaged, and which clusters are unready.")
    timeout_s: float = option(
        "How long to wait until the leader has ended the brake.",
        60.0, click.FloatRange(1, 3600), names=("--timeout",),
    )  # fmt: skip


@command.command(
    short_help="End the storm brake.",
    epilog="Exit codes: 0 the brake has ended, or was not engaged; 1 no leader ended it in time; 2 bad input.",
)
@options(_MovesResumeFlags, server="the control plane")
@click.pass_obj
def resume(parent: _MovesFlags, flags: _MovesResumeFlags, /) -> None:
    """End the storm brake although clusters are unready, and accept their loss.

    Failovers and moves continue at once. An accepted cluster counts for the brake again only after it was ready.
    """
    if parent.paths:
        raise click.UsageError("resume writes to a control plane; it cannot be combined with -f")
    parent = replace(parent, kubeconfig=flags.kubeconfig or parent.kubeconfig, context=flags.context or parent.context)
    access = parent.access()
    if flags.manner != RequestManner():
        access = access._replace(manner=flags.manner)
    found = read_live(access, parent)
    if found.lease is None:
        raise InputError("; ".join(found.gaps))
    unready = sorted(name for name, each in found.clusters.items() if not each.ready)
    if not found.braked:
        echo("the storm brake is not engaged")
        return
    echo(f"storm brake: {found.braked}")
    lost = f"{count_text(len(unready), 'unready cluster')}: {', '.join(unready)}" if unready else "no cluster"
    echo(f"after this, the brake accepts the loss of {lost}")
    if flags.dry_run:
        return
    client = connect(access)
    key: Key = parent.lease
    request = ResumeRequest(datetime.now(UTC).replace(microsecond=0), flags.message)
    ask(client, merge_patch(LEASES, key, {"metadata": {"annotations": {RESUME: text_of(request)}}}))
    if not _ended(client, key, flags.timeout_s):
        complain("no leader has ended the brake yet; it does so when there is one. Is a controllers process leading?")
        raise SystemExit(EXIT_CHECK_FAILED)
    echo("the storm brake has ended")


def _ended(client: APIClient, key: Key, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        body = ask_if_found(client, get(LEASES, key))
        metadata = decode_response(dict[str, Any], body, "the lease").get("metadata") if body is not None else None
        if isinstance(metadata, dict) and RESUME not in (metadata.get("annotations") or {}):
            return True
        time.sleep(_POLL_S)
    return False
