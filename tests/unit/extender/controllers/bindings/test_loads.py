"""A cluster with replicas on their way to it, against a plain simulation of its nodes."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.controllers.bindings.loads import with_loads
from extender.scheduling.fleet import Fleet
from extender.scheduling.resources import Requests
from fleet.model.cluster import AllocatableModeling, Cluster

ONE_CPU: Requests = (("cpu", 1000),)


def estimate(member: Cluster, requests: Requests) -> int:
    fleet = Fleet([member])
    return fleet.resources.estimate_row(fleet.row_of[member.name], requests).replicas


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
    for cores, replicas in sorted(loads.items()):
        for _ in range(replicas):
            fitting = next((index for index, free in enumerate(nodes) if free >= cores), None)
            if fitting is not None:
                nodes[fitting] -= cores
    member = with_nodes(cluster(cpu=10**6, pods=10**6, models=[{"cpu": grade} for grade in grades]), *counts)
    seen = with_loads(member, {(("cpu", cores * 1000),): replicas for cores, replicas in loads.items()})
    summary_room = (10**6 - sum(cores * replicas for cores, replicas in loads.items())) // asked
    # A model counts only if any node is told of at all; then it alone bounds.
    expected = sum(free // asked for free in nodes) if any(counts) or seen.spec.resource_models else summary_room
    assert estimate(seen, (("cpu", asked * 1000),)) == expected
