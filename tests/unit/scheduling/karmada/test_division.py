from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, WEIGHTED, asked, schedule, static
from tables import cases

from berthmaster.model.decode import convert
from berthmaster.model.policy import ReplicaSchedulingStrategy
from berthmaster.scheduling.fleet import Strategy, strategy_of


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
