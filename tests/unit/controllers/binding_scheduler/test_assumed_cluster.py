"""A cluster with pending replicas, compared with a plain simulation of its nodes."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from berthmaster.controllers.binding_scheduler.assumed_replicas import AssumedCluster, PendingReplicas
from berthmaster.model.cluster import AllocatableModeling, Cluster
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.resources import Requests

ONE_CPU: Requests = (("cpu", 1000),)


def estimate(member: Cluster, requests: Requests) -> int:
    fleet = Fleet([member])
    return fleet.resources.estimate_row(fleet.row_of[member.name], requests).replicas


def with_pending(member: Cluster, pending: dict[Requests, int]) -> Cluster:
    """The cluster with pending replicas, by their requests."""
    assumed = AssumedCluster(member)
    for number, (requests, replicas) in enumerate(pending.items()):
        assumed.put(("ns", str(number)), PendingReplicas(replicas, requests, 0.0))
    return assumed.view()


def with_nodes(member: Cluster, *counts: int) -> Cluster:
    """The cluster with this many nodes of each grade."""
    summary = member.status.resource_summary
    assert summary is not None
    modelings = tuple(AllocatableModeling(grade, count) for grade, count in enumerate(counts))
    status = replace(member.status, resource_summary=replace(summary, allocatable_modelings=modelings))
    return replace(member, status=status)


@pytest.mark.parametrize(
    ("pending", "available"),
    [
        pytest.param({}, 10, id="nothing is pending"),
        pytest.param({ONE_CPU: 4}, 6, id="pending replicas are deducted"),
        pytest.param({ONE_CPU: 4, (("cpu", 500),): 4}, 4, id="pending replicas of all kinds are deducted"),
        pytest.param({ONE_CPU: 12}, 0, id="more than the capacity leaves nothing"),
        pytest.param({(): 105}, 5, id="pod slots count for all requests"),
        pytest.param({(("memory", 1),): 1}, 10, id="a resource that the cluster lacks bounds no other resource"),
    ],
)
def test_pending_replicas_reduce_the_summary(pending: dict[Requests, int], available: int):
    assert estimate(with_pending(cluster(cpu=10, pods=110), pending), ONE_CPU) == available


def test_a_cluster_without_summary_is_unchanged():
    assert with_pending(cluster(), {ONE_CPU: 1}) == cluster()


@pytest.mark.parametrize(
    ("counts", "placed", "available"),
    [
        pytest.param((0, 2, 0), 0, 2, id="two nodes of one core"),
        pytest.param((0, 2, 0), 1, 1, id="one of them is used"),
        pytest.param((0, 0, 2), 1, 7, id="one of four cores is partly used"),
        pytest.param((0, 1, 1), 2, 3, id="the smaller node is filled first"),
        pytest.param((0, 1, 1), 9, 0, id="more than they hold leaves nothing"),
    ],
)
def test_model_nodes_are_filled_one_by_one(counts: tuple[int, ...], placed: int, available: int):
    member = with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 1}, {"cpu": 4}]), *counts)
    pending = {ONE_CPU: placed} if placed else {}
    assert estimate(with_pending(member, pending), ONE_CPU) == available


@given(
    counts=st.lists(st.integers(0, 5), min_size=4, max_size=4),
    pending=st.dictionaries(st.sampled_from([1, 2, 3, 5]), st.integers(1, 20), max_size=3),
    asked=st.sampled_from([1, 2, 3, 4]),
)
def test_filling_is_first_fit_node_by_node(counts: list[int], pending: dict[int, int], asked: int):
    grades = [0, 2, 4, 8]
    nodes = [grade for grade, count in zip(grades, counts, strict=True) for _ in range(count)]
    for cores, replicas in pending.items():
        for _ in range(replicas):
            fitting = next((index for index, free in enumerate(nodes) if free >= cores), None)
            if fitting is not None:
                nodes[fitting] -= cores
    member = with_nodes(cluster(cpu=10**6, pods=10**6, models=[{"cpu": grade} for grade in grades]), *counts)
    seen = with_pending(member, {(("cpu", cores * 1000),): replicas for cores, replicas in pending.items()})
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
def test_removed_replicas_leave_the_cluster_unchanged(member: Cluster, steps: list[tuple[int, int, Requests]]):
    assumed = AssumedCluster(member)
    for number, replicas, requests in steps:
        assumed.put(("ns", str(number)), PendingReplicas(replicas, requests, 0.0) if replicas else None)
        assumed.view()
    assumed.put(("ns", "last"), PendingReplicas(1, ONE_CPU, 0.0))
    for key in list(assumed.pending):
        if key != ("ns", "last"):
            assumed.put(key, None)
    alone = AssumedCluster(member)
    alone.put(("ns", "last"), PendingReplicas(1, ONE_CPU, 0.0))
    asked = [(), ONE_CPU, (("cpu", 3000), ("memory", 1))]
    assert [assumed.held(each) for each in asked] == [alone.held(each) for each in asked]
    assumed.put(("ns", "last"), None)
    assert assumed.view() == member


def test_changed_nodes_reset_the_placement_and_changed_labels_do_not():
    assumed = AssumedCluster(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}]), 0, 1))
    assumed.put(("ns", "web"), PendingReplicas(6, ONE_CPU, 0.0))
    assert estimate(assumed.view(), ONE_CPU) == 0
    assumed.update(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}]), 0, 2))
    assert estimate(assumed.view(), ONE_CPU) == 2
    assumed.update(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}], labels={"a": "b"}), 0, 2))
    assert estimate(assumed.view(), ONE_CPU) == 2
    assert assumed.view().metadata.labels == {"a": "b"}
