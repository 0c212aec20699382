"""What the page What if shows of a plan: pure functions of the extender's answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec.structs
from markupsafe import Markup

from berthmaster.model.binding import binding_name
from berthmaster.native_api.fleet import CLUSTER_SCOPED
from berthmaster.native_api.wire import PlanAnswer
from berthmaster.simulation.plan_answer import Plan, PolicyEffect
from berthmaster.simulation.workload import ResourceName
from berthmaster.views.plan_drawing import TITLE, drawing, flow_rows
from berthmaster.views.plan_sections import INCOMPLETE, Section, heading, headline, sections
from console.markup import drawn

MAX_ROWS: Final = 200
MORE_ROWS: Final = 1000
"""The most rows of a table, and the most if the visitor asks for more. The extender sends no more."""
_BAD: Final = ("no place", "too few replicas", "the change", "overcommitted:")

MaySee = Callable[[str], bool]


class CellView(NamedTuple):
    """A cell of a table.

    Attributes:
        words: the names in the cell, each shown whole; empty for a sentence.
        text: the sentence; empty for names.
        bad: whether the cell is bad news.
        place: namespace and name of the binding that the cell names, for a link; None without one.
    """

    words: tuple[str, ...] = ()
    text: str = ""
    bad: bool = False
    place: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TableView:
    """A table.

    Attributes:
        title: the title.
        columns: the name of each column, and whether it holds numbers.
        rows: the cells.
        more: how many rows are not shown.
    """

    title: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[CellView]]
    more: int


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan.

    Attributes:
        id: the identity of the plan.
        headline: what moves in total.
        bad: whether the change leaves workloads without a place, or overcommits clusters.
        quiet: whether nothing moves.
        incomplete: what to know about a plan that is not complete; empty for a complete one.
        gaps: what is not known.
        hidden: how many rows are left out because the visitor may not see their namespaces.
        drawing_title: the title of the drawing.
        drawing: the drawing; empty if nothing moves.
        flows: the same figures as rows: from, to, amount.
        tables: the tables, the worst first.
        truncated: whether the extender left rows out.
    """

    id: str
    headline: str
    bad: bool
    quiet: bool
    incomplete: str
    gaps: Sequence[str]
    hidden: int
    drawing_title: str
    drawing: Markup
    flows: Sequence[tuple[str, str, int]]
    tables: Sequence[TableView]
    truncated: bool

    @property
    def long(self) -> bool:
        """Whether a table has more rows than are shown."""
        return any(each.more for each in self.tables)


def plan_view(answer: PlanAnswer, may_see: MaySee, max_rows: int = MAX_ROWS) -> PlanView:
    """Return what the page shows of a plan.

    The headline is about everything. Rows of namespaces that the visitor may not see are left out.

    Args:
        answer: the extender's answer.
        may_see: whether the visitor may see a namespace; an empty name stands for cluster-scoped objects.
        max_rows: the most rows of a table.
    """
    whole = answer.plan
    plan, hidden = visible_plan(whole, may_see)
    text = headline(whole)
    return PlanView(
        id=whole.id,
        headline=f"{text[:1].upper()}{text[1:]}.",
        bad=bool(whole.summary.new_failures or whole.overcommitted),
        quiet=not whole.summary.moved and not whole.summary.new_failures and whole.complete,
        incomplete="" if whole.complete else INCOMPLETE,
        gaps=whole.gaps,
        hidden=hidden,
        drawing_title=TITLE,
        drawing=drawn(drawing(plan.moves)),
        flows=flow_rows(plan.moves),
        tables=[_table(each, max_rows) for each in sections(plan)],
        truncated=answer.truncated,
    )


def visible_plan(plan: Plan, may_see: MaySee) -> tuple[Plan, int]:
    """Return a plan without the rows that a visitor may not see, and how many they are. Totals stay."""
    hidden = 0

    def kept(rows: list, resource: Callable[..., str]) -> list:  # type: ignore[type-arg]
        nonlocal hidden
        found = [each for each in rows if may_see(namespace_of(resource(each)))]
        hidden += len(rows) - len(found)
        return found

    policies = []
    for each in plan.policies:
        lists = {name: kept(getattr(each, name), lambda change: change.resource) for name in _CLAIMS}
        policies.append(msgspec.structs.replace(each, **lists))
    shown = msgspec.structs.replace(
        plan,
        moves=kept(plan.moves, lambda move: move.resource),
        unplaced=kept(plan.unplaced, lambda workload: workload.resource),
        staying=kept(plan.staying, lambda workload: workload.resource),
        policies=kept(policies, _policy_place),
    )
    return shown, hidden


_CLAIMS: Final = ("gains", "takes", "loses", "unclaimed")


def _policy_place(effect: PolicyEffect) -> str:
    """Return the name of a policy in the form of a resource: ``NAMESPACE/KIND/NAME``, or ``KIND/NAME``."""
    kind, _, name = effect.policy.partition(" ")
    namespace, slash, rest = name.partition("/")
    return f"{namespace}/{kind}/{rest}" if slash else f"{kind}/{name}"


def namespace_of(resource: str) -> str:
    """Return the namespace of ``NAMESPACE/KIND/NAME``; empty for ``KIND/NAME``."""
    name = ResourceName.parse(resource)
    return name.namespace if name is not None else ""


def binding_place(resource: str) -> tuple[str, str] | None:
    """Return the namespace and the name of a workload's binding as addresses have them; None for another text."""
    name = ResourceName.parse(resource)
    return None if name is None else (name.namespace or CLUSTER_SCOPED, binding_name(name.kind, name.name))


def _table(section: Section, max_rows: int) -> TableView:
    used = [number for number in range(len(section.columns)) if any(row[number] for row in section.rows)]
    columns = [section.columns[number].partition(":") for number in used]
    rows = [
        [
            _cell(row[number], column=name, is_name=name in section.names)
            for number, (name, _, _) in zip(used, columns, strict=True)
        ]
        for row in section.rows[:max_rows]
    ]
    return TableView(
        title=section.title,
        columns=[(heading(name), bool(align)) for name, _, align in columns],
        rows=rows,
        more=max(0, len(section.rows) - max_rows),
    )


def _cell(text: str, *, column: str, is_name: bool) -> CellView:
    if text.startswith(_BAD):
        return CellView(text=text, bad=True)
    if not is_name:
        return CellView(text=text)
    place = binding_place(text) if column == "WORKLOAD" else None
    return CellView(words=tuple(text.split(" ")), place=place)
