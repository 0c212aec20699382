"""How many replicas, and complete sets of pods, fit a cluster; bounds from estimators only reduce them."""

import pytest
from builders import cluster, quantities
from decisions import AGGREGATED, DYNAMIC, asked, outcome
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tables import cases

from berthmaster.model.cluster import AllocatableModeling, Cluster, ResourceSummary
from berthmaster.model.errors import FieldError
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.component_sets import MAX_SETS, SetTemplate, demand_of, sets_column, sets_on_nodes
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.selection import ITS_ESTIMATOR
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import Estimate, NodeGrade, requests_of
from berthmaster.scheduling.scheduler import Scheduler

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


PODS = {"a": 10, "b": 10, "c": 10}


def decide(bounds, **fields):
    scheduler = Scheduler(Fleet([cluster(name, pods=pods) for name, pods in PODS.items()]), karmada_profile())
    request = replace(Request.of(asked(**fields)), bounds=bounds)
    return scheduler, request, scheduler.schedule(request)


def test_overflow_starts_at_the_bound():
    groups = [
        {
            "affinityName": "main",
            "clusterNames": ["a"],
            "overflowAffinities": [{"affinityName": "", "clusterNames": ["b"]}],
        },
    ]
    _, _, decision = decide({"a": 3}, replicas=5, scheduling=AGGREGATED, groups=groups)
    assert decision.assignment == {"a": 3, "b": 2}


@cases(
    ("bounds", "expected"),
    {
        "the estimator, if its bound is smaller": ({"a": 4}, (4, ITS_ESTIMATOR)),
        "the resource, if both are equal": ({"a": 10}, (10, "pods")),
        "the resource, if only other estimators answered": ({"b": 4}, (10, "pods")),
        "the resource, if no estimator was asked": (None, (10, "pods")),
    },
)
def test_a_diagnosis_names_the_limit(bounds, expected):
    explained = explain(*decide(bounds, replicas=3, scheduling=DYNAMIC)).groups[0].clusters[0]
    assert (explained.capacity, explained.bound_by) == expected


@given(
    st.dictionaries(st.sampled_from([*PODS, "gone"]), st.integers(0, 12)),
    st.integers(1, 30),
    st.sampled_from([DYNAMIC, AGGREGATED]),
)
def test_a_bound_has_the_effect_of_a_smaller_summary(bounds, replicas, scheduling):
    smaller = [cluster(name, pods=min(pods, bounds.get(name, pods))) for name, pods in PODS.items()]
    expected = Scheduler(Fleet(smaller), karmada_profile()).schedule(
        Request.of(asked(replicas=replicas, scheduling=scheduling))
    )
    _, _, decision = decide(bounds, replicas=replicas, scheduling=scheduling)
    assert outcome(decision) == outcome(expected)


GI = 2**30
DRIVER = SetTemplate(1, (("cpu", 1000),))
WORKERS = SetTemplate(3, (("cpu", 2000), ("memory", GI)))


def modeled(*counts: int, pods: int = 1000) -> Cluster:
    """A cluster whose grades have nodes of 4 and 8 cores, as many as the counts say."""
    reported = ResourceSummary(
        allocatable={"cpu": Quantity.parse("1000"), "memory": Quantity.parse("1Ti"), "pods": Quantity.parse(pods)},
        allocatable_modelings=tuple(AllocatableModeling(grade, count) for grade, count in enumerate(counts)),
    )
    models = [{"cpu": 4, "memory": "16Gi"}, {"cpu": 8, "memory": "16Gi"}]
    return cluster("m", models=models, resource_summary=reported)


def sets(member: Cluster, *templates: SetTemplate) -> int:
    fleet = Fleet([member])
    column = sets_column(fleet.resources, templates)
    (found,) = column.current()[[fleet.row_of["m"]]].tolist()
    assert column.compute_row(fleet.row_of["m"]) == found, "one row and all rows agree"
    return found


@cases(
    ("member", "templates", "expected"),
    {
        "7 cores for each set": (cluster("m", cpu=21), (DRIVER, SetTemplate(3, (("cpu", 2000),))), 3),
        "3 GiB for each set": (cluster("m", cpu=21, memory="5Gi"), (DRIVER, WORKERS), 1),
        "4 pods for each set": (cluster("m", cpu=21, pods=7), (DRIVER, SetTemplate(3, None)), 1),
        "a resource that it lacks": (cluster("m", cpu=21), (SetTemplate(2, (("gpu", 1),)), DRIVER), 0),
        "templates without pods": (cluster("m", cpu=21, pods=7), (SetTemplate(0, (("cpu", 1),)),), 7),
        "a cluster without a summary": (cluster("m"), (DRIVER, WORKERS), 0),
        "most of it is allocated": (cluster("m", cpu=21, allocated={"cpu": 20}), (DRIVER, WORKERS), 0),
        "models without nodes": (modeled(0, 0), (DRIVER,), 0),
        "three nodes of 4 cores: 2 workers beside no driver": (modeled(3), (DRIVER, WORKERS), 1),
        "two nodes of 8 cores": (modeled(0, 2), (DRIVER, WORKERS), 2),
        "only a large node has room": (modeled(2, 1), (SetTemplate(1, (("cpu", 8000),)), DRIVER), 1),
        "no node has room for a pod": (modeled(9), (SetTemplate(1, (("cpu", 5000),)), DRIVER), 0),
        "pods limit before nodes": (modeled(9, pods=6), (DRIVER, WORKERS), 1),
        "a template without pods": (modeled(9), (DRIVER, SetTemplate(0, (("cpu", 99000),))), 36),
    },
)
def test_sets_of_a_cluster(member, templates, expected):
    assert sets(member, *templates) == expected


def test_the_result_of_a_cluster_follows_its_status():
    fleet = Fleet([modeled(3)])
    column = sets_column(fleet.resources, (DRIVER, WORKERS))
    before = int(column.current()[fleet.row_of["m"]])
    fleet.apply(modeled(30))
    assert (before, int(column.current()[fleet.row_of["m"]])) == (1, 17)


def test_the_demand_of_a_set_adds_all_pods():
    assert demand_of((DRIVER, WORKERS, SetTemplate(2, None))) == (("cpu", 7000), ("memory", 3 * GI), ("pods", 6))


def first_fit(grades, templates, limit):
    """The same count, one pod after the other on a list of nodes."""
    nodes = [dict(capacity) for capacity, count in grades for _ in range(count)]
    for placed in range(limit):
        for replicas, requests in templates:
            asked = {**dict(requests or ()), "pods": 1}
            for _ in range(replicas):
                node = next((each for each in nodes if all(each.get(n, 0) >= a for n, a in asked.items())), None)
                if node is None:
                    return placed
                for name, amount in asked.items():
                    node[name] -= amount
    return limit


def two_amounts(cpu, gi):
    return (("cpu", cpu), ("memory", gi))


TEMPLATES = st.lists(
    st.builds(
        SetTemplate,
        st.integers(0, 4),
        st.one_of(st.none(), st.builds(two_amounts, st.integers(1, 4), st.integers(1, 4))),
    ),
    min_size=1,
    max_size=3,
)  # fmt: skip
GRADES = st.lists(
    st.builds(
        lambda cpu, memory, pods, count: NodeGrade({"cpu": cpu, "memory": memory, "pods": pods}, count),
        st.integers(0, 9), st.integers(0, 9), st.integers(0, 5), st.integers(0, 4),
    ),
    max_size=3,
)  # fmt: skip


@given(GRADES, TEMPLATES, st.integers(0, 8))
def test_sets_on_nodes_are_those_of_first_fit_pod_by_pod(grades, templates, limit):
    assert sets_on_nodes(grades, tuple(templates), limit) == first_fit(grades, templates, limit)


def test_more_sets_than_are_placed_count_as_all():
    grades = [NodeGrade({"cpu": 10**9, "pods": 10**9}, 1)]
    assert sets_on_nodes(grades, (DRIVER,), MAX_SETS * 10) == MAX_SETS * 10
