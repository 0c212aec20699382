"""The matrix covers every field of every release, and each row is true."""

import json
from pathlib import Path

import pytest
from field_matrix import GATES, ROWS, Handling, Row
from field_outcomes import BINDING, CLUSTERS, Outcome, merged, outcome
from field_page import PAGE, page

KARMADA = json.loads(Path(__file__).with_name("karmada.json").read_text())


def decided(row: Row, *, changed: bool) -> Outcome:
    """Decide the example of a row, before or after its change."""
    binding = merged(BINDING, row.base)
    first = merged(CLUSTERS[0], row.cluster)
    if changed:
        binding = binding if row.of_cluster else merged(binding, row.change)
        first = merged(first, row.change) if row.of_cluster else first
    annotations = binding["metadata"].get("annotations", {})
    if annotations.get("policy.karmada.io/applied-placement") == "PLACEMENT":
        annotations["policy.karmada.io/applied-placement"] = json.dumps(binding["spec"]["placement"])
    gates = frozenset({row.gate})
    return outcome(binding, [first, *CLUSTERS[1:]], list(row.peers), gates)


def covers(row: Row, field: str) -> bool:
    return any(field.startswith(each[:-1]) if each.endswith("*") else field == each for each in row.fields)


@pytest.mark.parametrize("field", KARMADA["fields"])
def test_one_row_covers_each_field(field):
    assert [row.handling for row in ROWS if covers(row, field)] in [[each] for each in Handling]


def test_no_row_is_about_a_field_that_no_release_has():
    known = [*KARMADA["fields"], "cluster.metadata.labels{}", "cluster.metadata.deletionTimestamp"]
    fields = [each for row in ROWS for each in row.fields]
    assert [each for each in fields if not any(field.startswith(each.removesuffix("*")) for field in known)] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fields[0])
def test_the_example_of_a_row_shows_what_happens(row):
    before, after = decided(row, changed=False), decided(row, changed=True)
    if row.handling is Handling.REFUSED:
        assert (after.decided, after.reason) == (None, row.reason)
        assert before.decided is not None
    elif row.handling is Handling.HONORED:
        assert before.decided or after.decided or before.trigger != after.trigger, "the example decides nothing"
        assert after != before
    else:
        assert after == before


def test_the_page_has_the_tables_of_the_matrix():
    assert PAGE.read_text() == page(PAGE.read_text()), "run `make compatibility`"


@pytest.mark.parametrize("gate", GATES)
def test_a_row_names_only_gates_that_karmada_has(gate):
    assert gate in KARMADA["gates"]


def test_gates_of_rows_are_in_the_table_of_gates():
    assert {row.gate for row in ROWS if row.gate} <= GATES.keys()
