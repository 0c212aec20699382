import numpy as np
import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.scheduling.columns import Column, InternedValues, Journal
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.fnv import fnv1_32, fnv1_32_of_names


class Doubled(Column[np.int64]):
    """Twice the values of a list. It counts the computations."""

    def __init__(self, journal, numbers):
        super().__init__(journal)
        self.numbers = numbers
        self.computed, self.rows = 0, []

    def compute(self):
        self.computed += 1
        return np.array(self.numbers, dtype=np.int64) * 2

    def compute_row(self, row):
        self.rows.append(row)
        return self.numbers[row] * 2


@pytest.fixture
def column():
    return Doubled(Journal(), list(range(100)))


def test_an_unchanged_column_computes_nothing(column):
    assert column.current() is column.current()
    assert (column.computed, column.rows) == (1, [])


def test_only_a_changed_row_is_computed(column):
    column.current()
    column.numbers[7] = 50
    column.journal.record(7)
    column.journal.record(7)
    assert column.current()[7] == 100
    assert (column.computed, column.rows) == (1, [7])


@cases(
    ("change", "why"),
    {
        "many rows changed": (lambda journal: [journal.record(row) for row in range(33)], "many"),
        "the journal dropped the changes": (lambda journal: [journal.record(1) for _ in range(5000)], "forgotten"),
        "the journal was reset": (lambda journal: journal.reset(), "reset"),
    },
)
def test_all_rows_are_computed_if(column, change, why):
    column.current()
    change(column.journal)
    column.current()
    assert (column.computed, column.rows) == (2, []), why


@given(st.lists(st.lists(st.integers(0, 19), max_size=2200), max_size=6))
def test_a_journal_contains_every_row_that_changed(batches):
    journal = Journal()
    seen = []
    for batch in batches:
        version = journal.version
        for row in batch:
            journal.record(row)
        seen.append((version, batch))
    changed = []
    for version, batch in reversed(seen):
        changed = batch + changed
        remembered = journal.since(version)
        assert remembered is None or list(remembered) == changed
    assert journal.version == sum(map(len, batches))


def test_equal_values_share_a_code_until_the_last_user_releases_it():
    interned = InternedValues()
    first, second, other = interned.take("a"), interned.take("a"), interned.take("b")
    assert first == second != other
    interned.release(first)
    assert interned.take("c") not in (first, other)
    interned.release(second)
    assert interned.take("d") == first


def test_a_fleet_with_many_changes_does_not_grow():
    fleet = Fleet([cluster("steady", region="r", labels={"k": "v"})])
    for number in range(50):
        fleet.apply(cluster("busy", region=f"r{number}", labels={f"k{number}": "v"}, taints=[f"t{number}:NoSchedule"]))
    fleet.remove("busy")
    assert len(fleet.regions.values) <= 3
    assert len(fleet.taints.values) <= 3
    assert list(fleet.region_code[[fleet.row_of["steady"]]]) == [fleet.regions.take("r")]


@cases("count", {"few": 3, "many": 500})
def test_hashes_of_names_continue_with_the_same_bytes(count):
    names = [f"member{number}" for number in range(count)]
    assert fnv1_32_of_names(names, b"default/web") == [fnv1_32(f"{name}default/web".encode()) for name in names]
