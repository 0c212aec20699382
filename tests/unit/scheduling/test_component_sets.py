"""How many complete sets of the pods of several templates fit."""

from builders import cluster
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.model.cluster import AllocatableModeling, Cluster, ResourceSummary
from berthmaster.model.meta import Quantity
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.request import MAX_SETS, SetTemplate, demand_of, sets_column, sets_on_nodes
from berthmaster.scheduling.resources import NodeGrade

GI = 2**30
DRIVER = SetTemplate(1, (("cpu", 1000),))
WORKERS = SetTemplate(3, (("cpu", 2000), ("memory", GI)))


def modeled(*counts: int, pods: int = 1000) -> Cluster:
    """A cluster whose grades have nodes of 4 and 8 cores, as many as the counts say."""
    summary = ResourceSummary(
        allocatable={"cpu": Quantity.parse("1000"), "memory": Quantity.parse("1Ti"), "pods": Quantity.parse(pods)},
        allocatable_modelings=tuple(AllocatableModeling(grade, count) for grade, count in enumerate(counts)),
    )
    models = [{"cpu": 4, "memory": "16Gi"}, {"cpu": 8, "memory": "16Gi"}]
    return cluster("m", models=models, resource_summary=summary)


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
