"""The tables of a page as files: CSV for spreadsheets, JSON for programs."""

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from flask import Response, request

from berthmaster.ledger.records import HistoryRow
from berthmaster.native_api.wire import HistoryPage
from console.query import PageQuery

FORMATS: Final = ("csv", "json")
MOST: Final = 10_000
"""The most rows of a file."""
_AT_ONCE: Final = 1000
_FORMULA: Final = frozenset("=+-@")
_UNSEEN: Final = frozenset({"C", "Z"})
"""The categories of Unicode for control and format characters, and for spaces and ends of lines."""


def asked(tables: Mapping[str, Iterable[Any]]) -> Response | None:
    """Return the table that the address asks for as a file; None if the address asks for the page.

    Args:
        tables: the rows of each table by its name; a generator if they have to be asked for. The first table is the
            usual one. Rows are structs of the API, dataclasses or named tuples, all of one type.

    Raises:
        QueryError: there is no such format or table.
    """
    query = PageQuery(request.args)
    kind = query.choice("as", FORMATS, "")
    if not kind:
        return None
    name = query.choice("table", tuple(tables), next(iter(tables)))
    items = [_fields(each) for each in islice(tables[name], MOST)]
    if kind == "json":
        response = Response(msgspec.json.encode({"items": items}), content_type="application/json")
    else:
        response = Response(_csv(items), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.{kind}"'
    return response


def wanted() -> bool:
    return "as" in request.args


def whole(ask: Callable[[int, int], Sequence[Any]]) -> Iterator[Any]:
    """Yield the rows of a list. ``ask`` asks for the rows after so many, at most so many."""
    for offset in range(0, MOST, _AT_ONCE):
        rows = ask(offset, _AT_ONCE)
        yield from rows
        if len(rows) < _AT_ONCE:
            return


def records(ask: Callable[[str, int], HistoryPage]) -> Iterator[HistoryRow]:
    after: str | None = ""
    while after is not None:
        page = ask(after, _AT_ONCE)
        yield from page.items
        after = page.next


def _fields(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a struct, a dataclass or a named tuple
    as_dict = getattr(row, "_asdict", None)
    found: dict[str, Any] = msgspec.to_builtins(row if as_dict is None else as_dict())
    return found


def _csv(items: Sequence[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(column for each in items for column in each))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([_cell(each.get(column)) for column in columns] for each in items)
    return text.getvalue()


def _cell(value: Any) -> str | int | float:  # noqa: ANN401 - what JSON can hold
    """Return a cell. Lists and objects are JSON. A text that a spreadsheet would calculate gets an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"'{text}" if _calculates(text) else text


def _calculates(text: str) -> bool:
    """Return whether a spreadsheet may read a text as a formula.

    Some skip invisible characters, and some read full-width and small forms of the signs as the signs.
    """
    for character in text:
        if unicodedata.category(character)[0] not in _UNSEEN:
            return unicodedata.normalize("NFKC", character)[0] in _FORMULA
        if character in "\t\r\n":
            return True
    return False
