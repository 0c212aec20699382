"""The cells of tables as facts: each format decides by them how a cell looks, and never by its text."""

from collections.abc import Sequence
from typing import NamedTuple


class TableColumn(NamedTuple):
    """A column of a table. Numbers stand at the right."""

    name: str
    is_number: bool = False


def numbers(name: str) -> TableColumn:
    """Return a column of numbers."""
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
    """Return a cell of names."""
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
