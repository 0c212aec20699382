import pytest
from builders import cluster, quantities

from berthmaster.model.cluster import AllocatableModeling, ResourceSummary
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.resources import UNLIMITED, Estimate, requests_of

MODELS = [{"cpu": 0, "memory": 0}, {"cpu": 1, "memory": "4Gi"}, {"cpu": 2, "memory": "16Gi"}]


def summary(allocatable, allocated=None, allocating=None, nodes=()):
    return ResourceSummary(
        allocatable=quantities(allocatable),
        allocated=quantities(allocated or {}),
        allocating=quantities(allocating or {}),
        allocatable_modelings=tuple(AllocatableModeling(grade=grade, count=count) for grade, count in nodes),
    )


def estimate(requests, resource_summary, models=()):
    """What the column says, after making sure that its two forms agree."""
    resources = Fleet([cluster(resource_summary=resource_summary, models=models)]).resources
    asked = None if requests is None else requests_of(quantities(requests))
    row = resources.estimate_row(0, asked)
    assert int(resources.estimate(asked).current()[0]) == row.replicas
    return row


@pytest.mark.parametrize(
    ("requests", "reported", "expected"),
    [
        pytest.param(
            {"cpu": 1}, summary({"pods": 110, "cpu": 8}), Estimate(8, "cpu"), id="what fits of the only resource"
        ),
        pytest.param(
            {"cpu": "300m"}, summary({"pods": 110, "cpu": 1}), Estimate(3, "cpu"), id="cpu counts in millicores"
        ),
        pytest.param(
            {"memory": 1000},
            summary({"pods": 110, "memory": "1500m"}),
            Estimate(0, "memory"),
            id="memory counts in bytes",
        ),
        pytest.param(
            {"memory": 2},
            summary({"pods": 110, "memory": "3500m"}),
            Estimate(2, "memory"),
            id="available bytes round up",
        ),
        pytest.param(
            {"cpu": 1, "memory": "1Gi"},
            summary({"pods": 110, "cpu": 8, "memory": "3Gi"}),
            Estimate(3, "memory"),
            id="the tightest resource bounds",
        ),
        pytest.param(
            {"cpu": 1}, summary({"pods": 5, "cpu": 8}), Estimate(5, "pods"), id="pods bound before anything else"
        ),
        pytest.param(
            {"cpu": 1},
            summary({"pods": 110, "cpu": 8}, {"cpu": 2, "pods": 10}, {"cpu": "2500m"}),
            Estimate(3, "cpu"),
            id="what is allocated and being allocated is gone",
        ),
        pytest.param(
            {"cpu": 1}, summary({"pods": 110}), Estimate(0, "cpu"), id="a resource that is not reported is not there"
        ),
        pytest.param(
            {"cpu": 1},
            summary({"pods": 110}, {"cpu": -5}),
            Estimate(0, "cpu"),
            id="not even if less than none of it is used",
        ),
        pytest.param(
            {"cpu": 1}, summary({"pods": 110, "cpu": 2}, {"cpu": 2}), Estimate(0, "cpu"), id="nothing left is nothing"
        ),
        pytest.param(
            {"cpu": 1},
            summary({"pods": 110, "cpu": 2}, {"cpu": 5}),
            Estimate(0, "cpu"),
            id="less than nothing is nothing",
        ),
        pytest.param(
            {"cpu": 1},
            summary({"pods": 9, "cpu": 8}, {"pods": 10}),
            Estimate(0, "pods"),
            id="too many pods leave no room",
        ),
        pytest.param({"cpu": 1}, summary({"cpu": 8}), Estimate(0, "pods"), id="no pods reported, no room"),
        pytest.param({"cpu": 1}, None, Estimate(0, "pods"), id="no summary, no room"),
        pytest.param(None, None, Estimate(0, "pods"), id="no summary, no room, whatever is asked"),
        pytest.param(
            None, summary({"pods": 7, "cpu": 1}), Estimate(7, "pods"), id="without requirements only pods count"
        ),
        pytest.param({}, summary({"pods": 7, "cpu": 1}), Estimate(7, "pods"), id="empty requirements need a pod each"),
        pytest.param(
            {"cpu": 0, "memory": "-1"},
            summary({"pods": 7}),
            Estimate(7, "pods"),
            id="asking for nothing of it asks nothing",
        ),
        pytest.param(
            {"cpu": "1n"},
            summary({"pods": 110, "cpu": "10m"}),
            Estimate(10, "cpu"),
            id="a sliver of a core is a millicore",
        ),
        pytest.param({}, summary({"pods": "8E"}), Estimate(UNLIMITED, "pods"), id="an estimate is an int32"),
        pytest.param(
            {"memory": 1},
            summary({"pods": 110, "memory": "8Ei"}, {"memory": -1}),
            Estimate(110, "pods"),
            id="a sum beyond int64 saturates",
        ),
        pytest.param(
            {}, summary({"pods": "8Ei"}, {"pods": -5}), Estimate(UNLIMITED, "pods"), id="so does a sum of pods"
        ),
    ],
)
def test_a_summary_says_how_many_fit_and_what_bounds_them(requests, reported, expected):
    assert estimate(requests, reported) == expected


ROOMY = {"pods": 1000, "cpu": 1000, "memory": "1000Gi"}


@pytest.mark.parametrize(
    ("requests", "reported", "models", "expected"),
    [
        pytest.param(
            {"cpu": "500m"},
            summary(ROOMY, nodes=[(1, 3), (2, 2)]),
            MODELS,
            Estimate(14, "cpu"),
            id="nodes at their minimum",
        ),
        pytest.param(
            {"cpu": "1", "memory": "4Gi"},
            summary(ROOMY, nodes=[(1, 3), (2, 2)]),
            MODELS,
            Estimate(7, "cpu"),
            id="the tightest resource of each node",
        ),
        pytest.param(
            {"cpu": 1}, summary(ROOMY, nodes=[(0, 9)]), MODELS, Estimate(0, "cpu"), id="grade 0 may have nothing"
        ),
        pytest.param(
            {}, summary(ROOMY, nodes=[(0, 2)]), MODELS, Estimate(220, "pods"), id="but holds what asks for nothing"
        ),
        pytest.param(
            {"cpu": "1m"}, summary(ROOMY, nodes=[(2, 2)]), MODELS, Estimate(220, "pods"), id="110 pods fit a node"
        ),
        pytest.param(
            {"pods": 50},
            summary(ROOMY, nodes=[(2, 1)]),
            MODELS,
            Estimate(2, "pods"),
            id="a request for pods counts by 110",
        ),
        pytest.param(
            {"nvidia.com/gpu": 1},
            summary(ROOMY, nodes=[(2, 2)]),
            MODELS,
            Estimate(0, "nvidia.com/gpu"),
            id="a resource that no model names is not there",
        ),
        pytest.param(
            {"ephemeral-storage": 1},
            summary(ROOMY | {"ephemeral-storage": 99}, nodes=[(2, 2)]),
            MODELS,
            Estimate(0, "ephemeral-storage"),
            id="not even if the summary has it",
        ),
        pytest.param(
            {"cpu": 1, "gold": 5},
            summary(ROOMY, nodes=[(2, 2)]),
            MODELS,
            Estimate(4, "cpu"),
            id="a name that is no node resource is ignored",
        ),
        pytest.param(
            {"cpu": 1},
            summary(ROOMY | {"pods": 3}, nodes=[(2, 2)]),
            MODELS,
            Estimate(3, "pods"),
            id="the pods of the whole cluster bound, too",
        ),
        pytest.param(
            {"cpu": 1},
            summary({"pods": 99}, nodes=[(1, 2), (1, 3)]),
            MODELS,
            Estimate(5, "cpu"),
            id="counts of one grade add up",
        ),
        pytest.param(
            {"cpu": 1},
            summary({"pods": 99}, nodes=[(7, 5)]),
            MODELS,
            Estimate(0, "pods"),
            id="an unknown grade has no nodes",
        ),
        pytest.param(
            {"cpu": 1},
            summary(ROOMY | {"cpu": 6}, nodes=[(2, 2)]),
            (),
            Estimate(6, "cpu"),
            id="without models the summary counts",
        ),
        pytest.param(
            {"cpu": 1},
            summary(ROOMY | {"cpu": 6}),
            MODELS,
            Estimate(6, "cpu"),
            id="without node counts the summary counts",
        ),
        pytest.param(
            {"cpu": 1},
            summary(ROOMY | {"cpu": 6}, nodes=[(1, 3), (2, -1)]),
            MODELS,
            Estimate(6, "cpu"),
            id="with a negative count the summary counts",
        ),
        pytest.param(
            None,
            summary({"pods": 7}, nodes=[(0, 1)]),
            MODELS,
            Estimate(7, "pods"),
            id="without requirements pods count",
        ),
    ],
)
def test_models_say_how_many_fit_virtual_nodes(requests, reported, models, expected):
    assert estimate(requests, reported, models) == expected


def test_models_count_by_grade_whatever_the_order_they_stand_in():
    reported = summary(ROOMY, nodes=[(2, 1), (0, 4), (1, 2)])
    assert estimate({"cpu": 1}, reported, MODELS) == Estimate(4, "cpu")


def test_a_cluster_that_loses_its_models_goes_back_to_its_summary():
    fleet = Fleet([cluster(resource_summary=summary(ROOMY, nodes=[(2, 2)]), models=MODELS)])
    column = fleet.resources.estimate((("cpu", 1000),))
    assert column.current()[0] == 4
    fleet.apply(cluster(resource_summary=summary(ROOMY), models=MODELS))
    assert column.current()[0] == 1000


@pytest.mark.parametrize(
    ("name", "left"),
    [
        pytest.param("cpu", 500, id="cpu in millicores"),
        pytest.param("memory", -3, id="more is given away than there is"),
        pytest.param("pods", 0, id="all is given away"),
        pytest.param("gold", 0, id="given away where none is said to be"),
        pytest.param("silver", 0, id="heard of nowhere"),
    ],
)
def test_what_is_left_of_a_resource(name, left):
    reported = summary(
        {"cpu": 2, "memory": 7, "pods": 3}, {"cpu": 1, "memory": 8, "gold": 5}, {"cpu": "500m", "memory": 2, "pods": 3}
    )
    fleet = Fleet([cluster("a"), cluster("b", resource_summary=reported), cluster("c")])
    row = fleet.row_of["b"]
    assert int(fleet.resources.free(name)[row]) == left
    fleet.remove("b")
    assert int(fleet.resources.free(name)[row]) == 0


def test_resources_that_are_only_asked_for_take_no_room():
    resources = Fleet([cluster("a")]).resources
    kept = len(resources._free)
    for index in range(9):
        assert int(resources.estimate(((f"example.com/r{index}", 1),)).current()[0]) == 0
    assert len(resources._free) == kept
