import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, WEIGHTED, asked, schedule, static

from berthmaster.model.decode import convert
from berthmaster.model.policy import ReplicaSchedulingStrategy
from berthmaster.scheduling.fleet import Strategy, strategy_of


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


THREE = fleet(a=8, b=4, c=4)


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        pytest.param(None, Strategy.DUPLICATED, id="none"),
        pytest.param(DUPLICATED, Strategy.DUPLICATED, id="duplicated"),
        pytest.param(AGGREGATED, Strategy.AGGREGATED, id="aggregated"),
        pytest.param(DYNAMIC, Strategy.DYNAMIC_WEIGHT, id="dynamic weight"),
        pytest.param(WEIGHTED, Strategy.STATIC_WEIGHT, id="weighted alone"),
        pytest.param(
            {**static(("a", 1)), "replicaSchedulingType": "Duplicated"},
            Strategy.DUPLICATED,
            id="Duplicated with weights",
        ),
        pytest.param(
            {**WEIGHTED, "weightPreference": {**static(("a", 1))["weightPreference"], **DYNAMIC["weightPreference"]}},
            Strategy.DYNAMIC_WEIGHT,
            id="dynamic and static weights",
        ),
        pytest.param({"replicaSchedulingType": "Divided"}, Strategy.UNKNOWN, id="Divided without a preference"),
        pytest.param({"replicaDivisionPreference": "Aggregated"}, Strategy.UNKNOWN, id="a preference without a type"),
    ],
)
def test_the_strategy_of_a_placement(scheduling, expected):
    assert strategy_of(scheduling and convert(ReplicaSchedulingStrategy, scheduling)) is expected


def test_a_group_with_an_unknown_strategy_fails():
    decision = schedule(THREE, asked(scheduling={"replicaSchedulingType": "Divided"}))
    assert "names no strategy" in decision.failure.message
