"""The pages of a long list, the same for all lists: a page that does not exist becomes the last one."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Row = TypeVar("Row")


class Paging(NamedTuple):
    """Which part of a list a page shows.

    Attributes:
        first, last: the positions of its first and its last row, from 1; 0 without rows.
    """

    page: int
    pages: int
    first: int
    last: int
    matched: int
    total: int


def paging(page: int, size: int, matched: int, total: int) -> Paging:
    """Return the part of a list that a page shows."""
    pages = max(1, -(-matched // size))
    page = min(page, pages)
    return Paging(page, pages, min(matched, (page - 1) * size + 1), min(matched, page * size), matched, total)


def cut(rows: Sequence[Row], page: int, size: int, total: int) -> tuple[Sequence[Row], Paging]:
    """Return the rows of a page of a list that is known as a whole, and which part they are."""
    part = paging(page, size, len(rows), total)
    return rows[max(0, part.first - 1) : part.last], part


def asked(page: int, size: int, ask: Callable[[int], T], counts: Callable[[T], tuple[int, int]]) -> tuple[T, Paging]:
    """Return an answer of the extender with the rows of a page, and which part they are.

    Args:
        ask: asks for the rows after so many. It is asked again if the page does not exist.
        counts: returns how many rows the filter accepts, and how many there are.
    """
    answer = ask((page - 1) * size)
    part = paging(page, size, *counts(answer))
    if part.page != page:
        answer = ask((part.page - 1) * size)
        part = paging(part.page, size, *counts(answer))
    return answer, part
