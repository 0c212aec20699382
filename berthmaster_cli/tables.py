"""The tables of simulate, explain and plan, and which workloads they show."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

import click
from msgspec.structs import replace
from rich.text import Text

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.selector import LabelSelector
from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.diagnosis import ClusterDiagnosis, GroupDiagnosis, Outcome
from berthmaster.simulation.detector import PolicyEdit, preemptors
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.report import Row
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import World
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
from berthmaster_cli import completion
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import argument, option
from berthmaster_cli.output import complain, is_printed, joined, print_line, print_table, styled
from berthmaster_cli.resource_names import name_in, resource_name
from berthmaster_cli.source_options import NamespaceFlags, SelectorFlags

_STYLES: Final = {
    Outcome.ASSIGNED: "green",
    Outcome.NO_REPLICAS: "yellow",
    Outcome.NOT_SELECTED: "yellow",
    Outcome.REJECTED: "red",
}
PLAN: Final = AnswerKind("Plan", Plan)
_PLACEMENTS: Final = AnswerKind("PlacementList", list[Row])
_NO_ROWS: Final = "there are no workloads to show"
_WIDE_COLUMNS: Final = (numbers("REPLICAS"), "TRIGGER", "SCHEDULER")
TRIGGERS_HELP: Final = (
    "Why a workload is scheduled: First (never before), Reconcile (its placement changed; or it is duplicated or has "
    "no replicas, and is scheduled at every event), Scale (the number of replicas changed), Rescheduled (as by a "
    "WorkloadRebalancer), Failover (a cluster is lost or evicted), None. Why not: NoFit (no cluster passes the "
    "filters), SelectFailed (the spread constraints cannot be satisfied), Insufficient (the selected clusters do not "
    "hold all replicas)."
)
NOT_SCHEDULED: Final = styled("not scheduled", "yellow")
_BEST_FIRST: Final = tuple(_STYLES)
_GROUP_COLUMNS: Final = columns_of(
    "CLUSTER", "RESULT", *map(numbers, ("REPLICAS", "CURRENT", "CAPACITY", "SCORE", "WEIGHT")), "WHY",
)  # fmt: skip


AssignmentText = Callable[[Mapping[str, int | None]], str]
"""Formats an assignment for a cell."""
_NO_LABELS: Final[Mapping[str, str]] = {}


def print_results(rows: Sequence[Row], output: str) -> None:
    """Print where workloads are placed, in one of ``console.WORKLOAD_FORMATS``."""
    if is_printed_as_data(_PLACEMENTS, rows, output):
        return
    wide = output == "wide"
    text = assignment_text if wide else brief_assignment
    cells = [
        (
            each.resource,
            each.policy or "",
            *(_wide(each) if wide else ()),
            each.group or "",
            _placed(each, text),
            _remark(each, text),
        )
        for each in rows
    ]
    columns = ("RESOURCE", "POLICY", *(_WIDE_COLUMNS if wide else ()), "GROUP", "CLUSTERS", "NOTE")
    print_table(columns, cells)


def is_printed_as_data(kind: AnswerKind, rows: Sequence[Any], output: str) -> bool:
    """Print rows as data or as names, or that there are none. Return False if a table has to show them."""
    if is_printed(output, kind, rows, (each.resource for each in rows)):
        return True
    if not rows:
        complain(_NO_ROWS)
    return not rows


def _wide(row: Row) -> tuple[str, ...]:
    """Return the cells of ``_WIDE_COLUMNS``."""
    return "" if row.replicas is None else str(row.replicas), row.trigger.value, row.scheduler or ""


def _placed(row: Row, text: AssignmentText) -> str | Text:
    if row.replicas is None and not row.clusters:
        return "-"
    return text(without_zeros(row.clusters)) or NOT_SCHEDULED


def _remark(row: Row, text: AssignmentText) -> str:
    """Format the message and the notes on a result, and where the workload is now if it moves."""
    moved = ""
    if row.present is not None and row.present != row.clusters:
        moved = f"{row.trigger.value}: now on {text(without_zeros(row.present)) or 'no cluster'}"
    follows = [f"follows {', '.join(row.follows)}"] if row.follows and row.not_scheduled is None else []
    return "; ".join(filter(None, (moved, row.message, *follows, *row.notes)))


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


class Only(StrEnum):
    """What happens to a workload."""

    MOVES = "moves"
    FAILS = "fails"
    STAYS = "stays"


def _only_names(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a word that is no name before anything is read."""
    for each in words:
        resource_name(each)
    return words


class ViewFlags(NamespaceFlags, SelectorFlags):
    """Which workloads are printed."""

    resources: tuple[str, ...] = argument(
        nargs=-1, metavar="[TYPE/NAME]...", shell_complete=completion.workloads, callback=_only_names
    )
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

    def wants(self, *, moves: bool = False, fails: bool = False) -> bool:
        """Return whether a workload to which this happens is printed."""
        happens = {Only.MOVES: moves, Only.FAILS: fails, Only.STAYS: not moves}
        return not self.only or any(happens[each] for each in self.only)

    def of_plan(self, plan: Plan, shown: Collection[str]) -> Plan:
        """Return a plan with the rows to print. Its id and its totals stay those of all workloads.

        ``shown``: the workloads that ``shows`` accepts.
        """
        lists = {"moves": Only.MOVES, "unplaced": Only.FAILS, "staying": Only.STAYS}
        kept = {name for name, only in lists.items() if not self.only or only in self.only}
        rows = {name: getattr(plan, name) if name in kept else [] for name in lists}
        return replace(plan, **{name: [row for row in found if row.resource in shown] for name, found in rows.items()})


def view_from(flags: ViewFlags, manifests: Manifests | None = None) -> View:
    """Return the view. Without manifests, kinds are the built-in ones."""
    names = [resource_name(text) for text in flags.resources]
    known = manifests or Manifests()
    return View(
        tuple(name_in(known, name, flags.namespace) for name in names),
        flags.labels,
        frozenset(Only(each) for each in flags.only),
        flags.show_all,
    )


def require_known(view: View, resources: Sequence[str]) -> None:
    """Check that every name of a view is among the workloads."""
    for name in view.names:
        if not any(_means(name, resource) for resource in resources):
            raise InputError(f"there is no {name} among {len(resources)} workloads")


def _means(name: ResourceName, resource: str) -> bool:
    return name.matches(ResourceName.parse(resource))


def scope_of_totals(view: View, namespace: str) -> str:
    """Return what the totals of a plan are about, if a filter leaves rows out; empty without one."""
    filtered = bool(view.names or view.selector is not None or view.only)
    within = f" in namespace {namespace}" if namespace else ""
    if filtered:
        return f"The totals are about all workloads{within}; only selected ones are listed."
    return f"The totals are about namespace {namespace} only." if namespace else ""


def print_plan(plan: Plan, *, wide: bool = False) -> None:
    """Print a plan: the headline with its id, what is not known, and the tables. ``wide``: name every cluster."""
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
        _print_section(section, wide=wide)


def _brief(cell: Cell) -> str:
    """Return the text of a cell that names at most ``NAMED_CLUSTERS`` clusters. JSON, YAML and HTML have all."""
    clusters = sum(bool(each.cluster) for each in cell.words)
    return f"{clusters:,} clusters" if clusters > NAMED_CLUSTERS else cell.text


def _print_section(section: Section, *, wide: bool) -> None:
    print_line()
    print_line(styled(section.title, "bold"))
    text = attrgetter("text") if wide else _brief
    rows = [[styled(text(each), "bold red") if each.is_bad else text(each) for each in row] for row in section.rows]
    print_table(section.columns, rows)


def print_preemption(manifests: Manifests, world: World) -> None:
    """Print what an answer assumes about preemption, if a policy of a file can take workloads over."""
    edits = [PolicyEdit(before, after) for before, after in manifests.policy_edits]
    catalog = PolicyCatalog(manifests.policies)
    if any(each.has_effect and any(True for _ in preemptors(each, catalog)) for each in edits):
        print_line(preemption_line(world.assumptions))
