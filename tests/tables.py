"""Tables of cases for tests, documents from files, and pages with tables that a program makes."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import Any

import msgspec
import pytest

DATA = Path(__file__).with_name("data")


def cases(names: str | tuple[str, ...], table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test once for each row of a table.

    Args:
        names: the arguments of the test. For several arguments, each row is a tuple.
        table: the rows by their id, which says in words what the row is about.
    """
    return pytest.mark.parametrize(names, table.values(), ids=table.keys())


def data(name: str, /, **values: object) -> Any:
    """Return the content of a YAML file in ``tests/data``. Each ``$name`` in it is replaced if there are values."""
    text = (DATA / f"{name}.yaml").read_text()
    return msgspec.yaml.decode(Template(text).substitute(values) if values else text)


def with_tables(page: str, target: str, tables: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a page with the lines between its marks replaced.

    Args:
        page: the page. Two marks of each table name the table and the target.
        target: the target of make that writes the page.
        tables: the name and the lines of each table.
    """
    for name, lines in tables:
        begin, end = (f"<!-- {each} of {name}: made by `make {target}` -->" for each in ("table", "end"))
        before, _, rest = page.partition(begin)
        page = "\n".join((f"{before}{begin}", *lines, f"{end}{rest.partition(end)[2]}"))
    return page
