"""What the page What if shows of a plan: pure functions of the extender's answer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from berthmaster.model.binding import binding_name
from berthmaster.model.errors import InputError
from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.native_api.what_if import PlanAnswer
from berthmaster.simulation.workload import ResourceName
from berthmaster.views.plan_drawing import drawing, flow_rows
from berthmaster.views.plan_sections import heading, headline, opening, sections, what_moves
from berthmaster.views.texts import Section, count_text
from console.markup import drawn

MAX_ROWS: Final = 15
MORE_ROWS: Final = 1000
"""The most rows of a table, and the most if the question has no address, so that there is no file with all of them."""


class PlanView(NamedTuple):
    """A plan for a visitor.

    Attributes:
        answer: the extender's answer, without the rows that the visitor may not see. Its counts are of everything.
        restricted: whether there are namespaces that the visitor may not see.
    """

    answer: PlanAnswer
    restricted: bool = False

    @property
    def opening(self) -> Sequence[str]:
        return opening(self.answer.plan, as_choice)

    @property
    def headline(self) -> str:
        counted = self.answer.truncated or self.restricted
        text = _headline_of_counts(self.answer) if counted else headline(self.answer.plan)
        return f"{text[:1].upper()}{text[1:]}."

    @property
    def bad(self) -> bool:
        counts = self.answer.counts
        return bool(counts.lost or counts.short or counts.overcommitted)

    @property
    def quiet(self) -> bool:
        counts = self.answer.counts
        return self.answer.plan.complete and not (counts.moved or counts.lost or counts.short)

    @property
    def hidden(self) -> str:
        """What happens in namespaces that the visitor may not see."""
        return _hidden(self.answer) if self.restricted else ""

    @property
    def drawing(self) -> Markup:
        return drawn(drawing(self.answer.plan.moves))

    @property
    def flows(self) -> Sequence[tuple[str, str, int]]:
        """The figures of the drawing as rows: from, to, amount."""
        return flow_rows(self.answer.plan.moves)

    @property
    def tables(self) -> list[Section]:
        return list(sections(self.answer.plan))

    def files(self) -> Mapping[str, Iterable[Mapping[str, object]]]:
        """Return the rows of the tables by their names in addresses."""
        names = {f"table-{number}": _items(each) for number, each in enumerate(self.tables, 1)}
        flows = [{"from": source, "to": target, "amount": amount} for source, target, amount in self.flows]
        return {**names, "flows": flows}


def as_choice(switch: str, value: str) -> str:
    """Return how a visitor of a page sets a switch: the words of the form What if and of the page Resilience."""
    return f'"{switch.capitalize()} assumed {value}"'


def _headline_of_counts(answer: PlanAnswer) -> str:
    """Return what moves in total if the lists of the plan have not all rows: their lengths say too little."""
    plan, counts = answer.plan, answer.counts
    parts = [what_moves(plan)]
    parts += [f"the change leaves {count_text(counts.lost, 'workload')} without a place"] if counts.lost else []
    parts += [f"the change leaves {count_text(counts.short, 'workload')} with too few replicas"] if counts.short else []
    parts += [f"copies that are deleted: {counts.deleted_copies:,}"] if counts.deleted_copies else []
    parts += [f"clusters that are overcommitted: {counts.overcommitted:,}"] if counts.overcommitted else []
    return "; ".join(parts)


def _hidden(answer: PlanAnswer) -> str:
    """Return what happens in other namespaces, for a visitor who may not see them; empty if nothing does."""
    plan, counts = answer.plan, answer.counts
    if answer.truncated:
        return "Workloads in namespaces that you may not see are not listed."
    lost = sum(each.nowhere for each in plan.unplaced if each.by_change)
    short = sum(not each.nowhere for each in plan.unplaced if each.by_change)
    found = [
        *_count(counts.moved - len(plan.moves), "moves", "move"),
        *_count(counts.lost - lost, "is left without a place", "are left without a place"),
        *_count(counts.short - short, "is left with too few replicas", "are left with too few replicas"),
    ]
    return f"In namespaces that you may not see: {'; '.join(found)}." if found else ""


def _count(number: int, one: str, many: str) -> Iterator[str]:
    if number > 0:
        yield f"1 workload {one}" if number == 1 else f"{number:,} workloads {many}"


def binding_place(resource: str) -> tuple[str, str] | None:
    """Return the namespace and the name of a workload's binding as addresses have them; None for another text."""
    try:
        name = ResourceName.parse(resource)
    except InputError:
        return None
    return name.namespace or CLUSTER_SCOPED, binding_name(name.kind, name.name)


def _items(section: Section) -> Iterator[Mapping[str, str]]:
    used = section.used()
    return ({heading(each.name): row[index].text for index, each in used} for row in section.rows)
