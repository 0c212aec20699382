"""``berthmaster simulate``: where workloads go, and what a change would move."""

from datetime import timedelta

import click
import msgspec
from rich.markup import escape

from cli.batch import answer_lines
from cli.console import complain, output_option, print_data, print_table, stdout
from cli.inputs import input_options, now, profile, read_world, resource_name, workload_affinity_on
from cli.main import EXIT_CHECK_FAILED
from extender.scheduling.decision import Failure
from extender.scheduling.trigger import Trigger
from extender.simulation.changes import AddLabel, AddTaint, Change, Down, Reschedule, Scale, apply
from extender.simulation.run import Outcome, moves, run, unplaced
from fleet.manifests import Manifests
from fleet.model.base import INT32_MAX
from fleet.model.selector import is_label_key, is_label_value
from fleet.model.taint import EFFECTS, Taint

_NO_PLACE = "nowhere"


class ResultRow(msgspec.Struct, rename="camel"):
    """One workload in JSON and YAML output."""

    resource: str
    policy: str | None
    group: str | None
    clusters: dict[str, int]
    trigger: str
    error: str | None
    message: str | None


class ChangeRow(msgspec.Struct, rename="camel"):
    """One workload before and after."""

    resource: str
    before: ResultRow
    after: ResultRow
    moves: dict[str, list[int | None]]


@click.command(
    epilog="With --down, --taint, --label, --scale or --reschedule it shows before and after, and what moves. "
    "Workloads are rescheduled only where Karmada would do so.",
)
@input_options
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
    world, manifests = read_world(paths, replica_paths, workload_affinity=workload_affinity)
    start = now()
    world, before = run(world, decide, start)
    after: list[Outcome] | None = None
    if changes:
        later = start + timedelta(seconds=1)
        _, after = run(apply(changes, world, later), decide, later)
    if output == "table":
        _print_tables(manifests, before, after)
    elif after is None:
        print_data([_row(outcome) for outcome in before], output)
    else:
        print_data([_change_row(*pair) for pair in zip(before, after, strict=True)], output)
    if check and unplaced(before if after is None else after):
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


def _row(outcome: Outcome) -> ResultRow:
    claim, failure = outcome.workload.claim, _failure(outcome)
    return ResultRow(
        resource=str(outcome.workload),
        policy=str(claim.policy) if claim is not None else None,
        group=outcome.group or None,
        clusters=outcome.assignment,
        trigger=outcome.trigger.value,
        error=failure.kind.value if failure is not None else None,
        message=_note(outcome) or None,
    )


def _change_row(before: Outcome, after: Outcome) -> ChangeRow:
    moved = {cluster: list(pair) for cluster, pair in moves(before, after).items()}
    return ChangeRow(str(after.workload), _row(before), _row(after), moved)


def _print_tables(manifests: Manifests, before: list[Outcome], after: list[Outcome] | None) -> None:
    console = stdout()
    if not before:
        complain("no resource among the manifests: there is nothing to schedule")
    elif after is None:
        print_table(console, ("RESOURCE", "POLICY", "GROUP", "CLUSTERS", "NOTE"), [_cells(each) for each in before])
    else:
        cells = [_change_cells(*pair) for pair in zip(before, after, strict=True)]
        print_table(console, ("RESOURCE", "BEFORE", "AFTER", "MOVES", "NOTE"), cells)
    for ignored in manifests.ignored:
        complain(f"{ignored.document.place}: passed over: {ignored.reason}")


def _cells(outcome: Outcome) -> tuple[str, ...]:
    claim = outcome.workload.claim
    policy = str(claim.policy) if claim is not None else ""
    return (str(outcome.workload), policy, outcome.group, _placed(outcome), escape(_note(outcome)))


def _change_cells(before: Outcome, after: Outcome) -> tuple[str, ...]:
    return (str(after.workload), _placed(before), _placed(after), _moved(before, after), escape(_why(after)))


def _placed(outcome: Outcome) -> str:
    """The assignment as ``cluster=replicas ...``."""
    assignment = outcome.assignment
    if not assignment:
        return "-" if outcome.workload.binding is None else f"[yellow]{_NO_PLACE}[/]"
    return " ".join(f"{name}={replicas}" if replicas else name for name, replicas in assignment.items())


def _moved(before: Outcome, after: Outcome) -> str:
    def told(cluster: str, then: int | None, now: int | None) -> str:
        if then or now:
            return f"{cluster} {then or 0}→{now or 0}"
        return f"+{cluster}" if then is None else f"-{cluster}"

    changes = (told(cluster, then, now) for cluster, (then, now) in moves(before, after).items())
    return ", ".join(changes) or "[dim]stays[/]"


def _why(outcome: Outcome) -> str:
    """What made it be scheduled, and what came of it."""
    note = _note(outcome)
    if outcome.trigger is Trigger.NONE:
        return note or "nothing triggers a rescheduling"
    parts = [outcome.trigger.value, f"group {outcome.group}" if outcome.group else "", note]
    return "; ".join(part for part in parts if part)


def _note(outcome: Outcome) -> str:
    if outcome.workload.binding is None:
        return "no policy selects it"
    failure = _failure(outcome)
    if failure is None:
        return "no replicas are wanted" if not outcome.assignment and outcome.decision is not None else ""
    return f"{failure.kind.value}: {failure.message}{_rejected_by(outcome)}"


def _failure(outcome: Outcome) -> Failure | None:
    return outcome.decision.failure if outcome.decision is not None else None


def _rejected_by(outcome: Outcome) -> str:
    """Which filters ruled the clusters of the first group out, the busiest first."""
    if outcome.diagnosis is None or not outcome.diagnosis.groups:
        return ""
    told = [f"{plugin} {count}" for plugin, count in outcome.diagnosis.groups[0].rejected_by()]
    return f" ({', '.join(told)})" if told else ""
