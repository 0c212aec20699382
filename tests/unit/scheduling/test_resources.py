import pytest
from builders import cluster, quantities
from tables import cases

from berthmaster.model.cluster import AllocatableModeling, ResourceSummary
from berthmaster.model.errors import FieldError
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.resources import Estimate, requests_of

MODELS = [{"cpu": 0, "memory": 0}, {"cpu": 1, "memory": "4Gi"}, {"cpu": 2, "memory": "16Gi"}]


def summary(allocatable, allocated=None, allocating=None, nodes=()):
    return ResourceSummary(
        allocatable=quantities(allocatable),
        allocated=quantities(allocated or {}),
        allocating=quantities(allocating or {}),
        allocatable_modelings=tuple(AllocatableModeling(grade=grade, count=count) for grade, count in nodes),
    )


def estimate(requests, resource_summary, models=()):
    """Return the value of the column, after checking that both of its forms agree."""
    resources = Fleet([cluster(resource_summary=resource_summary, models=models)]).resources
    asked = None if requests is None else requests_of(quantities(requests))
    row = resources.estimate_row(0, asked)
    assert int(resources.estimate(asked).current()[0]) == row.replicas
    return row


@cases(
    ("requests", "reported", "expected"),
    {
        "memory counts in bytes": ({"memory": 1000}, summary({"pods": 110, "memory": "1500m"}), Estimate(0, "memory")),
        "more pods than allowed": ({"cpu": 1}, summary({"pods": 9, "cpu": 8}, {"pods": 10}), Estimate(0, "pods")),
        "no pods reported": ({"cpu": 1}, summary({"cpu": 8}), Estimate(0, "pods")),
        "no summary, without requirements": (None, None, Estimate(0, "pods")),
        "a request of 0 has no effect": ({"cpu": 0, "memory": "-1"}, summary({"pods": 7}), Estimate(7, "pods")),
        "a fraction of a millicore counts as one": (
            {"cpu": "1n"},
            summary({"pods": 110, "cpu": "10m"}),
            Estimate(10, "cpu"),
        ),
    },
)
def test_a_summary_determines_how_many_replicas_fit(requests, reported, expected):
    assert estimate(requests, reported) == expected


AMPLE = {"pods": 1000, "cpu": 1000, "memory": "1000Gi"}


@cases(
    ("requests", "reported", "models", "expected"),
    {
        "grade 0 may have no capacity": ({"cpu": 1}, summary(AMPLE, nodes=[(0, 9)]), MODELS, Estimate(0, "cpu")),
        "a name that is not a node resource is ignored": (
            {"cpu": 1, "gold": 5},
            summary(AMPLE, nodes=[(2, 2)]),
            MODELS,
            Estimate(4, "cpu"),
        ),
    },
)
def test_models_determine_how_many_replicas_fit(requests, reported, models, expected):
    assert estimate(requests, reported, models) == expected


def test_the_order_of_models_has_no_effect():
    reported = summary(AMPLE, nodes=[(2, 1), (0, 4), (1, 2)])
    assert estimate({"cpu": 1}, reported, MODELS) == Estimate(4, "cpu")


def test_a_cluster_without_models_any_more_uses_its_summary():
    fleet = Fleet([cluster(resource_summary=summary(AMPLE, nodes=[(2, 2)]), models=MODELS)])
    column = fleet.resources.estimate((("cpu", 1000),))
    assert column.current()[0] == 4
    fleet.apply(cluster(resource_summary=summary(AMPLE), models=MODELS))
    assert column.current()[0] == 1000


@cases(
    ("name", "left"),
    {
        "cpu in millicores": ("cpu", 500),
        "more is allocated than allocatable": ("memory", -3),
        "all is allocated": ("pods", 0),
        "allocated, but not allocatable": ("gold", 0),
        "an unknown resource": ("silver", 0),
    },
)
def test_the_free_amount_of_a_resource(name, left):
    reported = summary(
        {"cpu": 2, "memory": 7, "pods": 3}, {"cpu": 1, "memory": 8, "gold": 5}, {"cpu": "500m", "memory": 2, "pods": 3}
    )
    fleet = Fleet([cluster("a"), cluster("b", resource_summary=reported), cluster("c")])
    row = fleet.row_of["b"]
    assert int(fleet.resources.free(name)[row]) == left
    fleet.remove("b")
    assert int(fleet.resources.free(name)[row]) == 0


def test_resources_that_are_only_requested_add_no_columns():
    resources = Fleet([cluster("a")]).resources
    columns = resources._free  # noqa: SLF001 - memory does not grow
    kept = len(columns)
    for index in range(9):
        assert int(resources.estimate(((f"example.com/r{index}", 1),)).current()[0]) == 0
    assert len(columns) == kept


def test_a_fleet_has_a_bounded_number_of_names_of_resources():
    fleet = Fleet([cluster("first", resource_summary=summary({f"x.io/r{each}": 1 for each in range(512)}))])
    fleet.apply(cluster("same", resource_summary=summary({"x.io/r0": 1})))
    with pytest.raises(FieldError, match=r"the clusters have 513 names of resources; at most 512 are scheduled"):
        fleet.apply(cluster("more", resource_summary=summary({"x.io/other": 1})))
    assert set(fleet.row_of) == {"first", "same"}


def test_a_cluster_has_a_bounded_number_of_grades():
    fleet = Fleet([cluster("most", models=[{"cpu": each} for each in range(64)])])
    with pytest.raises(FieldError, match=r"spec\.resourceModels: 65 grades; at most 64 are scheduled"):
        fleet.apply(cluster("more", models=[{"cpu": each} for each in range(65)]))
    with pytest.raises(FieldError, match=r"spec\.resourceModels: the clusters have 513 names of resources"):
        fleet.apply(cluster("names", models=[{f"x.io/r{each}": 1 for each in range(513)}]))
    assert set(fleet.row_of) == {"most"}


def test_names_that_only_requests_have_need_no_memory():
    """Users choose the names of requests: a column for each would never go away."""
    reported = summary({"pods": 9}, nodes=[(0, 1)])
    resources = Fleet([cluster(resource_summary=reported, models=MODELS)]).resources
    for each in range(5):
        asked = requests_of(quantities({f"x.io/r{each}": 1}))
        assert resources.estimate(asked).current()[0] == resources.estimate_row(0, asked).replicas == 0
    assert resources.models.names() == {"cpu", "memory"}
