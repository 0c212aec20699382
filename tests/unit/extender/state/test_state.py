"""The cache and its staleness."""

from datetime import UTC, datetime, timedelta

import pytest
from builders import binding, cluster

from berthmaster.native_api.wire import Staleness
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from extender.state import state as module
from extender.state.state import State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


@pytest.fixture
def state():
    made = State(karmada_profile())
    with made.updating(NOW) as cache:
        placed = binding()
        cache.replace(
            World({name: cluster(name) for name in ("a", "b")}, [SimulatedWorkload(placed.spec.resource, (), placed)])
        )
    return made


def test_only_clusters_that_differ_are_updated(state):
    with state.reading() as cache:
        before = cache.fleet.structure.version
        clusters = {**cache.world.clusters, "b": cluster("b", labels={"x": "y"})}
        cache.replace(World(clusters, ()))
        assert cache.fleet.structure.version == before + 1
        cache.replace(World({"b": clusters["b"]}, ()))
        assert sorted(cache.fleet.row_of) == ["b"]


def test_later_changes_do_not_affect_a_world(state):
    with state.reading() as cache:
        world = cache.world
        cache.apply_cluster(cluster("c"))
        cache.remove_cluster("a")
        assert sorted(world.clusters) == ["a", "b"]
        assert sorted(cache.world.clusters) == ["b", "c"]
        assert cache.world is cache.world


def test_a_lost_source_makes_the_state_stale(state):
    state.mark_stale("lost", LATER)
    state.mark_stale("still lost", LATER + timedelta(minutes=1))
    staleness = state.staleness
    assert (staleness.loaded_at, staleness.stale_since, staleness.problem) == (NOW, LATER, "still lost")
    assert staleness.synced
    state.mark_stale("lost earlier", NOW - timedelta(minutes=1))
    earlier = NOW - timedelta(minutes=1)
    assert state.staleness == Staleness(earlier, earlier, "lost earlier"), "the state is not younger than its source"
    state.mark_current(LATER)
    assert state.staleness.stale_since is None


def test_an_update_of_a_part_of_the_source_ends_no_staleness(state):
    state.mark_stale("lost", NOW)
    with state.updating(LATER, stays_stale=True):
        pass
    assert state.staleness == Staleness(LATER, NOW, "lost")
    with state.updating(LATER):
        pass
    assert state.staleness == Staleness(LATER, None, "")


def test_a_failed_update_does_not_count_as_current(state):
    def fail():
        with state.updating(LATER):
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - raised right above
        fail()
    assert state.staleness.loaded_at == NOW


def test_a_known_state_prepares_the_index_of_the_first_question(state, monkeypatch):
    state.prepare()
    monkeypatch.setattr(module, "_index_of", lambda _workloads: pytest.fail("the question built another index"))
    with state.placed() as index:
        assert len(index) == 1


def test_an_unknown_state_prepares_nothing(monkeypatch):
    monkeypatch.setattr(module, "_index_of", lambda _workloads: pytest.fail("there is nothing to index"))
    State(karmada_profile()).prepare()
