"""Assumed replicas by binding, by cluster, and on the nodes of resource models."""

from collections import Counter
from typing import Any

from builders import cluster
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tables import cases

from berthmaster.model.cluster import AllocatableModeling, Cluster
from berthmaster.scheduling.component_sets import SetTemplate, sets_column
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.pending_replicas import (
    EXPIRED,
    LIFETIME_S,
    MAX_NODE_CLASSES,
    MAX_NODES,
    AssumedCluster,
    AssumedReplicas,
    ModelNodes,
    PendingReplicas,
    TakenCluster,
)
from berthmaster.scheduling.resources import NodeClasses, Requests

ONE_CPU: Requests = (("cpu", 1000),)
KEY, OTHER = ("ns", "web"), ("ns", "db")


def fleet() -> AssumedReplicas:
    """No assumed replicas on the clusters m1 and m2, ten cores each."""
    assumed = AssumedReplicas()
    for name in ("m1", "m2"):
        assumed.update_cluster(cluster(name, cpu=10))
    return assumed


def allocating(seen: list[Cluster]) -> dict[str, int]:
    """The assumed cores by cluster, as decisions see them."""
    found = {}
    for each in seen:
        summary = each.status.resource_summary
        found[each.name] = summary.allocating["cpu"].value() if "cpu" in summary.allocating else 0
    return found


@cases(
    ("before", "after", "seen"),
    {
        "a first assignment counts completely": ({}, {"m1": 2, "m2": 1}, {"m1": 2, "m2": 1}),
        "growth counts, running replicas do not": ({"m1": 2}, {"m1": 5}, {"m1": 3}),
        "shrinking counts nothing": ({"m1": 5}, {"m1": 2}, {}),
        "a move counts on the new cluster": ({"m1": 2}, {"m2": 2}, {"m2": 2}),
        "an unknown cluster counts nothing": ({}, {"unknown": 2}, {}),
    },
)
def test_an_assignment_counts_by_its_growth(before: dict[str, int], after: dict[str, int], seen: dict[str, int]):
    assert allocating(fleet().assume(KEY, before, after, ONE_CPU, 0.0)) == seen


def test_a_workload_that_grows_twice_counts_twice():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assert allocating(assumed.assume(KEY, {"m1": 2}, {"m1": 5}, ONE_CPU, 1.0)) == {"m1": 5}


def test_one_call_forgets_a_part_of_what_has_expired():
    assumed = fleet()
    for number in range(EXPIRED + 1):
        assumed.assume(("ns", f"{number}"), {}, {"m1": 1}, ONE_CPU, 0.0)
    assert allocating(assumed.expire(LIFETIME_S)) == {"m1": 1}
    assert allocating(assumed.expire(LIFETIME_S)) == {"m1": 0}


def test_expiry_looks_only_at_bindings_whose_time_has_come():
    assumed = fleet()
    for number in range(100):
        assumed.assume(("ns", f"{number}"), {}, {"m1": 1, "m2": 1}, ONE_CPU, float(number))
    looked_at: list[tuple[str, str]] = []
    pending = assumed.pending
    assumed.pending = lambda key: looked_at.append(key) or pending(key)  # type: ignore[method-assign, func-returns-value]
    assert allocating(assumed.expire(LIFETIME_S + 2)) == {"m1": 97, "m2": 97}
    assert looked_at == [("ns", "0"), ("ns", "1"), ("ns", "2")]


def test_a_new_cluster_status_keeps_assumed_replicas():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assert allocating([assumed.update_cluster(cluster("m1", cpu=20))]) == {"m1": 2}


def test_a_removed_cluster_is_forgotten():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assumed.remove_cluster("m1")
    assert len(assumed) == 0
    assert assumed.pending(KEY) == {}
    assert assumed.forget(KEY) == []


def test_an_assignment_can_be_undone():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    before = assumed.pending(KEY)
    assumed.assume(KEY, {"m1": 2}, {"m2": 2}, ONE_CPU, 1.0)
    assert allocating(assumed.restore(KEY, before)) == {"m1": 2, "m2": 0}
    assert assumed.pending(KEY) == before


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["assume", "release", "gone", "expire"]),
        st.integers(0, 3),
        st.dictionaries(st.sampled_from(["m1", "m2"]), st.integers(0, 3)),
    ),
    max_size=20,
)


@given(_STEPS)
def test_decisions_always_see_the_sum_of_the_assumed_replicas(
    steps: list[tuple[str, int, dict[str, int]]],
):
    assumed, assigned, seen = fleet(), {}, {"m1": 0, "m2": 0}
    for now_s, (step, number, clusters) in enumerate(steps):
        key = ("ns", str(number))
        if step == "assume":
            changed = assumed.assume(key, assigned.get(key, {}), clusters, ONE_CPU, now_s)
            assigned[key] = clusters
        elif step == "release":
            changed = assumed.forget(key, clusters)
        elif step == "gone":
            changed = assumed.forget(key)
            assigned.pop(key, None)
        else:
            changed = assumed.expire(now_s + LIFETIME_S - number)
        seen.update(allocating(changed))
        for name in ("m1", "m2"):
            loads = [assumed.pending(("ns", str(each))).get(name) for each in range(4)]
            assert seen[name] == sum(each.replicas for each in loads if each is not None)


def estimate(member: Cluster, requests: Requests) -> int:
    fleet = Fleet([member])
    return fleet.resources.estimate_row(fleet.row_of[member.name], requests).replicas


def with_pending(member: Cluster, pending: dict[Requests, int]) -> Cluster:
    assumed = AssumedCluster(member)
    for number, (requests, replicas) in enumerate(pending.items()):
        assumed.put(("ns", str(number)), PendingReplicas(replicas, requests, 0.0))
    return assumed.view()


def with_nodes(member: Cluster, *counts: int) -> Cluster:
    summary = member.status.resource_summary
    assert summary is not None
    modelings = tuple(AllocatableModeling(grade, count) for grade, count in enumerate(counts))
    status = replace(member.status, resource_summary=replace(summary, allocatable_modelings=modelings))
    return replace(member, status=status)


@cases(
    ("pending", "available"),
    {
        "nothing is pending": ({}, 10),
        "pending replicas are deducted": ({ONE_CPU: 4}, 6),
        "pending replicas of all kinds are deducted": ({ONE_CPU: 4, (("cpu", 500),): 4}, 4),
        "more than the capacity leaves nothing": ({ONE_CPU: 12}, 0),
        "pod slots count for all requests": ({(): 105}, 5),
        "a resource that the cluster lacks bounds no other resource": ({(("memory", 1),): 1}, 10),
    },
)
def test_pending_replicas_reduce_the_summary(pending: dict[Requests, int], available: int):
    assert estimate(with_pending(cluster(cpu=10, pods=110), pending), ONE_CPU) == available


def test_a_cluster_without_summary_is_unchanged():
    assert with_pending(cluster(), {ONE_CPU: 1}) == cluster()


@cases(
    ("counts", "placed", "available"),
    {
        "two nodes of one core": ((0, 2, 0), 0, 2),
        "one of them is used": ((0, 2, 0), 1, 1),
        "one of four cores is partly used": ((0, 0, 2), 1, 7),
        "the smaller node is filled first": ((0, 1, 1), 2, 3),
        "more than they hold leaves nothing": ((0, 1, 1), 9, 0),
    },
)
def test_model_nodes_are_filled_one_by_one(counts: tuple[int, ...], placed: int, available: int):
    member = with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 1}, {"cpu": 4}]), *counts)
    pending = {ONE_CPU: placed} if placed else {}
    assert estimate(with_pending(member, pending), ONE_CPU) == available


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
    assert [assumed.equivalent_replicas(each) for each in asked] == [alone.equivalent_replicas(each) for each in asked]
    assumed.put(("ns", "last"), None)
    assert assumed.view() == member


MANY = with_nodes(
    cluster(cpu=10_000, memory=1000, pods=9000, models=[{"cpu": 2, "memory": 1}, {"cpu": 90, "memory": 90}]), 3, 70
)
ASKED: list[Requests] = [(), ONE_CPU, (("cpu", 3000), ("memory", 1)), *((("cpu", 50_000 + n),) for n in range(70))]
PAIR = (SetTemplate(2, (("cpu", 700),)), SetTemplate(1, (("memory", 2),)))


@given(
    member=st.sampled_from([MODELED, PLAIN, MANY]),
    steps=st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from(ASKED)),
        min_size=1,
        max_size=90,
    ),
)
def test_taken_replicas_leave_what_the_same_replicas_leave_that_are_pending(
    member: Cluster, steps: list[tuple[int, Requests]]
):
    assumed, fleet = AssumedCluster(member), Fleet([member])
    taken, row = TakenCluster(fleet, member), fleet.row_of[member.name]
    for number, (replicas, requests) in enumerate(steps):
        assumed.put(("ns", str(number)), PendingReplicas(replicas, requests, 0.0))
        taken.take([(replicas, requests)])
        seen, resources = Fleet([assumed.view()]).resources, fleet.resources
        assert resources.estimate_row(row, requests) == seen.estimate_row(row, requests)
        assert resources.estimate(requests).current()[row] == seen.estimate(requests).current()[row]
        assert sets_column(resources, PAIR).current()[row] == sets_column(seen, PAIR).current()[row]
    assert taken.view() == assumed.view()
    fleet.apply(member)
    assert fleet.resources.model_nodes(row) == Fleet([member]).resources.model_nodes(row)


def test_changed_nodes_reset_the_placement_and_changed_labels_do_not():
    assumed = AssumedCluster(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}]), 0, 1))
    assumed.put(("ns", "web"), PendingReplicas(6, ONE_CPU, 0.0))
    assert estimate(assumed.view(), ONE_CPU) == 0
    assumed.update(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}]), 0, 2))
    assert estimate(assumed.view(), ONE_CPU) == 2
    assumed.update(with_nodes(cluster(cpu=1000, pods=1000, models=[{"cpu": 0}, {"cpu": 4}], labels={"a": "b"}), 0, 2))
    assert estimate(assumed.view(), ONE_CPU) == 2
    assert assumed.view().metadata.labels == {"a": "b"}


GIB = 2**30


def nodes(*counts: int, models: list[dict[str, int]] | None = None) -> ModelNodes:
    """Nodes by grade; by default of two and of eight cores."""
    grades = models or [{"cpu": 2}, {"cpu": 8}]
    modelings = [AllocatableModeling(grade, count) for grade, count in enumerate(counts)]
    return ModelNodes(cluster(models=grades).spec.resource_models, modelings)


def cores(*classes: tuple[int, int]) -> NodeClasses:
    return NodeClasses(("cpu",), [(free * 1000,) for free, _ in classes], [count for _, count in classes])


@cases(
    ("pending", "free"),
    {
        "empty nodes have the capacity of their models": ([], cores((2, 3), (8, 2))),
        "the smallest node that holds a replica gets it": ([(1, 1)], cores((1, 1), (2, 2), (8, 2))),
        "a replica too large for a grade goes to the next grade": ([(3, 1)], cores((2, 3), (5, 1), (8, 1))),
        "replicas that a grade cannot hold go to the next grade": ([(1, 7)], cores((0, 3), (7, 1), (8, 1))),
        "a partly used node is filled first": ([(1, 3), (1, 1)], cores((0, 2), (2, 1), (8, 2))),
        "a replica that fits no node takes nothing": ([(9, 1)], cores((2, 3), (8, 2))),
        "more replicas than capacity take all of it": ([(1, 99)], cores((0, 5))),
    },
)
def test_replicas_are_placed_by_first_fit(pending: list[tuple[int, int]], free: NodeClasses):
    placed = nodes(3, 2)
    for size, replicas in pending:
        placed.place((("cpu", size * 1000),), replicas)
    assert placed.classes() == free


@cases(
    ("requests", "free"),
    {
        "a resource that no model names fits no node": ((("nvidia.com/gpu", 1),), cores((2, 1))),
        "a resource that does not count for nodes takes nothing": ((("requests.cpu", 1),), cores((2, 1))),
        "a replica is one pod, even if it requests pods": ((("cpu", 1000), ("pods", 1)), cores((1, 1))),
    },
)
def test_resources_that_nodes_do_not_have(requests: tuple[tuple[str, int], ...], free: NodeClasses):
    placed = nodes(1, 0)
    placed.place(requests, 1)
    assert placed.classes() == free


def test_a_cluster_whose_models_have_no_nodes_takes_nothing():
    placed = nodes(0, 0)
    assert placed.place((("cpu", 1000),), 2) == []
    assert placed.classes() == cores((2, 0))


def test_a_node_with_110_pods_is_full():
    placed = nodes(1, 1)
    tiny = placed.place((("cpu", 1),), 110)
    assert placed.classes() == cores((0, 1), (8, 1))
    placed.place((), 1)
    assert placed.classes() == cores((0, 1), (8, 1))
    placed.remove(tiny)
    assert placed.classes() == cores((2, 1), (8, 1))


def test_all_resources_of_a_node_count():
    placed = nodes(2, models=[{"cpu": 4, "memory": 8 * GIB}])
    placed.place((("cpu", 1000), ("memory", 5 * GIB)), 2)
    assert placed.classes() == NodeClasses(("cpu", "memory"), [(3000, 3 * GIB)], [2])


def test_without_nodes_there_is_one_empty_class():
    assert nodes(0, 0).classes() == cores((2, 0))


def test_of_very_many_classes_the_emptiest_are_returned():
    placed = nodes(0, 2 * MAX_NODE_CLASSES)
    for size in range(2 * MAX_NODE_CLASSES):
        placed.place((("cpu", 4001 + size),), 1)
    shown = placed.classes().free
    assert shown == [(3999 - size,) for size in reversed(range(MAX_NODE_CLASSES))]


def test_of_very_many_nodes_some_of_each_grade_are_used():
    placed = nodes(10 * MAX_NODES, 10 * MAX_NODES)
    placed.place((("cpu", 2000),), MAX_NODES // 2)
    placed.place((("cpu", 8000),), MAX_NODES)
    assert placed.classes() == cores(
        (0, MAX_NODES), (2, 10 * MAX_NODES - MAX_NODES // 2), (8, 10 * MAX_NODES - MAX_NODES // 2)
    )


class OneByOne:
    """Nodes on which replicas are placed one after the other, each on the first node that holds it."""

    def __init__(self, grades: list[tuple[int, int]], counts: list[int]) -> None:
        self._free = [[110, *grade] for grade, count in zip(grades, counts, strict=True) for _ in range(count)]
        self._least, self._on = min(grades), dict[str, list[tuple[int, list[int]]]]()

    def place(self, key: str, asked: tuple[int, int], replicas: int) -> None:
        demand = [1, *asked]
        for _ in range(replicas):
            for node, free in enumerate(self._free):
                if all(amount <= left for amount, left in zip(demand, free, strict=True)):
                    self._add(node, demand, -1)
                    self._on.setdefault(key, []).append((node, demand))
                    break

    def remove(self, key: str) -> None:
        for node, demand in self._on.pop(key, ()):
            self._add(node, demand, 1)

    def classes(self) -> NodeClasses:
        counts = Counter((cpu, memory) if pods else (0, 0) for pods, cpu, memory in self._free)
        shown = sorted(counts)[-MAX_NODE_CLASSES:] or [self._least]
        return NodeClasses(("cpu", "memory"), shown, [counts[each] for each in shown])

    def _add(self, node: int, demand: list[int], sign: int) -> None:
        self._free[node] = [left + sign * amount for left, amount in zip(self._free[node], demand, strict=True)]


@given(
    grades=st.lists(st.tuples(st.sampled_from([0, 9, 200]), st.sampled_from([5, 100])), min_size=1, max_size=4),
    counts=st.lists(st.integers(0, 20), min_size=4, max_size=4),
    steps=st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.sampled_from([(0, 0), (1, 0), (2, 1), (7, 60)]),
            st.sampled_from([0, 1, 2, 3, 10, 50, 300]),
        ),
        min_size=10,
        max_size=25,
    ),
)
def test_runs_of_nodes_are_filled_as_one_replica_after_the_other(
    grades: list[tuple[int, int]], counts: list[int], steps: list[tuple[str, tuple[int, int], int]]
):
    counts = counts[: len(grades)]
    models = [{"cpu": cpu, "memory": memory} for cpu, memory in grades]
    single = OneByOne([(cpu * 1000, memory) for cpu, memory in grades], counts)
    placed, on = nodes(*counts, models=models), dict[str, list[Any]]()
    for key, (cpu, memory), replicas in steps:
        if replicas % 3 == 0:  # otherwise the workload gets more replicas
            placed.remove(on.pop(key, []))
            single.remove(key)
        amounts = (("cpu", cpu * 1000), ("memory", memory))
        on.setdefault(key, []).extend(placed.place(tuple(each for each in amounts if each[1]), replicas))
        single.place(key, (cpu * 1000, memory), replicas)
        assert placed.classes() == single.classes()
    for replicas_of_one in on.values():
        placed.remove(replicas_of_one)
    assert placed.classes() == nodes(*counts, models=models).classes()
