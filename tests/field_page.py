"""The matrix of the pages about compatibility, and the pages that are made from the matrix and from ``karmada.json``.

The matrix has each field that Karmada has, what Berthmaster does with it, and an example. An example has a binding and
the same binding with one change. A test decides both. The outcomes of an honored field differ, the outcomes of a field
without effect are the same, and a refused field gives the reason of its row.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec
from tables import with_tables

PAGES: Final = tuple(sorted((Path(__file__).parents[1] / "docs").glob("compatibility*.md")))
_DATA: Final = Path(__file__).with_name("compatibility")
KARMADA: Final[Mapping[str, Any]] = json.loads(_DATA.joinpath("karmada.json").read_text())


class Handling(StrEnum):
    """What happens with a field."""

    HONORED = "honored"
    REFUSED = "refused"
    NONE = "no effect"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row.

    Attributes:
        fields: the fields that it covers. A last ``*`` covers everything below.
        handling: what happens.
        change: the merge patch of the example, for the subject of the path: the binding, or cluster ``a``.
        base: the merge patch of the binding before the change. The test replaces PLACEMENT in the annotation
            ``policy.karmada.io/applied-placement`` by the placement of the binding: it is scheduled already.
        remark: what to know about it.
        gate: the feature gate that it needs; empty for none.
        cluster: the merge patch of cluster ``a`` before the change.
        peers: other bindings that are scheduled already.
        reason: the reason of a refusal.
    """

    fields: tuple[str, ...]
    handling: Handling
    change: dict[str, Any]
    base: dict[str, Any] = {}
    remark: str = ""
    gate: str = ""
    cluster: dict[str, Any] = {}
    peers: tuple[dict[str, Any], ...] = ()
    reason: str = ""

    @property
    def of_cluster(self) -> bool:
        return self.fields[0].startswith("cluster.")


class Matrix(msgspec.Struct, forbid_unknown_fields=True):
    """The file ``compatibility/matrix.yaml``.

    Attributes:
        rows: what happens with each field.
        gates: the gates of Karmada that can change a decision, and what Berthmaster does with them.
        rules: rules that changed between releases: the rule, the release, and a remark. Berthmaster follows the newest.
    """

    rows: list[Row]
    gates: dict[str, str]
    rules: list[tuple[str, str, str]]


MATRIX: Final = msgspec.yaml.decode(_DATA.joinpath("matrix.yaml").read_bytes(), type=Matrix)
_SECTIONS: Final = (
    ("placement", "Placement", ("placement.",)),
    ("binding", "Binding", ("binding.spec.", "binding.status.")),
    ("cluster", "Cluster", ("cluster.",)),
)


def page(text: str) -> str:
    """Return a page with the tables that it has marks for."""
    marked = [(name, lines) for name, lines in tables() if f"<!-- table of {name}: " in text]
    return with_tables(text, "compatibility", marked)


def tables() -> Iterator[tuple[str, list[str]]]:
    newest = list(KARMADA["releases"])
    yield (
        "releases",
        _table(("Release", "Read from"), [(name, f"`{source}`") for name, source in KARMADA["releases"].items()]),
    )
    for name, _, prefixes in _SECTIONS:
        rows = [row for row in MATRIX.rows if row.fields[0].startswith(prefixes)]
        yield (
            name,
            _table(
                ("Field", "Releases", "Gate", "Handling", "Remark"),
                [
                    (", ".join(_fields(row, prefixes) for row in alike), *facts)
                    for facts, alike in groupby(rows, lambda row: _facts(row, newest))
                ],
            ),
        )
    yield (
        "gates",
        _table(
            ("Karmada's gate", "On by default in Karmada", "Berthmaster"),
            [(f"`{gate}`", _on(KARMADA["gates"][gate], newest), text) for gate, text in MATRIX.gates.items()],
        ),
    )
    yield "rules", _table(("Rule", "In Karmada since", "Remark"), MATRIX.rules)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(each)} |" for each in (head, ("---",) * len(head), *rows)]


def _fields(row: Row, prefixes: tuple[str, ...]) -> str:
    """Return the fields of a row. Several fields below one path share it."""
    names = [next(each.removeprefix(prefix) for prefix in prefixes if each.startswith(prefix)) for each in row.fields]
    if prefixes[0].startswith("binding"):
        names = [each.removeprefix("binding.") for each in row.fields]
    elif prefixes[0].startswith("cluster"):
        names = [each.removeprefix("cluster.") for each in row.fields]
    if len(names) == 1:
        return f"`{names[0]}`"
    root = _common(names)
    return f"`{root}{{{', '.join(each.removeprefix(root) for each in names)}}}`"


def _common(names: list[str]) -> str:
    """Return the path that all names start with, up to a dot."""
    first, last = min(names), max(names)
    length = next((n for n, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[: first.rfind(".", 0, length) + 1]


def _facts(row: Row, newest: list[str]) -> tuple[str, ...]:
    """Return what the page says of the fields of a row. Neighbours of which it says the same share a line."""
    return (_releases(row, newest), row.gate, str(row.handling), row.remark)


def _releases(row: Row, newest: list[str]) -> str:
    found = [
        releases
        for field, releases in KARMADA["fields"].items()
        if any(field.startswith(each[:-1]) if each.endswith("*") else field == each for each in row.fields)
    ]
    return _since(found[0], newest) if found else "all"


def _since(releases: list[str], newest: list[str]) -> str:
    if releases == newest:
        return "all"
    return releases[0] if releases[0] == newest[-1] else f"from {releases[0]}"


def _on(defaults: Mapping[str, bool], newest: list[str]) -> str:
    on = [each for each in newest if defaults.get(each)]
    known = [each for each in newest if each in defaults]
    exists = "" if known == newest else f" (exists {_since(known, newest)})"
    if not on:
        return f"no{exists}"
    return f"yes{exists}" if on == known else f"{_since(on, newest)}{exists}"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path.read_text()))
