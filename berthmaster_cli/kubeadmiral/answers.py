"""``simulate`` and ``explain`` for the manifests of a KubeAdmiral federation."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec
from rich.text import Text

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.replicas import ReplicaPath
from berthmaster.scheduling.diagnosis import GroupDiagnosis
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.kubeadmiral.unit import ReplicasStrategy, SchedulingUnit
from berthmaster.simulation.kubeadmiral import federation as federations
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change
from berthmaster.views.texts import NAMED_CLUSTERS, assignment_text, brief_assignment, count_text, numbers
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.inputs import time_of
from berthmaster_cli.output import complain_about, print_line, print_table, styled
from berthmaster_cli.tables import NOT_SCHEDULED, AssignmentText, View, is_printed_as_data, print_group, require_known
from extender.protocols.kubeadmiral.groups_plugin import webhooks_of

_WIDE_COLUMNS: Final = (numbers("REPLICAS"), "TRIGGER")
_PLACEMENTS: Final = AnswerKind("FederationPlacementList", list[federations.FederationRow])
_CHANGES: Final = AnswerKind("FederationChangeList", list[federations.FederationChange])


class FederationExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of the decision on one workload. In mode Duplicate each cluster has all ``replicas``.

    ``overrides``: the annotations of the workload that override its policy.
    """

    workload: federations.FederationRow
    mode: str | None
    replicas: int | None
    diagnosis: GroupDiagnosis | None
    overrides: list[str] = []


EXPLANATION: Final = AnswerKind("FederationExplanation", FederationExplanation)


def simulate_federation(
    manifests: Manifests,
    replica_paths: Sequence[ReplicaPath],
    changes: Sequence[Change],
    output: str,
    view: View,
    *,
    duplicate_limits: bool = False,
) -> bool:
    """Print where workloads are placed, or what changes move, and return whether every replica is placed."""
    if view.selector is not None:
        raise InputError("-l selects workloads of Karmada only; name the workloads of a KubeAdmiral federation instead")
    federation = _federation(manifests, replica_paths, duplicate_limits=duplicate_limits)
    compared = federations.compare_federation(federation, changes, time_of(manifests))
    require_known(view, [str(each.bound.name) for each in compared.after])
    if changes:
        changed = [federations.federation_change(*pair) for pair in zip(compared.before, compared.after, strict=True)]
        if output in {"table", "wide"}:
            moved = sum(bool(each.moves) for each in changed)
            failed = sum(_fails(each.after) for each in changed)
            left = f"; {failed} left without a place for all replicas" if failed else ""
            verb = "moves" if 1 in {moved, len(changed)} else "move"
            count = count_text(len(changed), "workload")
            print_line(styled("Plan", "bold"), f": {moved} of {count} {verb}{left}")
        printed = [each for each in changed if view.shows(each.resource) and _is_printed(each, view, output)]
        if printed or output in {"json", "yaml"}:
            _print_changes(printed, output)
    else:
        settled = [federations.federation_row(each) for each in compared.settled]
        _print_results(
            [each for each in settled if view.shows(each.resource) and view.wants(fails=_fails(each))], output
        )
    return not any(
        each.unplaced or (each.decision is not None and each.decision.failure is not None) for each in compared.after
    )


def _fails(row: federations.FederationRow) -> bool:
    """Return whether a workload, or a part of its replicas, has no place."""
    return row.error is not None or row.unplaced > 0


def _is_printed(change: federations.FederationChange, view: View, output: str) -> bool:
    """Return whether a change is printed. A table has what moves or fails, unless a view asks for more."""
    moves, fails = bool(change.moves), _fails(change.after)
    if view.only or view.show_all or view.names or output in {"json", "yaml"}:
        return view.wants(moves=moves, fails=fails)
    return moves or fails


def _print_results(rows: Sequence[federations.FederationRow], output: str) -> None:
    """Print where workloads are placed, in one of ``output.WORKLOAD_FORMATS``."""
    if is_printed_as_data(_PLACEMENTS, rows, output):
        return
    wide, text = _text_of(output)
    cells = [
        (each.resource, each.policy or "", *_wide_cells(each, wide=wide), _placed(each, text), each.message or "")
        for each in rows
    ]
    print_table(("RESOURCE", "POLICY", *(_WIDE_COLUMNS if wide else ()), "CLUSTERS", "NOTE"), cells)


def _print_changes(rows: Sequence[federations.FederationChange], output: str) -> None:
    """Print what changes move, in one of ``output.WORKLOAD_FORMATS``."""
    if is_printed_as_data(_CHANGES, rows, output):
        return
    wide, text = _text_of(output)
    cells = [
        (
            each.resource, *((each.after.policy or "", *_wide_cells(each.after, wide=True)) if wide else ()),
            _placed(each.before, text), _placed(each.after, text), _moves(each, wide=wide), _why(each.after),
        )
        for each in rows
    ]  # fmt: skip
    more = ("POLICY", *_WIDE_COLUMNS) if wide else ()
    print_table(("RESOURCE", *more, "BEFORE", "AFTER", "MOVES", "NOTE"), cells)


def _text_of(output: str) -> tuple[bool, AssignmentText]:
    """Return whether a table is wide, and what formats its assignments."""
    return output == "wide", assignment_text if output == "wide" else brief_assignment


def _wide_cells(row: federations.FederationRow, *, wide: bool) -> tuple[str, ...]:
    return ("" if row.replicas is None else str(row.replicas), row.trigger) if wide else ()


def _placed(row: federations.FederationRow, text: AssignmentText) -> str | Text:
    return text(dict(sorted(row.clusters.items()))) or NOT_SCHEDULED


def _moves(change: federations.FederationChange, *, wide: bool) -> str | Text:
    if not wide and len(change.moves) > NAMED_CLUSTERS:
        return f"{len(change.moves):,} clusters"

    def text(cluster: str, before: int | None, after: int | None) -> str:
        if before or after:
            return f"{cluster} {before or 0}→{after or 0}"
        return f"+{cluster}" if cluster in change.after.clusters else f"-{cluster}"

    return ", ".join(text(cluster, *counts) for cluster, counts in change.moves.items()) or styled("none", "dim")


def _why(row: federations.FederationRow) -> str:
    """Return why a workload was scheduled, and with which result, or why it was not."""
    if row.trigger == Trigger.NONE.value:
        return row.message or "nothing triggers rescheduling"
    return "; ".join(filter(None, (row.trigger, row.message)))


def _federation(
    manifests: Manifests, replica_paths: Sequence[ReplicaPath], *, duplicate_limits: bool
) -> federations.Federation:
    reported = len(manifests.gaps)
    federation = federations.federation_of(
        manifests, replica_paths, webhooks=webhooks_of(manifests), duplicate_limits=duplicate_limits
    )
    complain_about(manifests.gaps[reported:])
    return federation


def explain_in_federation(
    manifests: Manifests,
    replica_paths: Sequence[ReplicaPath],
    name: ResourceName,
    changes: Sequence[Change] = (),
    *,
    duplicate_limits: bool = False,
) -> FederationExplanation:
    """Explain the decision on one workload of a federation, after changes if there are any."""
    start = time_of(manifests)
    federation = _federation(manifests, replica_paths, duplicate_limits=duplicate_limits)
    if changes:
        settled, _ = federations.run_federation(federation, start)
        start += timedelta(seconds=1)
        federation = federations.apply_to_federation(changes, settled, start)
    _, results = federations.run_federation(federation, start, diagnose=True)
    found = [each for each in results if name.matches(each.bound.workload)]
    if len(found) != 1:
        known = name_list([str(each.bound.name) for each in results])
        raise InputError(f"{name} matches {len(found) or 'no'} resources of the manifests; known are {known}")
    (result,) = found
    unit = result.unit
    mode = _mode(unit) if unit is not None else None
    return FederationExplanation(
        federations.federation_row(result),
        mode,
        result.bound.workload.replicas,
        result.diagnosis,
        list(result.overrides),
    )


def print_federation_explanation(explained: FederationExplanation, limit: int) -> None:
    """Print why a workload is placed where it is."""
    workload = explained.workload
    replicas = count_text(explained.replicas, "replica") if explained.replicas is not None else ""
    headline = filter(None, (replicas, explained.mode, workload.trigger))
    print_line(styled(workload.resource, "bold"), *(f"  {part}" for part in headline))
    if workload.policy is not None:
        print_line(f"bound to {workload.policy}")
    if explained.overrides:
        print_line(f"annotations override the policy: {', '.join(explained.overrides)}")
    if explained.diagnosis is not None:
        print_line()
        print_group(explained.diagnosis, limit)
    clusters = assignment_text(dict(sorted(workload.clusters.items())))
    print_line()
    if clusters:
        print_line(styled("scheduled to", "bold green"), f" {clusters}")
    else:
        print_line(styled("not scheduled", "bold red"))
    if workload.message is not None:
        print_line(workload.message)


def _mode(unit: SchedulingUnit) -> str:
    if not unit.divide:
        return "Duplicate"
    if unit.strategy is ReplicasStrategy.BINPACK:
        return "Divide, binpack"
    is_static = any(each.weight is not None for each in unit.preferences.values())
    return f"Divide, {'static' if is_static else 'dynamic'} weight"
