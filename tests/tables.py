"""Tables of cases for tests."""

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str | tuple[str, ...], table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test once for each row of a table.

    Args:
        names: the arguments of the test. For several arguments, each row is a tuple.
        table: the rows by their id, which says in words what the row is about.
    """
    return pytest.mark.parametrize(names, table.values(), ids=table.keys())
