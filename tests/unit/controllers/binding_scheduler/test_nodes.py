"""Where on a cluster's nodes workloads that are on their way will go."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.controllers.binding_scheduler.nodes import MOST_CLASSES, MOST_NODES, NodeClass, Nodes
from berthmaster.model.cluster import AllocatableModeling

GIB = 2**30


def nodes(*counts: int, models: list[dict[str, int]] | None = None) -> Nodes:
    """So many nodes of each grade: of two cores, and of eight, unless told."""
    grades = models or [{"cpu": 2}, {"cpu": 8}]
    modelings = [AllocatableModeling(grade, count) for grade, count in enumerate(counts)]
    return Nodes(cluster(models=grades).spec.resource_models, modelings)


def cores(*classes: tuple[int, int]) -> list[NodeClass]:
    """Classes by cores and count."""
    return [NodeClass({"cpu": left * 1000}, count) for left, count in classes]


@pytest.mark.parametrize(
    ("loads", "left"),
    [
        pytest.param([], cores((2, 3), (8, 2)), id="nodes that nobody goes to are as their models say"),
        pytest.param([(1, 1)], cores((1, 1), (2, 2), (8, 2)), id="the smallest node that holds a replica takes it"),
        pytest.param([(3, 1)], cores((2, 3), (5, 1), (8, 1)), id="a replica too large for them goes to the next grade"),
        pytest.param([(1, 7)], cores((0, 3), (7, 1), (8, 1)), id="what a grade cannot hold goes on to the next"),
        pytest.param([(1, 3), (1, 1)], cores((0, 2), (2, 1), (8, 2)), id="a node that was begun is filled first"),
        pytest.param([(9, 1)], cores((2, 3), (8, 2)), id="what fits nowhere takes nothing"),
        pytest.param([(1, 99)], cores((0, 5)), id="more than there is room for takes all"),
    ],
)
def test_replicas_go_where_they_fit_first(loads: list[tuple[int, int]], left: list[NodeClass]):
    placed = nodes(3, 2)
    for number, (size, replicas) in enumerate(loads):
        placed.place(("ns", str(number)), (("cpu", size * 1000),), replicas)
    assert placed.classes() == left


@pytest.mark.parametrize(
    ("requests", "left"),
    [
        pytest.param((("nvidia.com/gpu", 1),), cores((2, 1)), id="what no model names fits nowhere"),
        pytest.param((("requests.cpu", 1),), cores((2, 1)), id="what plays no part on nodes takes no room"),
        pytest.param((("cpu", 1000), ("pods", 1)), cores((1, 1)), id="a replica is one pod, even if it says so"),
    ],
)
def test_resources_that_are_not_a_nodes(requests: tuple[tuple[str, int], ...], left: list[NodeClass]):
    placed = nodes(1, 0)
    placed.place(("ns", "web"), requests, 1)
    assert placed.classes() == left


def test_a_node_with_110_pods_has_room_for_nothing():
    placed = nodes(1, 1)
    placed.place(("ns", "tiny"), (("cpu", 1),), 110)
    assert placed.classes() == cores((0, 1), (8, 1))
    placed.place(("ns", "more"), (), 1)
    assert placed.classes() == cores((0, 1), (8, 1))
    placed.take_away(("ns", "tiny"))
    assert placed.classes() == cores((2, 1), (8, 1))


def test_all_resources_of_a_node_bound_it():
    placed = nodes(2, models=[{"cpu": 4, "memory": 8 * GIB}])
    placed.place(("ns", "web"), (("cpu", 1000), ("memory", 5 * GIB)), 2)
    assert placed.classes() == [NodeClass({"cpu": 3000, "memory": 3 * GIB}, 2)]


def test_without_nodes_there_is_one_class_of_none():
    assert [each.nodes for each in nodes(0, 0).classes()] == [0]


def test_of_very_many_classes_the_emptiest_are_told():
    placed = nodes(0, 2 * MOST_CLASSES)
    for size in range(2 * MOST_CLASSES):
        placed.place(("ns", str(size)), (("cpu", 4001 + size),), 1)
    told = placed.classes()
    assert [each.left["cpu"] for each in told] == [3999 - size for size in reversed(range(MOST_CLASSES))]


def test_of_very_many_nodes_some_of_each_grade_are_filled():
    placed = nodes(10 * MOST_NODES, 10 * MOST_NODES)
    placed.place(("ns", "small"), (("cpu", 2000),), MOST_NODES // 2)
    placed.place(("ns", "large"), (("cpu", 8000),), MOST_NODES)
    assert placed.classes() == cores(
        (0, MOST_NODES), (2, 10 * MOST_NODES - MOST_NODES // 2), (8, 10 * MOST_NODES - MOST_NODES // 2)
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(0, 30)), max_size=20))
def test_what_is_taken_away_leaves_no_trace(steps: list[tuple[int, int, int]]):
    placed, there = nodes(3, 4), set()
    for name, size, replicas in steps:
        key = ("ns", str(name))
        placed.take_away(key)
        placed.place(key, (("cpu", size * 1000),), replicas)
        there.add(key)
    for key in there:
        placed.take_away(key)
    assert placed.classes() == nodes(3, 4).classes()
