"""A cluster with replicas on their way to it, against a plain simulation of its nodes."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from berthmaster.controllers.binding_scheduler.loads import Load, LoadedCluster
from berthmaster.model.cluster import AllocatableModeling, Cluster
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.resources import Requests

ONE_CPU: Requests = (("cpu", 1000),)


def estimate(member: Cluster, requests: Requests) -> int:
    fleet = Fleet([member])
    return fleet.resources.estimate_row(fleet.row_of[member.name], requests).replicas


def with_loads(member: Cluster, loads: dict[Requests, int]) -> Cluster:
    """A cluster with so many replicas on their way to it, by what each needs."""
    loaded = LoadedCluster(member)
    for number, (requests, replicas) in enumerate(loads.items()):
        loaded.put(("ns", str(number)), Load(replicas, requests, 0.0))
    return loaded.seen()


def with_nodes(member: Cluster, *counts: int) -> Cluster:
    """A cluster that has so many nodes of each of its grades."""
    summary = member.status.resource_summary
    assert summary is not None
    modelings = tuple(AllocatableModeling(grade, count) for grade, count in enumerate(counts))
    status = replace(member.status, resource_summary=replace(summary, allocatable_modelings=modelings))
    return replace(member, status=status)


@pytest.mark.parametrize(
    ("loads", "room"),
    [
        pytest.param({}, 10, id="nothing on its way leaves all"),
        pytest.param({ONE_CPU: 4}, 6, id="what is on its way is not given away again"),
        pytest.param({ONE_CPU: 4, (("cpu", 500),): 4}, 4, id="loads of all kinds count"),
        pytest.param({ONE_CPU: 12}, 0, id="more than there is leaves nothing"),
        pytest.param({(): 105}, 5, id="pods count, whatever they request"),
        pytest.param({(("memory", 1),): 1}, 10, id="a resource that the cluster does not have bounds nothing else"),
    ],
)
def test_the_summary_shrinks_by_what_is_on_its_way(loads: dict[Requests, int], room: int):
    assert estimate(with_loads(cluster(cpu=10, pods=110), loads), ONE_CPU) == room


def test_a_cluster_that_reports_nothing_stays_as_it_is():
    assert with_loads(cluster(), {ONE_CPU: 1}) == cluster()


@pytest.mark.parametrize(
    ("counts", "placed", "room"),
    [
        pytest.param((0, 2, 0), 0, 2, id="two nodes of one core"),
        pytest.param((0, 2, 0), 1, 1, id="one of them is taken"),
        pytest.param((0, 0, 2), 1, 7, id="one of four cores is partly taken"),
        pytest.param((0, 1, 1), 2, 3, id="the smaller node is filled first"),
        pytest.param((0, 1, 1), 9, 0, id="more than they hold leaves nothing"),
    ],
)
def test_model_nodes_are_filled_one_by_one(counts: tuple[int, ...], placed: int, room: int):
    member = with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 1}, {"cpu": 4}]), *counts)
    loads = {ONE_CPU: placed} if placed else {}
    assert estimate(with_loads(member, loads), ONE_CPU) == room


@given(
    counts=st.lists(st.integers(0, 5), min_size=4, max_size=4),
    loads=st.dictionaries(st.sampled_from([1, 2, 3, 5]), st.integers(1, 20), max_size=3),
    asked=st.sampled_from([1, 2, 3, 4]),
)
def test_filling_is_first_fit_node_by_node(counts: list[int], loads: dict[int, int], asked: int):
    grades = [0, 2, 4, 8]
    nodes = [grade for grade, count in zip(grades, counts, strict=True) for _ in range(count)]
    for cores, replicas in loads.items():
        for _ in range(replicas):
            fitting = next((index for index, free in enumerate(nodes) if free >= cores), None)
            if fitting is not None:
                nodes[fitting] -= cores
    member = with_nodes(cluster(cpu=10**6, pods=10**6, models=[{"cpu": grade} for grade in grades]), *counts)
    seen = with_loads(member, {(("cpu", cores * 1000),): replicas for cores, replicas in loads.items()})
    assert estimate(seen, (("cpu", asked * 1000),)) == sum(free // asked for free in nodes)


MODELED = with_nodes(cluster(cpu=100, memory=100, pods=500, models=[{"cpu": 2, "memory": 1}, {"cpu": 8}]), 3, 2)
PLAIN = cluster(cpu=100, memory=100, pods=500)


@given(
    member=st.sampled_from([MODELED, PLAIN]),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([(), ONE_CPU, (("cpu", 3000), ("memory", 1))])),
        max_size=12,
    ),
)
def test_what_came_and_went_leaves_the_cluster_as_it_is(member: Cluster, steps: list[tuple[int, int, Requests]]):
    loaded = LoadedCluster(member)
    for number, replicas, requests in steps:
        loaded.put(("ns", str(number)), Load(replicas, requests, 0.0) if replicas else None)
        loaded.seen()
    loaded.put(("ns", "last"), Load(1, ONE_CPU, 0.0))
    for key in list(loaded.loads):
        if key != ("ns", "last"):
            loaded.put(key, None)
    alone = LoadedCluster(member)
    alone.put(("ns", "last"), Load(1, ONE_CPU, 0.0))
    asked = [(), ONE_CPU, (("cpu", 3000), ("memory", 1))]
    assert [loaded.held(each) for each in asked] == [alone.held(each) for each in asked]
    loaded.put(("ns", "last"), None)
    assert loaded.seen() == member


def test_other_nodes_are_other_places_and_other_labels_are_not():
    loaded = LoadedCluster(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}]), 0, 1))
    loaded.put(("ns", "web"), Load(6, ONE_CPU, 0.0))
    assert estimate(loaded.seen(), ONE_CPU) == 0
    loaded.become(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}]), 0, 2))
    assert estimate(loaded.seen(), ONE_CPU) == 2
    loaded.become(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}], labels={"a": "b"}), 0, 2))
    assert estimate(loaded.seen(), ONE_CPU) == 2
    assert loaded.seen().metadata.labels == {"a": "b"}
