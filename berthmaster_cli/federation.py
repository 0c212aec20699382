"""``simulate`` and ``explain`` on the manifests of a KubeAdmiral federation."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec
from rich.console import Console
from rich.markup import escape

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError
from berthmaster.model.replicas import ReplicaPath
from berthmaster.scheduling.diagnosis import GroupDiagnosis
from berthmaster.scheduling.kubeadmiral.trigger import ObjectTrigger
from berthmaster.scheduling.kubeadmiral.unit import ReplicasStrategy
from berthmaster.simulation.changes import Change
from berthmaster.simulation.federation import FederatedResult, apply_to_federation, federation_of, run_federation
from berthmaster.simulation.world import ResourceName
from berthmaster_cli.console import print_data, print_table, stdout
from berthmaster_cli.group_table import print_group
from berthmaster_cli.inputs import now

Replicas = dict[str, int | None]


class FederationRow(msgspec.Struct, frozen=True, rename="camel"):
    """One workload.

    Attributes:
        resource: ``NAMESPACE/KIND/NAME``.
        policy: that its labels bind it to; None without.
        clusters: replicas by cluster; None where the mode assigns none.
        trigger: why it was scheduled.
        error: at which stage it failed; None if it did not, or was not scheduled.
        message: the failure, or whatever else is worth knowing.
    """

    resource: str
    policy: str | None
    clusters: Replicas
    trigger: str
    error: str | None
    message: str | None


class FederationChange(msgspec.Struct, frozen=True, rename="camel"):
    """One workload before and after the changes, and the clusters where they differ."""

    resource: str
    before: FederationRow
    after: FederationRow
    moves: dict[str, tuple[int | None, int | None]]


class FederationExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """One workload's decision, explained."""

    workload: FederationRow
    mode: str | None
    replicas: int | None
    diagnosis: GroupDiagnosis | None


def simulate_federation(
    manifests: Manifests, replica_paths: Sequence[ReplicaPath], changes: Sequence[Change], output: str
) -> bool:
    """Print where workloads go, or what changes move; whether every one of them has a place."""
    start = now()
    federation, before = run_federation(federation_of(manifests, replica_paths), start)
    if not changes:
        rows = [_row(each) for each in before]
        _print_rows(rows) if output == "table" else print_data(rows, output)
        return not _unplaced(before)
    later = start + timedelta(seconds=1)
    _, after = run_federation(apply_to_federation(changes, federation, later), later)
    changed = [_change(*pair) for pair in zip(before, after, strict=True)]
    _print_changes(changed) if output == "table" else print_data(changed, output)
    return not _unplaced(after)


def explain_in_federation(
    manifests: Manifests, replica_paths: Sequence[ReplicaPath], name: ResourceName
) -> FederationExplanation:
    """Why one workload of a federation is where it is.

    Raises:
        InputError: the name means none, or several.
    """
    federation = federation_of(manifests, replica_paths)
    _, outcomes = run_federation(federation, now(), diagnose=True)
    found = [each for each in outcomes if name in (each.bound.name, _without_namespace(each, name))]
    if len(found) != 1:
        known = ", ".join(str(each.bound.name) for each in outcomes[:8])
        raise InputError(f"{name} means {len(found) or 'no'} resources among the manifests; known are {known}")
    outcome = found[0]
    unit, mode = outcome.unit, None
    if unit is not None:
        spread = (
            "static weight" if any(each.weight is not None for each in unit.preferences.values()) else "dynamic weight"
        )
        how = "binpack" if unit.strategy is ReplicasStrategy.BINPACK else spread
        mode = f"Divide, {how}" if unit.divide else "Duplicate"
    replicas = unit.replicas if unit is not None and unit.divide else None
    return FederationExplanation(_row(outcome), mode, replicas, outcome.diagnosis)


def print_federation_explanation(console: Console, told: FederationExplanation, limit: int) -> None:
    """Print why a workload is where it is."""
    workload = told.workload
    replicas = f"{told.replicas} replicas" if told.replicas is not None else ""
    console.print(*filter(None, (f"[bold]{workload.resource}[/]", replicas, told.mode, workload.trigger)), sep="  ")
    if workload.policy is not None:
        console.print(f"bound to {workload.policy}")
    if told.diagnosis is not None:
        console.print()
        print_group(console, told.diagnosis, limit)
    style, verb = ("green", "goes to") if workload.clusters else ("red", "goes")
    console.print(f"\n[bold {style}]{verb}[/] {_placed(workload.clusters)}")
    if workload.message is not None:
        console.print(workload.message, markup=False)


def _without_namespace(outcome: FederatedResult, name: ResourceName) -> ResourceName | None:
    """The asked name, if it gives no namespace and otherwise fits."""
    own = outcome.bound.name
    same = not name.namespace and name.kind.lower() == own.kind.lower() and name.name == own.name
    return name if same else None


def _row(outcome: FederatedResult) -> FederationRow:
    bound, decision = outcome.bound, outcome.decision
    failure = decision.failure if decision is not None else None
    policy = bound.policy
    told = [failure.message] if failure is not None else []
    return FederationRow(
        resource=str(bound.name),
        policy=f"{policy.kind} {policy.metadata.name}" if policy is not None else None,
        clusters=dict(bound.workload.current),
        trigger=outcome.trigger.value,
        error=failure.kind.value if failure is not None else None,
        message="; ".join([*told, *outcome.notes]) or None,
    )


def _change(before: FederatedResult, after: FederatedResult) -> FederationChange:
    then, now_ = before.bound.workload.current, after.bound.workload.current
    moved = {
        name: (then.get(name), now_.get(name))
        for name in sorted(then.keys() | now_.keys())
        if (name in then, then.get(name)) != (name in now_, now_.get(name))
    }
    return FederationChange(str(after.bound.name), _row(before), _row(after), moved)


def _unplaced(outcomes: Sequence[FederatedResult]) -> bool:
    return any(each.decision is not None and each.decision.failure is not None for each in outcomes)


def _print_rows(rows: Sequence[FederationRow]) -> None:
    cells = [(each.resource, each.policy or "", _placed(each.clusters), escape(each.message or "")) for each in rows]
    print_table(stdout(), ("RESOURCE", "POLICY", "CLUSTERS", "NOTE"), cells)


def _print_changes(rows: Sequence[FederationChange]) -> None:
    cells = [
        (
            each.resource,
            _placed(each.before.clusters),
            _placed(each.after.clusters),
            _moved(each),
            escape(_why(each.after)),
        )
        for each in rows
    ]
    print_table(stdout(), ("RESOURCE", "BEFORE", "AFTER", "MOVES", "NOTE"), cells)


def _why(row: FederationRow) -> str:
    if row.trigger == ObjectTrigger.NONE.value:
        return row.message or "nothing that counts has changed"
    return f"{row.trigger}; {row.message}" if row.message else row.trigger


def _placed(clusters: Mapping[str, int | None]) -> str:
    told = (name if count is None else f"{name}={count}" for name, count in sorted(clusters.items()))
    return " ".join(told) or "[yellow]nowhere[/]"


def _moved(change: FederationChange) -> str:
    def told(name: str) -> str:
        then, now_ = change.moves[name]
        if then or now_:
            return f"{name} {then or 0}→{now_ or 0}"
        return f"+{name}" if name in change.after.clusters else f"-{name}"

    return ", ".join(told(name) for name in change.moves) or "[dim]stays[/]"
