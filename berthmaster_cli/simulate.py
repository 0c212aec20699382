"""``berthmaster simulate``: where workloads go, and what a change would move."""

from datetime import timedelta

import click
from rich.markup import escape

from berthmaster.model.cluster import EFFECTS, Taint
from berthmaster.model.meta import INT32_MAX
from berthmaster.model.selector import is_label_key, is_label_value
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.changes import AddLabel, AddTaint, Change, Down, Reschedule, Scale, apply
from berthmaster.simulation.report import ChangeRow, Row, change_row, row
from berthmaster.simulation.run import run, unplaced
from berthmaster.simulation.world import world_of
from berthmaster_cli.batch import answer_lines
from berthmaster_cli.console import complain, output_option, print_data, print_table, stdout
from berthmaster_cli.federation import simulate_federation
from berthmaster_cli.inputs import (
    Remote,
    input_options,
    now,
    on_the_wire,
    profile,
    read_manifests,
    resource_name,
    server_options,
    workload_affinity_on,
)
from berthmaster_cli.main import EXIT_CHECK_FAILED

_NO_PLACE = "nowhere"
_NOTHING = "no resource among the manifests: there is nothing to schedule"


@click.command(
    epilog="With --down, --taint, --label, --scale or --reschedule it shows before and after, and what moves. "
    "Workloads are rescheduled only where Karmada would do so.",
)
@input_options
@server_options
@click.option("--down", multiple=True, metavar="CLUSTER", help="The cluster is lost. Repeatable.")
@click.option(
    "--taint", multiple=True, metavar="CLUSTER=KEY[=VALUE]:EFFECT", help="The cluster is tainted. Repeatable."
)
@click.option("--label", multiple=True, metavar="CLUSTER=KEY=VALUE", help="The cluster's label is set. Repeatable.")
@click.option(
    "--scale", multiple=True, metavar="[NAMESPACE/]KIND/NAME=N", help="The workload has N replicas. Repeatable."
)
@click.option("--reschedule", is_flag=True, help="Every workload is scheduled anew, as by a WorkloadRebalancer.")
@click.option("--check", is_flag=True, help="Exit with 1 if a workload that a policy claims has no place.")
@click.option("--jsonl", is_flag=True, help="Answer lines of JSON on stdin, each a fleet with bindings, one by one.")
@output_option
def command(
    *,
    remote: Remote | None,
    paths: tuple[str, ...],
    replica_paths: tuple[str, ...],
    plugins: str,
    feature_gates: str,
    keep_empty: bool,
    down: tuple[str, ...],
    taint: tuple[str, ...],
    label: tuple[str, ...],
    scale: tuple[str, ...],
    reschedule: bool,
    check: bool,
    jsonl: bool,
    output: str,
) -> None:
    """Schedule the workloads of some manifests, and show what changes would move.

    Reads Clusters, policies, and any resources; ResourceBindings among them say where workloads are now.
    """
    workload_affinity = workload_affinity_on(feature_gates)
    decide = profile(plugins, workload_affinity=workload_affinity, keep_empty=keep_empty)
    changes = parse_changes(down, taint, label, scale, reschedule=reschedule)
    if jsonl:
        if paths or changes:
            raise click.UsageError("--jsonl reads fleets from stdin; -f and changes do not go with it")
        answer_lines(decide)
        return
    if remote is not None:
        _simulate_remotely(remote, changes, output, check=check)
        return
    manifests, parsed_paths = read_manifests(paths, replica_paths)
    if manifests.federation.clusters:
        all_placed = simulate_federation(manifests, parsed_paths, changes, output)
        if check and not all_placed:
            raise SystemExit(EXIT_CHECK_FAILED)
        return
    world = world_of(manifests, parsed_paths, workload_affinity=workload_affinity)
    start = now()
    world, before = run(world, decide, start)
    last = before
    if not changes:
        rows = [row(outcome) for outcome in before]
        _print_rows(rows) if output == "table" else print_data(rows, output)
    else:
        later = start + timedelta(seconds=1)
        _, last = run(apply(changes, world, later), decide, later)
        changed = [change_row(*pair) for pair in zip(before, last, strict=True)]
        _print_changes(changed) if output == "table" else print_data(changed, output)
    if output == "table":
        for ignored in manifests.ignored:
            complain(f"{ignored.document.place}: passed over: {ignored.reason}")
    if check and unplaced(last):
        raise SystemExit(EXIT_CHECK_FAILED)


def _simulate_remotely(remote: Remote, changes: list[Change], output: str, *, check: bool) -> None:
    with remote.client() as client:
        answer = client.simulate([on_the_wire(each) for each in changes], show_all=True)
    if changes:
        _print_changes(answer.rows) if output == "table" else print_data(answer.rows, output)
    else:
        rows = [each.before for each in answer.rows]
        _print_rows(rows) if output == "table" else print_data(rows, output)
    if check and answer.unplaced:
        raise SystemExit(EXIT_CHECK_FAILED)


def parse_changes(
    down: tuple[str, ...], taint: tuple[str, ...], label: tuple[str, ...], scale: tuple[str, ...], *, reschedule: bool
) -> list[Change]:
    """The changes that flags ask for, in the order: labels, taints, lost clusters, scales, rescheduling.

    Raises:
        click.UsageError: one is not written as it should be.
    """
    changes: list[Change] = [_label(text) for text in label]
    changes += [_taint(text) for text in taint]
    changes += [Down(name) for name in down]
    changes += [_scale(text) for text in scale]
    return changes + ([Reschedule()] if reschedule else [])


def _label(text: str) -> AddLabel:
    cluster, _, pair = text.partition("=")
    key, equals, value = pair.partition("=")
    if not (cluster and equals and is_label_key(key) and is_label_value(value)):
        raise click.UsageError(f"--label {text!r}: accepted is CLUSTER=KEY=VALUE, as in member1=env=prod")
    return AddLabel(cluster, key, value)


def _taint(text: str) -> AddTaint:
    cluster, _, rest = text.partition("=")
    pair, _, effect = rest.rpartition(":")
    key, _, value = pair.partition("=")
    if not (cluster and effect in EFFECTS and is_label_key(key) and is_label_value(value)):
        accepted = f"CLUSTER=KEY[=VALUE]:EFFECT, where the effect is one of {', '.join(EFFECTS)}"
        raise click.UsageError(f"--taint {text!r}: accepted is {accepted}")
    return AddTaint(cluster, Taint(key=key, value=value, effect=effect))


def _scale(text: str) -> Scale:
    name, _, number = text.rpartition("=")
    if not (name and number.isascii() and number.isdigit() and int(number) <= INT32_MAX):
        raise click.UsageError(f"--scale {text!r}: accepted is [NAMESPACE/]KIND/NAME=N, N from 0 to {INT32_MAX}")
    return Scale(resource_name(name), int(number))


def _print_rows(rows: list[Row]) -> None:
    if not rows:
        complain(_NOTHING)
        return
    cells = [
        (each.resource, each.policy or "", each.group or "", _placed(each), escape(each.message or "")) for each in rows
    ]
    print_table(stdout(), ("RESOURCE", "POLICY", "GROUP", "CLUSTERS", "NOTE"), cells)


def _print_changes(rows: list[ChangeRow]) -> None:
    if not rows:
        complain(_NOTHING)
        return
    cells = [
        (each.resource, _placed(each.before), _placed(each.after), _moved(each), escape(_why(each.after)))
        for each in rows
    ]
    print_table(stdout(), ("RESOURCE", "BEFORE", "AFTER", "MOVES", "NOTE"), cells)


def _placed(row: Row) -> str:
    """The assignment as ``cluster=replicas ...``."""
    if not row.clusters:
        return "-" if row.replicas is None else f"[yellow]{_NO_PLACE}[/]"
    return " ".join(f"{name}={replicas}" if replicas else name for name, replicas in row.clusters.items())


def _moved(change: ChangeRow) -> str:
    def told(cluster: str, then: int | None, now: int | None) -> str:
        if then or now:
            return f"{cluster} {then or 0}→{now or 0}"
        return f"+{cluster}" if then is None else f"-{cluster}"

    changes = (told(cluster, then, now) for cluster, (then, now) in change.moves.items())
    return ", ".join(changes) or "[dim]stays[/]"


def _why(row: Row) -> str:
    """What made it be scheduled, and what came of it."""
    note = row.message or ""
    if row.trigger is Trigger.NONE:
        return note or "nothing triggers a rescheduling"
    parts = [row.trigger.value, f"group {row.group}" if row.group else "", note]
    return "; ".join(part for part in parts if part)
