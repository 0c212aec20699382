"""Tables of cases for tests, and documents from files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest


def cases(names: str | tuple[str, ...], table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test once for each row of a table.

    Args:
        names: the arguments of the test. For several arguments, each row is a tuple.
        table: the rows by their id, which says in words what the row is about.
    """
    return pytest.mark.parametrize(names, table.values(), ids=table.keys())


def data(name: str) -> Any:
    """Return the content of a YAML file in ``tests/data``."""
    return msgspec.yaml.decode(Path(__file__).with_name("data").joinpath(f"{name}.yaml").read_bytes())
