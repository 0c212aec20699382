"""Assumed replicas on the nodes that a cluster's resource models describe."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.controllers.binding_scheduler.assumed_replicas import (
    MAX_NODE_CLASSES,
    MAX_NODES,
    ModelNodes,
    NodeClass,
)
from berthmaster.model.cluster import AllocatableModeling

GIB = 2**30


def nodes(*counts: int, models: list[dict[str, int]] | None = None) -> ModelNodes:
    """Nodes by grade; by default of two and of eight cores."""
    grades = models or [{"cpu": 2}, {"cpu": 8}]
    modelings = [AllocatableModeling(grade, count) for grade, count in enumerate(counts)]
    return ModelNodes(cluster(models=grades).spec.resource_models, modelings)


def cores(*classes: tuple[int, int]) -> list[NodeClass]:
    """Classes by cores and count."""
    return [NodeClass({"cpu": free * 1000}, count) for free, count in classes]


@pytest.mark.parametrize(
    ("pending", "free"),
    [
        pytest.param([], cores((2, 3), (8, 2)), id="empty nodes have the capacity of their models"),
        pytest.param([(1, 1)], cores((1, 1), (2, 2), (8, 2)), id="the smallest node that holds a replica gets it"),
        pytest.param(
            [(3, 1)], cores((2, 3), (5, 1), (8, 1)), id="a replica too large for a grade goes to the next grade"
        ),
        pytest.param(
            [(1, 7)], cores((0, 3), (7, 1), (8, 1)), id="replicas that a grade cannot hold go to the next grade"
        ),
        pytest.param([(1, 3), (1, 1)], cores((0, 2), (2, 1), (8, 2)), id="a partly used node is filled first"),
        pytest.param([(9, 1)], cores((2, 3), (8, 2)), id="a replica that fits no node takes nothing"),
        pytest.param([(1, 99)], cores((0, 5)), id="more replicas than capacity take all of it"),
    ],
)
def test_replicas_are_placed_by_first_fit(pending: list[tuple[int, int]], free: list[NodeClass]):
    placed = nodes(3, 2)
    for number, (size, replicas) in enumerate(pending):
        placed.place(("ns", str(number)), (("cpu", size * 1000),), replicas)
    assert placed.classes() == free


@pytest.mark.parametrize(
    ("requests", "free"),
    [
        pytest.param((("nvidia.com/gpu", 1),), cores((2, 1)), id="a resource that no model names fits no node"),
        pytest.param(
            (("requests.cpu", 1),), cores((2, 1)), id="a resource that does not count for nodes takes nothing"
        ),
        pytest.param((("cpu", 1000), ("pods", 1)), cores((1, 1)), id="a replica is one pod, even if it requests pods"),
    ],
)
def test_resources_that_nodes_do_not_have(requests: tuple[tuple[str, int], ...], free: list[NodeClass]):
    placed = nodes(1, 0)
    placed.place(("ns", "web"), requests, 1)
    assert placed.classes() == free


def test_a_node_with_110_pods_is_full():
    placed = nodes(1, 1)
    placed.place(("ns", "tiny"), (("cpu", 1),), 110)
    assert placed.classes() == cores((0, 1), (8, 1))
    placed.place(("ns", "more"), (), 1)
    assert placed.classes() == cores((0, 1), (8, 1))
    placed.remove(("ns", "tiny"))
    assert placed.classes() == cores((2, 1), (8, 1))


def test_all_resources_of_a_node_count():
    placed = nodes(2, models=[{"cpu": 4, "memory": 8 * GIB}])
    placed.place(("ns", "web"), (("cpu", 1000), ("memory", 5 * GIB)), 2)
    assert placed.classes() == [NodeClass({"cpu": 3000, "memory": 3 * GIB}, 2)]


def test_without_nodes_there_is_one_empty_class():
    assert [each.nodes for each in nodes(0, 0).classes()] == [0]


def test_of_very_many_classes_the_emptiest_are_returned():
    placed = nodes(0, 2 * MAX_NODE_CLASSES)
    for size in range(2 * MAX_NODE_CLASSES):
        placed.place(("ns", str(size)), (("cpu", 4001 + size),), 1)
    shown = placed.classes()
    assert [each.free["cpu"] for each in shown] == [3999 - size for size in reversed(range(MAX_NODE_CLASSES))]


def test_of_very_many_nodes_some_of_each_grade_are_used():
    placed = nodes(10 * MAX_NODES, 10 * MAX_NODES)
    placed.place(("ns", "small"), (("cpu", 2000),), MAX_NODES // 2)
    placed.place(("ns", "large"), (("cpu", 8000),), MAX_NODES)
    assert placed.classes() == cores(
        (0, MAX_NODES), (2, 10 * MAX_NODES - MAX_NODES // 2), (8, 10 * MAX_NODES - MAX_NODES // 2)
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(0, 30)), max_size=20))
def test_removed_replicas_leave_no_trace(steps: list[tuple[int, int, int]]):
    placed, there = nodes(3, 4), set()
    for name, size, replicas in steps:
        key = ("ns", str(name))
        placed.remove(key)
        placed.place(key, (("cpu", size * 1000),), replicas)
        there.add(key)
    for key in there:
        placed.remove(key)
    assert placed.classes() == nodes(3, 4).classes()
