"""What every output format of a plan says, in this order: the headline, and tables with the worst first."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from berthmaster.model.errors import name_list
from berthmaster.simulation.plan_answer import (
    Assumptions,
    ClaimChange,
    ClusterTotal,
    Loss,
    Plan,
    PlannedMove,
    PlanSummary,
    PolicyEffect,
    UnplacedWorkload,
)
from berthmaster.simulation.plan_rows import not_running_text
from berthmaster.views.assumption_texts import SwitchName, as_option, eviction_line, loss_lines, preemption_line
from berthmaster.views.texts import (
    Cell,
    Section,
    Word,
    assignment_text,
    columns_of,
    cost_text,
    count_text,
    names_cell,
    numbers,
    resource_text,
    section,
)

_NAMED: Final = 3
_OF_ARRIVING: Final = "Clusters (what arriving replicas request / what is free now)"
_OF_ALL: Final = "Clusters (what all replicas request / what is free; without bindings it is not known what runs)"
INCOMPLETE: Final = "This plan is incomplete: more can move than it shows."
_ABBREVIATIONS: Final = frozenset({"CPU"})
_CLAIM_FIELDS = ("gains", "takes", "loses", "unclaimed")
_OTHER: Mapping[str, str] = {"gains": " from {}", "takes": " from {}", "loses": " to {}", "unclaimed": ""}


def _bad(text: str) -> Cell:
    return Cell(text, is_bad=True)


def _workload(resource: str) -> Cell:
    return names_cell(Word(resource), workload=resource)


def _policy(policy: str | None) -> Cell:
    return names_cell(*map(Word, policy.split(" "))) if policy else Cell("")


def _assignment(clusters: Mapping[str, int]) -> Cell:
    shown = {name: replicas or None for name, replicas in clusters.items()}
    words = [Word(assignment_text({name: replicas}), cluster=name) for name, replicas in shown.items()]
    return names_cell(*words) if words else names_cell(Word("nowhere", is_name=False))


def heading(name: str) -> str:
    """Return the heading of a column for prose: a word, or an abbreviation."""
    return name if name in _ABBREVIATIONS else name.capitalize()


def opening(plan: Plan, named: SwitchName = as_option) -> list[str]:
    """Return what a plan says first: what it assumes, and what stops running; empty if it depends on no switch."""
    lines = assumed(plan.assumptions, plan.loss, plan.summary.moved, named, evicting_taints=plan.evicting_taints)
    return [*lines, preemption_line(plan.assumptions, named)] if plan.preemption_matters else lines


def assumed(
    assumptions: Assumptions, loss: Loss | None, moved: int, named: SwitchName = as_option, *, evicting_taints: bool
) -> list[str]:
    """Return what an answer assumes about failover, and what stops running."""
    lines = list(loss_lines(assumptions, loss, moved, named)) if loss is not None else []
    return [eviction_line(assumptions, evicts=True, named=named), *lines] if evicting_taints else lines


def headline(plan: Plan) -> str:
    """Return what moves in total, as one sentence."""
    parts = [what_moves(plan), *(f"{left.workloads:,} {left.text}{left.also}" for left in left_behind(plan.summary))]
    if plan.deleted_copies:
        parts.append("1 copy is deleted" if plan.deleted_copies == 1 else f"{plan.deleted_copies:,} copies are deleted")
    if plan.overcommitted:
        parts.append(f"overcommitted: {name_list(plan.overcommitted, _NAMED)}")
    return "; ".join(parts)


def what_moves(plan: Plan) -> str:
    """Return what moves in total. "Nothing moves" is said only of a complete plan."""
    summary = plan.summary
    if not summary.moved:
        return "nothing moves" if plan.complete else "nothing is known to move"
    return moved_text(summary)


def moved_text(summary: PlanSummary) -> str:
    """Return how many workloads and replicas move, and how many of the workloads also move without the changes."""
    verb = "moves" if 1 in {summary.moved, summary.workloads} else "move"
    total, replicas = count_text(summary.workloads, "workload"), count_text(summary.replicas, "replica")
    moved = f"{summary.moved:,} of {total} {verb}{_also(summary.due, summary.moved)}, {replicas}"
    return moved if summary.cost is None else f"{moved}; {cost_text(summary.cost)}"


class LeftBehind(NamedTuple):
    """Workloads that a change leaves in one state."""

    workloads: int
    text: str
    also: str


def left_behind(summary: PlanSummary) -> Iterator[LeftBehind]:
    """Yield the workloads that have no place afterwards, and those with too few replicas."""
    new, keeping = set(summary.new_failures), set(summary.keeping)
    for names, text in (
        (summary.nowhere, "left without a place"),
        ([each for each in summary.short if each not in keeping], "left with too few replicas"),
        ([each for each in summary.short if each in keeping], "cannot be scheduled, and kept where it is"),
    ):
        if names:
            yield LeftBehind(len(names), text, _also(len(set(names) - new), len(names)))


def _also(known: int, of: int) -> str:
    if not known:
        return ""
    return " (also without the changes)" if known == of else f" ({known:,} of them also without the changes)"


def sections(plan: Plan) -> Iterator[Section]:
    """Yield the tables that are not empty."""
    found = (
        _unplaced(plan),
        _moves(plan),
        _moves(plan, due=True),
        cluster_section(plan.clusters),
        _policies(plan),
        _staying(plan),
        _overrides(plan),
    )
    yield from (each for each in found if each.rows)


def unplaced_text(found: UnplacedWorkload) -> str:
    """Return what becomes of a workload that cannot be scheduled."""
    if found.nowhere:
        return "no place"
    return "keeps what it has" if found.keeps else "too few replicas"


def _unplaced(plan: Plan) -> Section:
    rows = [
        (
            _workload(each.resource), _policy(each.policy), _bad(unplaced_text(each)),
            _bad("the change") if each.by_change else "before, too", each.message,
        )
        for each in plan.unplaced
    ]  # fmt: skip
    return section("Left without a place", ("WORKLOAD", "POLICY", "RESULT", "SINCE", "WHY"), rows)


def _moves(plan: Plan, *, due: bool = False) -> Section:
    rows = [
        (
            _workload(each.resource), _assignment(each.before), _assignment(each.after),
            _groups(each), f"{each.replicas:,}", _leaving(each), _why(each),
        )
        for each in plan.moves
        if each.due is due
    ]  # fmt: skip
    columns = (
        "WORKLOAD", "FROM", "TO", "GROUP", numbers("REPLICAS"), "DELETED COPIES", "WHY",
    )  # fmt: skip
    return section("Due without the change, too" if due else "Moves", columns, rows)


def cluster_section(clusters: Sequence[ClusterTotal]) -> Section:
    """Return the table of clusters before and after changes, the overcommitted ones first."""
    totals = sorted(clusters, key=lambda each: (not each.overcommitted, each.cluster))
    observed = all(each.arriving is not None for each in clusters)
    rows = [
        (
            names_cell(Word(each.cluster, cluster=each.cluster)),
            f"{each.before:,} → {each.after:,}" if each.before != each.after else f"{each.after:,}",
            "unknown" if each.arriving is None else f"{each.arriving:,}",
            resource_text(each, "cpu"), resource_text(each, "memory"),
            _bad(f"overcommitted: {', '.join(each.overcommitted)}") if each.overcommitted else "",
        )
        for each in totals
    ]  # fmt: skip
    columns = columns_of("CLUSTER", *map(numbers, ("REPLICAS", "ARRIVING", "CPU", "MEMORY")), "NOTE")
    return section(_OF_ARRIVING if observed else _OF_ALL, columns, rows)


def _policies(plan: Plan) -> Section:
    rows: list[Sequence[Cell | str]] = [
        (_policy(each.policy), each.action, f"{each.keeps:,}", *(_claims(each, field) for field in _CLAIM_FIELDS))
        for each in plan.policies
    ]
    return section("Policies", ("POLICY", "CHANGE", numbers("KEEPS"), "GAINS", "TAKES", "LOSES", "UNCLAIMED"), rows)


def _staying(plan: Plan) -> Section:
    names: dict[tuple[str, str], list[str]] = {}
    for each in plan.staying:
        names.setdefault((each.policy or "", "; ".join((each.message, *each.notes))), []).append(each.resource)
    rows = [
        (_policy(policy), f"{len(found):,}", message, name_list(found, _NAMED))
        for (policy, message), found in sorted(names.items(), key=lambda item: -len(item[1]))
    ]
    return section("Does not move", ("POLICY", numbers("WORKLOADS"), "WHY", "WHICH"), rows)


def _overrides(plan: Plan) -> Section:
    rows = [(_policy(each), "changes what clusters run, and never where") for each in plan.overrides]
    return section("Overrides", ("POLICY", "NOTE"), rows)


def group_text(move: PlannedMove) -> str:
    """Return the group of an assignment, and the one before if it was another."""
    if move.group_before and move.group and move.group_before != move.group:
        return f"{move.group_before} → {move.group}"
    return move.group or ""


def _groups(move: PlannedMove) -> Cell:
    names = dict.fromkeys(filter(None, (move.group_before if move.group else "", move.group)))
    words = [word for name in names for word in (Word("→", is_name=False), Word(name))][1:]
    return Cell(group_text(move), words=tuple(words))


def _why(move: PlannedMove) -> str:
    return "; ".join(filter(None, (move.reason, not_running_text(move.not_running), *move.notes)))


def _leaving(move: PlannedMove) -> Cell:
    found = (("", move.deleted), ("later:", move.evicting), ("kept:", move.preserved))
    parts = [
        (Word(title, is_name=False), *(Word(name, cluster=name) for name in names)) for title, names in found if names
    ]
    texts = [" ".join(word.text for word in part if word.text) for part in parts]
    return Cell("; ".join(texts), words=tuple(word for part in parts for word in part if word.text))


def _claims(effect: PolicyEffect, field: str) -> str:
    changes: Sequence[ClaimChange] = getattr(effect, field)
    if not changes:
        return ""
    names = name_list([each.resource for each in changes], _NAMED)
    others = sorted({other for each in changes if (other := each.after if field == "loses" else each.before)})
    return (
        f"{len(changes)}: {names}" + _OTHER[field].format(name_list(others, _NAMED))
        if others
        else (f"{len(changes)}: {names}")
    )
