"""How Karmada divides replicas: the strategy, ties, and the order of Go's ``sort.Sort``."""

import json
from pathlib import Path

import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, WEIGHTED, asked, schedule, static
from tables import cases

from berthmaster.model.decode import convert
from berthmaster.model.division_strategy import Strategy, strategy_of
from berthmaster.model.placement import ReplicaSchedulingStrategy
from berthmaster.scheduling.karmada.division import breaks_ties_descending
from berthmaster.scheduling.karmada.go_sort import order_by_weight


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


THREE = fleet(a=8, b=4, c=4)


@cases(
    ("scheduling", "expected"),
    {
        "none": (None, Strategy.DUPLICATED),
        "duplicated": (DUPLICATED, Strategy.DUPLICATED),
        "aggregated": (AGGREGATED, Strategy.AGGREGATED),
        "dynamic weight": (DYNAMIC, Strategy.DYNAMIC_WEIGHT),
        "weighted alone": (WEIGHTED, Strategy.STATIC_WEIGHT),
        "Duplicated with weights": ({**static(("a", 1)), "replicaSchedulingType": "Duplicated"}, Strategy.DUPLICATED),
        "dynamic and static weights": (
            {**WEIGHTED, "weightPreference": {**static(("a", 1))["weightPreference"], **DYNAMIC["weightPreference"]}},
            Strategy.DYNAMIC_WEIGHT,
        ),
        "Divided without a preference": ({"replicaSchedulingType": "Divided"}, Strategy.UNKNOWN),
        "a preference without a type": ({"replicaDivisionPreference": "Aggregated"}, Strategy.UNKNOWN),
    },
)
def test_the_strategy_of_a_placement(scheduling, expected):
    assert strategy_of(scheduling and convert(ReplicaSchedulingStrategy, scheduling)) is expected


def test_a_group_with_an_unknown_strategy_fails():
    decision = schedule(THREE, asked(scheduling={"replicaSchedulingType": "Divided"}))
    assert "names no strategy" in decision.failure.message


@cases(
    ("uid", "descending"),
    {
        "no UID: ascending, although the hash of no bytes is odd": ("", False),
        "an even hash, 0xE40C292C: ascending": ("a", False),
        "an odd hash: descending": ("b", True),
        "the example of the reference, 0xBF9CF968: ascending": ("foobar", False),
    },
)
def test_the_parity_of_the_hash_of_the_uid_decides_the_order_of_names(uid, descending):
    assert breaks_ties_descending(uid) is descending


GOLDEN = Path(__file__).parents[3] / "golden" / "go_sort.jsonl"
RECORDED = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize(
    "recorded", [pytest.param(each, id=f"{len(each['weights'])} {each['name']}") for each in RECORDED]
)
def test_equal_weights_have_the_order_of_go(recorded):
    assert order_by_weight(recorded["weights"]) == recorded["order"]
