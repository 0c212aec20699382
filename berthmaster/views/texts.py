"""Assignments and amounts as text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # these modules load numpy, which ``--help`` does not need
    from berthmaster.scheduling.prices import CostChange
    from berthmaster.simulation.plan_answer import ClusterTotal

NAMED_CLUSTERS: Final = 4
"""The most clusters that a cell of a table names."""
_BINARY: Final = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def cost_text(cost: "CostChange") -> str:
    """Return what a change costs, and what is assumed."""
    from berthmaster.scheduling.prices import HOURS  # noqa: PLC0415 - loads numpy

    amount = f"{abs(cost.monthly):,.2f}"
    text = f"saves {amount} a month" if cost.monthly < 0 else f"costs {amount} more a month"
    moves = f", without {count_text(cost.unpriced, 'replica')} whose clusters have no price" if cost.unpriced else ""
    return f"{text} (requests x price x {HOURS} h{moves})"


def count_text(number: int, noun: str) -> str:
    """Return a number of things, such as ``1 workload`` or ``2,000 workloads``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def assignment_text(clusters: Mapping[str, int | None]) -> str:
    """Format an assignment as ``cluster=replicas ...``; empty if there is no cluster."""
    return " ".join(name if replicas is None else f"{name}={replicas}" for name, replicas in clusters.items())


def brief_assignment(clusters: Mapping[str, int | None]) -> str:
    """Format an assignment for a cell: of more than ``NAMED_CLUSTERS`` clusters, only their number."""
    if len(clusters) <= NAMED_CLUSTERS:
        return assignment_text(clusters)
    replicas = sum(each or 0 for each in clusters.values())
    return f"{replicas:,} on {len(clusters):,} clusters" if replicas else f"{len(clusters):,} clusters"


def without_zeros(clusters: Mapping[str, int]) -> dict[str, int | None]:
    """Replace 0 by None: Karmada assigns 0 replicas to a workload that has none."""
    return {name: replicas or None for name, replicas in clusters.items()}


def resource_text(total: "ClusterTotal", resource: str) -> str:
    """Return what arriving replicas request of a resource and what is free, for people."""
    shown = cores_text if resource == "cpu" else bytes_text
    found = total.resources[resource]
    available = "unknown" if found.available is None else shown(found.available)
    return f"{shown(found.requested)} / {available}"


def cores_text(milli: int) -> str:
    """Return an amount of CPU, given in thousandths of a core, in cores."""
    return f"{milli / 1000:g}"


def bytes_text(amount: int) -> str:
    """Return an amount of bytes with the largest binary unit that fits."""
    for size, unit in _BINARY:
        if abs(amount) >= size:
            return f"{amount / size:.4g}{unit}"
    return str(amount)


class TableColumn(NamedTuple):
    """A column of a table. Numbers stand at the right."""

    name: str
    is_number: bool = False


def numbers(name: str) -> TableColumn:
    return TableColumn(name, is_number=True)


def columns_of(*names: str | TableColumn) -> list[TableColumn]:
    """Return columns. A text is the name of a column of texts."""
    return [TableColumn(each) if isinstance(each, str) else each for each in names]


class Word(NamedTuple):
    """A part of a cell."""

    text: str
    is_name: bool = True
    cluster: str = ""


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        words: its parts, if it lists names; empty for a sentence.
    """

    text: str
    is_bad: bool = False
    words: tuple[Word, ...] = ()
    workload: str = ""


def names_cell(*words: Word, workload: str = "") -> Cell:
    return Cell(" ".join(each.text for each in words), words=words, workload=workload)


class Section(NamedTuple):
    """A table with a title. Each row has one cell for each column."""

    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[Cell]]

    def used(self) -> list[tuple[int, TableColumn]]:
        """Return index and column of each column that is not empty in every row."""
        return [(index, each) for index, each in enumerate(self.columns) if any(row[index].text for row in self.rows)]


def section(title: str, columns: Sequence[TableColumn | str], rows: Sequence[Sequence[Cell | str]]) -> Section:
    """Return a table. A text stands for a column of texts, or for a cell that is no bad news."""
    return Section(
        title,
        columns_of(*columns),
        [[Cell(each) if isinstance(each, str) else each for each in row] for row in rows],
    )
