"""What was given away and does not show yet."""

import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.controllers.binding_scheduler.assumptions import LIFETIME_S, Assumptions
from berthmaster.model.cluster import Cluster

ONE_CPU = (("cpu", 1000),)
KEY, OTHER = ("ns", "web"), ("ns", "db")


def fleet() -> Assumptions:
    """Assumptions over clusters m1 and m2 of ten cores each."""
    assumptions = Assumptions()
    for name in ("m1", "m2"):
        assumptions.cluster_changed(cluster(name, cpu=10))
    return assumptions


def allocating(seen: list[Cluster]) -> dict[str, int]:
    """The cores on their way by cluster, as decisions see them."""
    found = {}
    for each in seen:
        summary = each.status.resource_summary
        assert summary is not None
        found[each.name] = summary.allocating["cpu"].value() if "cpu" in summary.allocating else 0
    return found


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        pytest.param({}, {"m1": 2, "m2": 1}, {"m1": 2, "m2": 1}, id="a first assignment counts whole"),
        pytest.param({"m1": 2}, {"m1": 5}, {"m1": 3}, id="growth counts, what was there before shows already"),
        pytest.param({"m1": 5}, {"m1": 2}, {}, id="less than before counts nothing"),
        pytest.param({"m1": 2}, {"m2": 2}, {"m2": 2}, id="a move counts where it goes"),
        pytest.param({}, {"unknown": 2}, {}, id="a cluster that is not known counts nothing"),
    ],
)
def test_an_assignment_counts_by_what_it_adds(before: dict[str, int], after: dict[str, int], seen: dict[str, int]):
    assert allocating(fleet().assume(KEY, before, after, ONE_CPU, 0.0)) == seen


def test_a_workload_that_grows_twice_counts_twice():
    assumptions = fleet()
    assumptions.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assert allocating(assumptions.assume(KEY, {"m1": 2}, {"m1": 5}, ONE_CPU, 1.0)) == {"m1": 5}


def test_a_workload_that_shrinks_again_gives_back():
    assumptions = fleet()
    assumptions.assume(KEY, {}, {"m1": 5}, ONE_CPU, 0.0)
    assert allocating(assumptions.assume(KEY, {"m1": 5}, {"m1": 1}, ONE_CPU, 1.0)) == {"m1": 1}
    assert allocating(assumptions.assume(KEY, {"m1": 1}, {}, ONE_CPU, 2.0)) == {"m1": 0}
    assert len(assumptions) == 0


def test_what_arrived_counts_no_more():
    assumptions = fleet()
    assumptions.assume(KEY, {}, {"m1": 2, "m2": 2}, ONE_CPU, 0.0)
    assert allocating(assumptions.release(KEY, ["m1"])) == {"m1": 0}
    assert set(assumptions.of(KEY)) == {"m2"}


def test_a_binding_that_is_gone_counts_no_more():
    assumptions = fleet()
    assumptions.assume(KEY, {}, {"m1": 2, "m2": 2}, ONE_CPU, 0.0)
    assert allocating(assumptions.release(KEY)) == {"m1": 0, "m2": 0}


def test_assumptions_end_with_their_time():
    assumptions = fleet()
    assumptions.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assumptions.assume(OTHER, {}, {"m1": 3}, ONE_CPU, 1.0)
    assert assumptions.expire(LIFETIME_S - 1) == []
    assert allocating(assumptions.expire(LIFETIME_S)) == {"m1": 3}


def test_a_new_status_keeps_what_is_on_its_way():
    assumptions = fleet()
    assumptions.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assert allocating([assumptions.cluster_changed(cluster("m1", cpu=20))]) == {"m1": 2}


def test_a_cluster_that_is_gone_takes_its_assumptions_with_it():
    assumptions = fleet()
    assumptions.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    assumptions.cluster_gone("m1")
    assert len(assumptions) == 0
    assert assumptions.of(KEY) == {}
    assert assumptions.release(KEY) == []


def test_an_assignment_that_came_to_nothing_is_undone():
    assumptions = fleet()
    assumptions.assume(KEY, {}, {"m1": 2}, ONE_CPU, 0.0)
    before = assumptions.of(KEY)
    assumptions.assume(KEY, {"m1": 2}, {"m2": 2}, ONE_CPU, 1.0)
    assert allocating(assumptions.restore(KEY, before)) == {"m1": 2, "m2": 0}
    assert assumptions.of(KEY) == before


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["assume", "release", "gone", "expire"]),
        st.integers(0, 3),
        st.dictionaries(st.sampled_from(["m1", "m2"]), st.integers(0, 3)),
    ),
    max_size=20,
)


@given(_STEPS)
def test_what_decisions_see_is_always_the_sum_of_what_is_assumed(
    steps: list[tuple[str, int, dict[str, int]]],
):
    assumptions, assigned, seen = fleet(), {}, {"m1": 0, "m2": 0}
    for now_s, (step, number, clusters) in enumerate(steps):
        key = ("ns", str(number))
        if step == "assume":
            changed = assumptions.assume(key, assigned.get(key, {}), clusters, ONE_CPU, now_s)
            assigned[key] = clusters
        elif step == "release":
            changed = assumptions.release(key, clusters)
        elif step == "gone":
            changed = assumptions.release(key)
            assigned.pop(key, None)
        else:
            changed = assumptions.expire(now_s + LIFETIME_S - number)
        seen.update(allocating(changed))
        for name in ("m1", "m2"):
            loads = [assumptions.of(("ns", str(each))).get(name) for each in range(4)]
            assert seen[name] == sum(load.replicas for load in loads if load is not None)
