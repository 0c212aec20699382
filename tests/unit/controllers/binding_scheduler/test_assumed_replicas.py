"""Assumed replicas by cluster and binding."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.controllers.binding_scheduler.assumed_replicas import LIFETIME_S, AssumedReplicas
from berthmaster.model.cluster import Cluster

ONE_CPU = (("cpu", 1000),)
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
        assert summary is not None
        found[each.name] = summary.allocating["cpu"].value() if "cpu" in summary.allocating else 0
    return found


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        pytest.param({}, {"m1": 2, "m2": 1}, {"m1": 2, "m2": 1}, id="a first assignment counts completely"),
        pytest.param({"m1": 2}, {"m1": 5}, {"m1": 3}, id="growth counts, running replicas do not"),
        pytest.param({"m1": 5}, {"m1": 2}, {}, id="shrinking counts nothing"),
        pytest.param({"m1": 2}, {"m2": 2}, {"m2": 2}, id="a move counts on the new cluster"),
        pytest.param({}, {"unknown": 2}, {}, id="an unknown cluster counts nothing"),
    ],
)
def test_an_assignment_counts_by_its_growth(before: dict[str, int], after: dict[str, int], seen: dict[str, int]):
    assert allocating(fleet().assume(KEY, before, after, ONE_CPU, 0.0)) == seen


def test_a_workload_that_grows_twice_counts_twice():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assert allocating(assumed.assume(KEY, {"m1": 2}, {"m1": 5}, ONE_CPU, 1.0)) == {"m1": 5}


def test_a_workload_that_shrinks_again_frees_capacity():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 5}, ONE_CPU, 0.0)
    assert allocating(assumed.assume(KEY, {"m1": 5}, {"m1": 1}, ONE_CPU, 1.0)) == {"m1": 1}
    assert allocating(assumed.assume(KEY, {"m1": 1}, {}, ONE_CPU, 2.0)) == {"m1": 0}
    assert len(assumed) == 0


def test_healthy_replicas_are_forgotten():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 2, "m2": 2}, ONE_CPU, 0.0)
    assert allocating(assumed.forget(KEY, ["m1"])) == {"m1": 0}
    assert set(assumed.pending(KEY)) == {"m2"}


def test_a_deleted_binding_is_forgotten():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 2, "m2": 2}, ONE_CPU, 0.0)
    assert allocating(assumed.forget(KEY)) == {"m1": 0, "m2": 0}


def test_assumed_replicas_expire():
    assumed = fleet()
    assumed.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assumed.assume(OTHER, {}, {"m1": 3}, ONE_CPU, 1.0)
    assert assumed.expire(LIFETIME_S - 1) == []
    assert allocating(assumed.expire(LIFETIME_S)) == {"m1": 3}


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
