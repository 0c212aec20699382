"""The rows of a list as a file: CSV for spreadsheets, JSON for programs. The fields are those of the extender's API."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from flask import Response, request

from console.query import PageQuery

FORMATS: Final = ("csv", "json")
MOST: Final = 10_000
"""The most rows of a file."""
_AT_ONCE: Final = 1000
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def wanted() -> str:
    """Return the format that the address asks for; empty for a page.

    Raises:
        QueryError: there is no such format.
    """
    return PageQuery(request.args).choice("as", FORMATS, "")


def all_rows(ask: Callable[[int, int], Sequence[Any]]) -> list[Any]:
    """Return all rows of a list, up to ``MOST``.

    Args:
        ask: asks for the rows after so many, at most so many.
    """
    rows: list[Any] = []
    while len(rows) < MOST:
        more = ask(len(rows), _AT_ONCE)
        rows.extend(more)
        if len(more) < _AT_ONCE:
            break
    return rows[:MOST]


def download(name: str, kind: str, rows: Sequence[Any]) -> Response:
    """Return rows as a file.

    Args:
        name: the name of the file without its ending.
        kind: one of ``FORMATS``.
        rows: structs of the API, all of one type.
    """
    items = [msgspec.to_builtins(each) for each in rows]
    if kind == "json":
        response = Response(msgspec.json.encode({"items": items}), content_type="application/json")
    else:
        response = Response(_csv(items), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.{kind}"'
    return response


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
    return f"'{text}" if text.startswith(_FORMULA) else text
