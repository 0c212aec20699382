"""``berthmaster drain`` and ``undrain``: move workloads off clusters, and allow them again."""

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any, Final

import click
import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from berthmaster.controllers.binding_scheduler.need_index import NeedIndex
from berthmaster.controllers.moves.copies_reader import with_needs
from berthmaster.deciding.copy_checks import UNREAD, blocked_move
from berthmaster.deciding.decision_recorder import PolicyMoves
from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.deciding.move_targets import drain_target
from berthmaster.deciding.policy_moves import policy_moves
from berthmaster.deciding.writes import effective
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.http_client import connect
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.requests import get, merge_patch
from berthmaster.kube.responses import decode_response
from berthmaster.model.binding import Binding, holder, names_scheduler, short_assignment
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import ApiError, InputError, name_list, shown
from berthmaster.model.hints import closest
from berthmaster.model.meta import Key, with_spec
from berthmaster.model.move import AFTER_FAILURE, DRAINING, MovePhase, MoveReason, MoveState, as_moved, move_of
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.selector import parse_selector
from berthmaster.model.taint import Taint, repelling_taints
from berthmaster.model.work import Copies, binding_id
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.views.move_rows import workload_of
from berthmaster.views.texts import count_text
from berthmaster_cli import completion
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.doctor.facts import SCHEDULER_NAME
from berthmaster_cli.flags import argument, option, options
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.moves import reading
from berthmaster_cli.output import OutputFlags, complain, echo, print_answer, print_line, print_table, stderr, styled

_TAINT: Final = Taint(key=DRAINING, effect="NoSchedule")
_TRIES: Final = 10
_LOOK_S: Final = 1.0
_REPORT_S: Final = 30.0
_NAMED: Final = 5
_OTHERS: Final = (
    "drain moves only what Berthmaster schedules. Hand the workloads of other schedulers over (docs/compatibility.md, "
    "Switch over), or exclude the cluster in their policies; NoExecute evicts them only if Karmada's eviction is on"
)
_COLUMNS: Final = ("WORKLOAD", "ON", "STATE", "MESSAGE")


class DrainState(Enum):
    """Why a workload is still on a cluster that is being drained."""

    MOVING = "moving"
    WAITING = "waiting"
    """A move wants to begin, and the message says what it waits for; or none has begun yet."""
    NOT_OURS = "not ours"
    TOLERATES = "tolerates"
    SUSPENDED = "suspended"
    UNREAD = "not known"
    """The binding cannot be read, so it is not known where its workload is."""


STAYING: Final = frozenset({DrainState.NOT_OURS, DrainState.TOLERATES, DrainState.SUSPENDED, DrainState.UNREAD})
"""What stays however long the drain lasts."""


class DrainRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A workload on clusters that are being drained. ``message`` is what it waits for, or where it would go."""

    workload: str
    clusters: Mapping[str, int]
    state: DrainState
    message: str = ""


@dataclass(frozen=True, slots=True)
class DrainContext:
    """What a drain depends on."""

    draining: frozenset[str]
    scheduler_name: str
    braked: str = ""


def _rows_left(bindings: Iterable[Binding], unread: Mapping[str, str], context: DrainContext) -> list[DrainRow]:
    """Return the workloads that are, or may be, on the clusters, in the order of their states and names."""
    rows = (row for each in bindings if (row := _row_left(each, context)) is not None)
    return _sorted((*rows, *_rows_unread(unread)))


def _rows_unread(unread: Mapping[str, str]) -> list[DrainRow]:
    return [DrainRow(name, {}, DrainState.UNREAD, f"the binding {problem}") for name, problem in unread.items()]


def _row_left(binding: Binding, context: DrainContext) -> DrainRow | None:
    """Return the row of a binding; None if nothing of it is on the clusters.

    A cluster that an eviction task names still runs the workload. A binding that only follows another one has no
    assignment of its own, and leaves with it.
    """
    here = {each.name: each.replicas for each in binding.spec.clusters if each.name in context.draining}
    for task in binding.spec.graceful_eviction_tasks:
        if task.from_cluster in context.draining:
            here.setdefault(task.from_cluster, task.replicas or 0)
    if not here:
        return None
    state, message = _state(binding, context)
    return DrainRow(workload_of(binding), here, state, message)


def _state(binding: Binding, context: DrainContext) -> tuple[DrainState, str]:
    spec = binding.spec
    if binding.suspended:
        return DrainState.SUSPENDED, "its scheduling is suspended"
    if not names_scheduler(binding, context.scheduler_name):
        return DrainState.NOT_OURS, f"{binding.scheduler} schedules it"
    if not any(binding.metadata.labels.get(label) for label in MANAGED_BY):
        return DrainState.NOT_OURS, "no policy claims it"
    if spec.placement is not None and not repelling_taints([_TAINT], spec.placement.cluster_tolerations):
        return DrainState.TOLERATES, f"its placement tolerates the taint {DRAINING}"
    if not any(each.name in context.draining for each in spec.clusters):
        return DrainState.MOVING, "its old copy is being removed"
    move = move_of(binding)
    if move is not None and move.under_way:
        where = short_assignment(move.target)
        if move.cause and not context.braked:
            return DrainState.WAITING, f"{move.phase.value}, to {where}: {move.message}"
        waits = f"; storm brake: {context.braked}" if context.braked else ""
        return DrainState.MOVING, f"{move.phase.value}, to {where}{waits}"
    if context.braked:
        return DrainState.WAITING, f"storm brake: {context.braked}"
    if move is None:
        return DrainState.WAITING, "no move has begun"
    if move.held_down_until is not None and move.phase in AFTER_FAILURE:
        return DrainState.WAITING, f"held down until {move.held_down_until:%Y-%m-%d %H:%M:%SZ}: {move.message}"
    return DrainState.WAITING, move.message or move.phase.value


def planned(
    bindings: Sequence[Binding],
    clusters: Mapping[str, Cluster],
    context: DrainContext,
    profile: Profile | None = None,
    facts: reading.DrainFacts | None = None,
    settings: MoveSettings | None = None,
) -> list[DrainRow]:
    """Return the workloads on clusters, and where each would go alone. ``waiting``: something keeps it there.

    ``settings`` are those of the controllers for a binding without a rule, as far as they are known.
    """
    fleet = Fleet()
    for cluster in clusters.values():
        taints = (*(each for each in cluster.spec.taints if each.key != DRAINING), _TAINT)
        fleet.apply(with_spec(cluster, taints=taints) if cluster.name in context.draining else cluster)
    scheduler = Scheduler(fleet, profile or karmada_profile())
    known = _KnownCopies(bindings, facts or reading.DrainFacts(), settings or MoveSettings())
    rows = []
    for binding in bindings:
        row = _row_left(binding, context)
        if row is not None and row.state is DrainState.WAITING and binding.spec.placement is not None:
            row = _decided(row, binding, scheduler, context.draining, known)
        if row is not None:
            rows.append(row)
    return _sorted(rows)


def _sorted(rows: Iterable[DrainRow]) -> list[DrainRow]:
    order = {each: number for number, each in enumerate(DrainState)}
    return sorted(rows, key=lambda row: (order[row.state], row.workload))


class _KnownCopies:
    """What is known about the copies on the clusters of a drain."""

    def __init__(self, bindings: Iterable[Binding], facts: reading.DrainFacts, settings: MoveSettings) -> None:
        self._facts = facts
        self._settings = settings
        self._needs = NeedIndex()
        for each in bindings:
            self._needs.changed(each.metadata.key, None, each)

    def of(self, binding: Binding) -> Copies:
        found = (self._facts.copies or {}).get(binding_id(binding), UNREAD)
        return with_needs(found, self._needs.needing, binding)

    def policy(self, binding: Binding) -> PolicyMoves:
        """Return what the policy of a binding says beside the settings of the controllers."""
        reference = holder(binding.metadata)
        annotations = {} if reference is None else self._facts.annotations.get(reference, {})
        return policy_moves(self._settings, annotations, binding)


def _decided(
    row: DrainRow, binding: Binding, scheduler: Scheduler, draining: Collection[str], known: _KnownCopies
) -> DrainRow:
    unready = {each.name for each in scheduler.fleet.clusters if each is not None and not each.ready}
    moved = effective(as_moved(binding))
    found = drain_target(scheduler, moved, frozenset(draining), frozenset({*unready, *draining}))
    if isinstance(found, MoveRefusal):
        nowhere = found.cause is Cause.NO_PLACE
        return msgspec.structs.replace(row, message=f"fits nowhere else: {found.message}" if nowhere else found.message)
    settings, copies = known.policy(moved).settings, known.of(moved)
    move = MoveState(
        MoveReason.DRAIN, MovePhase.ADMITTED, settings.strategy, source=moved.assignment, target=found.clusters
    )
    if (blocked := blocked_move(moved, move, copies, settings)) is not None:
        return msgspec.structs.replace(row, message=blocked.message)
    where = f"would go to {short_assignment(found.clusters)}" if found.clusters else "would be removed"
    needing = sorted({each for name in move.leaving for each in copies.needed.get(name, ())})
    after = f", after {name_list(needing, _NAMED)}" if needing else ""
    return msgspec.structs.replace(row, state=DrainState.MOVING, message=f"{where}{after}")


def with_taint(taints: Sequence[Mapping[str, Any]], now: str) -> list[Mapping[str, Any]] | None:
    """Return the stored taints of a cluster with the one that drains it; None if it is there. Other taints stay."""
    if any(each.get("key") == DRAINING and each.get("effect") == _TAINT.effect for each in taints):
        return None
    return [*taints, {"key": DRAINING, "effect": _TAINT.effect, "timeAdded": now}]


def without_taint(taints: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """Return the stored taints of a cluster without any that drains it; None if there is none. Other taints stay."""
    kept = [each for each in taints if each.get("key") != DRAINING]
    return kept if len(kept) < len(taints) else None


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
        settings = sources.settings if sources is not None else None
        rows = planned(found.bindings, found.clusters, context, facts=facts, settings=settings)
        for gap in gaps:
            complain(gap)
        _finish(_sorted((*rows, *_rows_unread(found.unread))), names, flags, planned=True)
        return
    for name in names:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changed = _change_taints(connect(access), name, partial(with_taint, now=now))
        # progress must not mix with data
        echo(f"cluster/{name} {'drains' if changed else 'drains already'}", error=flags.output != "table")
    if flags.no_wait:
        return
    left = _follow(access, context, flags) if _may_move(found) else _rows_left(found.bindings, found.unread, context)
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
    if sources.rules and dry_run:
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
            rows = _rows_left(followed.bindings(), followed.unread(), replace(context, braked=followed.brake().reason))
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
