"""The tables of simulate, explain and plan, for Karmada and for KubeAdmiral, and which workloads they show."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import click
from rich.text import Text

from berthmaster.manifests import Manifests
from berthmaster.model.claims import PolicyCatalog
from berthmaster.model.cluster import NO_EXECUTE
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.selector import LabelSelector, parse_selector
from berthmaster.scheduling.diagnosis import ClusterDiagnosis, GroupDiagnosis, Outcome
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.request import FailureKind
from berthmaster.simulation.changes import AddTaint
from berthmaster.simulation.detector import PolicyEdit, preemptors
from berthmaster.simulation.federation import FederationChange, FederationRow
from berthmaster.simulation.plan_answer import Assumptions, ClusterTotal, Loss, Plan, PlanSummary
from berthmaster.simulation.plan_rows import not_running_text
from berthmaster.simulation.report import ChangeRow, Row
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change, World
from berthmaster.views import plan_sections
from berthmaster.views.assumption_texts import preemption_line
from berthmaster.views.texts import (
    NAMED_CLUSTERS,
    Cell,
    Section,
    assignment_text,
    brief_assignment,
    columns_of,
    numbers,
    without_zeros,
)
from berthmaster_cli.flags import argument, option
from berthmaster_cli.inputs import NamespaceFlags, name_in, resource_name
from berthmaster_cli.output import complain, is_printed, joined, print_line, print_table, styled

_STYLES: Final = {
    Outcome.ASSIGNED: "green",
    Outcome.NO_REPLICAS: "yellow",
    Outcome.NOT_SELECTED: "yellow",
    Outcome.REJECTED: "red",
}
_NO_ROWS: Final = "there are no workloads to show"
_WIDE_COLUMNS: Final = (numbers("REPLICAS"), "TRIGGER", "SCHEDULER")
TRIGGERS_HELP: Final = (
    "Why a workload is scheduled: First (never before), Reconcile (its placement changed; or it is duplicated or has "
    "no replicas, and is scheduled at every event), Scale (the number of replicas changed), Rescheduled (as by a "
    "WorkloadRebalancer), Failover (a cluster is lost or evicted), None. Why not: NoFit (no cluster passes the "
    "filters), SelectFailed (the spread constraints cannot be satisfied), Insufficient (the selected clusters do not "
    "hold all replicas)."
)
_NOT_SCHEDULED: Final = styled("not scheduled", "yellow")
_BEST_FIRST: Final = tuple(_STYLES)
_GROUP_COLUMNS: Final = columns_of(
    "CLUSTER", "RESULT", *map(numbers, ("REPLICAS", "CURRENT", "CAPACITY", "SCORE", "WEIGHT")), "WHY",
)  # fmt: skip


AssignmentText = Callable[[Mapping[str, int | None]], str]
"""Formats an assignment for a cell."""
Results = Sequence[Row] | Sequence[FederationRow]
Changes = Sequence[ChangeRow] | Sequence[FederationChange]


def is_left(row: Row | FederationRow) -> bool:
    """Return whether a workload, or a part of its replicas, has no place."""
    return row.error is not None or (isinstance(row, FederationRow) and row.unplaced > 0)


def print_results(rows: Results, output: str) -> None:
    """Print where workloads are placed, in one of ``console.WORKLOAD_FORMATS``."""
    if _is_printed(rows, output):
        return
    wide = output == "wide"
    text = assignment_text if wide else brief_assignment
    cells = [
        (
            each.resource,
            each.policy or "",
            *_wide(each, wide=wide),
            _group(each),
            _placed(each, text),
            _remark(each, text),
        )
        for each in rows
    ]
    columns = ("RESOURCE", "POLICY", *(_WIDE_COLUMNS if wide else ()), "GROUP", "CLUSTERS", "NOTE")
    print_table(columns, cells)


def print_changes(rows: Changes, output: str) -> None:
    """Print what changes move, in one of ``console.WORKLOAD_FORMATS``."""
    if _is_printed(rows, output):
        return
    wide = output == "wide"
    text = assignment_text if wide else brief_assignment
    cells = [
        (
            each.resource, *((each.after.policy or "", *_wide(each.after, wide=True)) if wide else ()),
            _placed(each.before, text), _placed(each.after, text), _moves(each, wide=wide), _change_note(each, text),
        )
        for each in rows
    ]  # fmt: skip
    more = ("POLICY", *_WIDE_COLUMNS) if wide else ()
    print_table(("RESOURCE", *more, "BEFORE", "AFTER", "MOVES", "NOTE"), cells)


def _is_printed(rows: Results | Changes, output: str) -> bool:
    """Print rows as data or as names, or that there are none. Return False if a table has to show them."""
    if is_printed(output, rows, (each.resource for each in rows)):
        return True
    if not rows:
        complain(_NO_ROWS)
    return not rows


def _wide(row: Row | FederationRow, *, wide: bool) -> tuple[str, ...]:
    """Return the cells of ``_WIDE_COLUMNS``."""
    if not wide:
        return ()
    trigger = row.trigger.value if isinstance(row.trigger, Trigger) else row.trigger
    replicas = "" if row.replicas is None else str(row.replicas)
    return replicas, trigger, row.scheduler or "" if isinstance(row, Row) else ""


def _group(row: Row | FederationRow) -> str:
    return row.group or "" if isinstance(row, Row) else ""


def _placed(row: Row | FederationRow, text: AssignmentText) -> str | Text:
    if isinstance(row, FederationRow):
        return text(dict(sorted(row.clusters.items()))) or _NOT_SCHEDULED
    if row.replicas is None and not row.clusters:
        return "-"
    return text(without_zeros(row.clusters)) or _NOT_SCHEDULED


def _moves(change: ChangeRow | FederationChange, *, wide: bool) -> str | Text:
    if not wide and len(change.moves) > NAMED_CLUSTERS:
        return f"{len(change.moves):,} clusters"

    def text(cluster: str, before: int | None, after: int | None) -> str:
        if before or after:
            return f"{cluster} {before or 0}→{after or 0}"
        return f"+{cluster}" if cluster in change.after.clusters else f"-{cluster}"

    return ", ".join(text(cluster, *counts) for cluster, counts in change.moves.items()) or styled("none", "dim")


def _change_note(change: ChangeRow | FederationChange, text: AssignmentText) -> str:
    if not isinstance(change, ChangeRow):
        return _reason(change.after, "nothing triggers rescheduling")
    due = change.moves and not change.caused
    reason = _reason(change.after, "moves also without the changes" if due else "nothing triggers rescheduling")
    if waiting := not_running_text(change.not_running):
        reason = f"{waiting}; {reason}"
    if not change.stops:
        return reason
    only = ", and there is no other copy" if change.only_copy else ""
    left = "; nothing takes their place" if change.left else ""
    return f"{text(without_zeros(change.stops))} stops{only}{left}; {reason}"


def _reason(row: Row | FederationRow, without_trigger: str) -> str:
    """Format why a workload was scheduled, and with which result, or why it was not."""
    trigger = row.trigger.value if isinstance(row.trigger, Trigger) else row.trigger
    if trigger == Trigger.NONE.value:
        return "; ".join((row.message or without_trigger, *_notes(row)))
    group = _group(row)
    return "; ".join(filter(None, (trigger, f"group {group}" if group else "", row.message, *_notes(row))))


def _remark(row: Row | FederationRow, text: AssignmentText) -> str:
    """Format the message and the notes on a result, and where the workload is now if it moves."""
    moved = ""
    if isinstance(row, Row) and row.present is not None and row.present != row.clusters:
        moved = f"{row.trigger.value}: now on {text(without_zeros(row.present)) or 'no cluster'}"
    return "; ".join(filter(None, (moved, row.message, *_notes(row))))


def _notes(row: Row | FederationRow) -> list[str]:
    if not isinstance(row, Row):
        return []
    follows = [f"follows {', '.join(row.follows)}"] if row.follows and row.not_scheduled is None else []
    return [*follows, *row.notes]


def best_first(group: GroupDiagnosis) -> list[ClusterDiagnosis]:
    """Return the clusters of a group: those that get most replicas first, then those that passed most stages."""
    return sorted(
        group.clusters, key=lambda each: (_BEST_FIRST.index(each.outcome), -(each.replicas or 0), each.cluster)
    )


def print_group(group: GroupDiagnosis, limit: int) -> None:
    """Print whether scheduling to a group succeeded, then ``limit`` of its clusters, the best first; 0 for all."""
    title = f"group {group.group}" if group.group else "scheduling"
    print_line(styled(title, "bold"), " ", _group_result(group))
    clusters = best_first(group)
    limit = limit or len(clusters)
    print_table(_GROUP_COLUMNS, [_cells(each, group) for each in clusters[:limit]])
    hidden = clusters[limit:]
    if hidden:
        counts = Counter(each.rejections[0].plugin if each.rejections else each.outcome.value for each in hidden)
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
        print_line(styled(f"and {len(hidden)} more: {reasons} (--limit 0 shows all)", "dim"))


def _group_result(group: GroupDiagnosis) -> Text:
    if group.failure is None:
        return styled("succeeded", "green")
    no_fit = group.failure.kind is FailureKind.NO_FIT
    counts = ", ".join(f"{plugin} {count}" for plugin, count in group.rejected_by() if no_fit)
    return joined(styled("failed", "red"), f": {group.failure.message}{f' ({counts})' if counts else ''}")


def _cells(each: ClusterDiagnosis, group: GroupDiagnosis) -> tuple[str | Text, ...]:
    why = "; ".join(f"{rejection.plugin}: {rejection.reason}" for rejection in each.rejections)
    if not why and group.failure is None:
        why = each.reason  # the title shows the failure of a whole group
    counts = (each.replicas, each.current, each.weight)
    replicas, current, weight = ("" if number is None else str(number) for number in counts)
    capacity = "" if each.capacity is None else f"{each.capacity} ({each.bound_by})"
    score, outcome = str(sum(each.scores.values()) or ""), styled(each.outcome.value, _STYLES[each.outcome])
    return each.cluster, outcome, replicas, current, capacity, score, weight, why


_NO_LABELS: Final[Mapping[str, str]] = {}


class Only(StrEnum):
    """What happens to a workload."""

    MOVES = "moves"
    FAILS = "fails"
    STAYS = "stays"


class ViewFlags(NamespaceFlags):
    """Which workloads are printed."""

    resources: tuple[str, ...] = argument(nargs=-1, metavar="[TYPE/NAME]...")
    selector: str = option(
        "Print only workloads with these labels, as in kubectl.", "", names=("-l", "--selector"), metavar="SELECTOR"
    )
    only: tuple[str, ...] = option(
        "Print only workloads that move, that cannot be scheduled, or that stay. Repeatable.",
        type=click.Choice([each.value for each in Only]),
    )  # fmt: skip
    show_all: bool = option("With changes: print the workloads that stay, too.", names=("--all",))


@dataclass(frozen=True, slots=True)
class View:
    """The workloads to print."""

    names: tuple[ResourceName, ...] = ()
    selector: LabelSelector | None = None
    only: frozenset[Only] = frozenset()
    show_all: bool = False

    def shows(self, resource: str, labels: Mapping[str, str] = _NO_LABELS) -> bool:
        """Return whether a workload is printed, by its name (``NAMESPACE/KIND/NAME``) and labels."""
        if self.selector is not None and not self.selector.matches(labels):
            return False
        return not self.names or any(_means(name, resource) for name in self.names)

    def of_results(self, rows: Results) -> list[Any]:
        wanted = self.only or frozenset(Only)
        return [each for each in rows if (Only.FAILS if is_left(each) else Only.STAYS) in wanted]

    def of_changes(self, rows: Changes, *, table: bool) -> list[Any]:
        """Return the rows of changes to print. A table has what moves or fails because of the changes."""
        if self.only:
            return [each for each in rows if self.only & _what_happens(each)]
        if not table or self.show_all or self.names:
            return list(rows)
        return [each for each in rows if each.moves or _is_stopped_or_left(each)]


def _is_stopped_or_left(row: ChangeRow | FederationChange) -> bool:
    if isinstance(row, ChangeRow):
        return bool(row.stops) or (is_left(row.after) and row.caused)
    return is_left(row.after)


def view_from(flags: ViewFlags, manifests: Manifests | None = None) -> View:
    """Return the view. Without manifests, kinds are the built-in ones."""
    names = [resource_name(text) for text in flags.resources]
    known = manifests or Manifests()
    return View(
        tuple(name_in(known, name, flags.namespace) for name in names),
        parse_selector(flags.selector) if flags.selector else None,
        frozenset(Only(each) for each in flags.only),
        flags.show_all,
    )


def require_known(view: View, resources: Sequence[str]) -> None:
    """Check that every name of a view is among the workloads."""
    for name in view.names:
        if not any(_means(name, resource) for resource in resources):
            raise InputError(f"there is no {name} among {len(resources)} workloads")


def _means(name: ResourceName, resource: str) -> bool:
    found = ResourceName.parse(resource)
    return found is not None and name.matches(found)


def _what_happens(row: Any) -> set[Only]:  # noqa: ANN401 - a row of either control plane
    found = {Only.MOVES} if row.moves else {Only.STAYS}
    return found | ({Only.FAILS} if is_left(row.after) or (isinstance(row, ChangeRow) and row.left) else set())


def print_plan(plan: Plan) -> None:
    """Print a plan: the headline with its id, what is not known, and the tables."""
    for line in plan_sections.opening(plan):
        print_line(line)
    worst = bool(plan.summary.new_failures or plan.overcommitted)
    print_line(
        styled("Plan", "bold"), f" {plan.id}: ", styled(plan_sections.headline(plan), "bold red" if worst else "")
    )
    if not plan.complete:
        print_line(styled(plan_sections.INCOMPLETE, "bold red"))
        for gap in plan.gaps:
            print_line(f"not known: {gap}")
    for section in plan_sections.sections(plan):
        _print_section(section)


def _brief(cell: Cell) -> str:
    """Return the text of a cell that names at most ``NAMED_CLUSTERS`` clusters. JSON, YAML and HTML have all."""
    clusters = sum(bool(each.cluster) for each in cell.words)
    return f"{clusters:,} clusters" if clusters > NAMED_CLUSTERS else cell.text


def _print_section(section: Section) -> None:
    print_line()
    print_line(styled(section.title, "bold"))
    rows = [[styled(_brief(each), "bold red") if each.is_bad else _brief(each) for each in row] for row in section.rows]
    print_table(section.columns, rows)


_NAMED: Final = 5


def print_assumptions(assumptions: Assumptions, loss: Loss | None, moved: int, changes: Sequence[Change]) -> None:
    """Print what the answer assumes about the control plane, and what stops running."""
    taints = any(isinstance(each, AddTaint) and each.taint.effect == NO_EXECUTE for each in changes)
    lines = plan_sections.assumed(assumptions, loss, moved, evicting_taints=taints)
    for number, line in enumerate(lines):
        print_line(styled(line, "bold") if not number else line)


def print_preemption(manifests: Manifests, world: World) -> None:
    """Print what an answer assumes about preemption, if a policy of a file can take workloads over."""
    edits = [PolicyEdit(before, after) for before, after in manifests.policy_edits]
    catalog = PolicyCatalog(manifests.policies)
    if any(each.has_effect and any(True for _ in preemptors(each, catalog)) for each in edits):
        print_line(preemption_line(world.assumptions))


def print_summary(summary: PlanSummary) -> None:
    """Print what moves in total, as one sentence, then the workloads that are left without a place."""
    left: list[str | Text] = []
    for each in plan_sections.left_behind(summary):
        left += ["; ", styled(f"{each.workloads} {each.text}", "bold red"), each.also]
    print_line(styled("Plan", "bold"), f": {plan_sections.moved_text(summary)}", *left)
    if summary.new_failures:
        print_line(f"left by the changes: {name_list(summary.new_failures, _NAMED)}")


def print_clusters(totals: Sequence[ClusterTotal], *, show_all: bool) -> None:
    """Print replicas and resources of the clusters that change; of all clusters on demand."""
    shown = [each for each in totals if show_all or each.before != each.after or each.arriving or each.overcommitted]
    if shown:
        _print_section(plan_sections.cluster_section(shown))
