"""``sort.Sort`` of Go 1.26 wrote the golden file: each line has weights and the resulting order."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.scheduling.karmada.division import _GoSorter, order_by_weight

GOLDEN = Path(__file__).parents[3] / "golden" / "go_sort.jsonl"
RECORDED = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize(
    "recorded", [pytest.param(each, id=f"{len(each['weights'])} {each['name']}") for each in RECORDED]
)
def test_equal_weights_have_the_order_of_go(recorded):
    assert order_by_weight(recorded["weights"]) == recorded["order"]


def test_the_recorded_lists_use_every_part_of_the_sort(monkeypatch):
    parts = [
        "insertion_sort",
        "heap_sort",
        "break_patterns",
        "reverse",
        "finish_nearly_sorted",
        "shift_up",
        "partition_equal",
    ]
    calls = Counter()
    for part in parts:
        original = getattr(_GoSorter, part)

        def counted(*args, _part=part, _original=original):
            calls[_part] += 1
            return _original(*args)

        monkeypatch.setattr(_GoSorter, part, counted)
    for recorded in RECORDED:
        order_by_weight(recorded["weights"])
    assert set(calls) == set(parts)


@given(st.lists(st.integers(0, 5), max_size=12))
def test_up_to_twelve_weights_are_sorted_stably(weights):
    assert order_by_weight(weights) == sorted(range(len(weights)), key=lambda index: -weights[index])


@given(st.lists(st.integers(0, 50), max_size=300))
def test_more_than_twelve_weights_are_sorted(weights):
    order = order_by_weight(weights)
    assert sorted(order) == list(range(len(weights)))
    assert [weights[index] for index in order] == sorted(weights, reverse=True)
