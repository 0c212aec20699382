"""The cells of tables as facts: each format decides by them how a cell looks, and never by its text."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple


class Content(Enum):
    """What a column holds."""

    TEXT = auto()
    NUMBERS = auto()
    NAMES = auto()
    WORKLOAD = auto()
    CLUSTERS = auto()


class TableColumn(NamedTuple):
    """A column of a table."""

    name: str
    content: Content = Content.TEXT

    @property
    def is_number(self) -> bool:
        """Whether its cells stand at the right."""
        return self.content is Content.NUMBERS

    @property
    def is_name(self) -> bool:
        """Whether its cells are names of objects, not sentences."""
        return self.content in {Content.NAMES, Content.WORKLOAD, Content.CLUSTERS}


def numbers(name: str) -> TableColumn:
    """Return a column of numbers."""
    return TableColumn(name, Content.NUMBERS)


def columns_of(*names: str | TableColumn) -> list[TableColumn]:
    """Return columns. A text is the name of a column of texts."""
    return [TableColumn(each) if isinstance(each, str) else each for each in names]


class Cell(NamedTuple):
    """A cell of a table: its text, and whether it is bad news."""

    text: str
    is_bad: bool = False


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
