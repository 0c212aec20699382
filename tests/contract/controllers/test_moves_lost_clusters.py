"""Moves whose clusters are lost. With BreakBeforeMake the workload starts elsewhere, and mostly never runs twice.

A silent cluster may still run its copies. A move gives them up where a workload at rest would start elsewhere: after
the toleration of the failover, or when another controller evicts the cluster.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from decisions import AGGREGATED
from faults import nothing
from karmada_model.evictions import evict
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, resource, selector
from kube_store import JSON
from move_plays import BREAK, ON, REPLICAS, SETTINGS, STATIC, STAYS, Play, Twice, refuse_if, terms_of

from berthmaster.controllers.settings import ControllerSettings
from berthmaster.model.move import MovePhase, MoveStrategy
from berthmaster.model.move_refusal import Cause

QUICK = replace(BREAK, defaults=replace(BREAK.defaults, deadline_s=120, hold_down_s=300))
TWO = {"g": ["m1"], "next": ["m2"]}
KEPT = {"g": ["m1", "m2"]}
THREE = {"g": ["m1"], "next": ["m2"], "last": ["m3"]}
PHASES = [MovePhase.ADMITTED, MovePhase.SURGING, MovePhase.SOAKING]
BACK_S = 300


def lose(play: Play) -> None:
    play.stage.model.members.lose("m2")


def delete(play: Play) -> None:
    play.stage.delete(cluster("m2"))


def evicted(play: Play) -> None:
    """Evict the target as a NoExecute taint does."""
    play.stage.edit(cluster("m2"), spec={"taints": [{"key": "busy", "effect": "NoExecute"}]})
    path = play.stage.api.served.path(play.stage.binding(play.template))
    play.stage.api.change(path, lambda content: evict(content, "m2"))


def moving(groups: dict[str, list[str]], phase: MovePhase, **config: object) -> Play:
    """Return a play whose workload leaves m1 for m2, in a phase of its move. In ``KEPT`` a part of it stays on m2."""
    play = Play(groups, STATIC, moves=QUICK, **config)
    play.drain("m1")
    play.until(phase)
    play.run(3)
    return play


@pytest.mark.parametrize("drained", [True, False])
@pytest.mark.parametrize("happens", [lose, delete, evicted])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("groups", [pytest.param(TWO, id="two"), pytest.param(KEPT, id="kept")])
def test_a_workload_whose_target_is_gone_starts_where_it_came_from(
    groups: dict[str, list[str]], phase: MovePhase, happens: Callable[[Play], None], *, drained: bool
):
    play = moving(groups, phase)
    twice = Twice(play)
    happens(play)
    if not drained:
        play.stage.edit(cluster("m1"), spec={"taints": []})
    twice.run(BACK_S)
    stays = happens is evicted and phase is MovePhase.ADMITTED and groups is TWO  # the target has nothing to evict yet
    assert play.clusters == ({"m2": 4} if stays else {"m1": 4})
    assert play.healthy == 4
    assert happens is lose or not twice.seen
    assert stays or {"MoveRolledBack", "MoveReleased"} - {*play.events} == {"MoveReleased"}, "it has returned"


@pytest.mark.parametrize("happens", [lose, delete, evicted])
@pytest.mark.parametrize("phase", [MovePhase.SURGING, MovePhase.SOAKING])
def test_a_workload_whose_target_is_gone_starts_in_another_group(phase: MovePhase, happens: Callable[[Play], None]):
    play = moving(THREE, phase)
    twice = Twice(play)
    happens(play)
    twice.run(BACK_S)
    assert (len(play.clusters), play.healthy) == (1, 4)
    assert "m2" not in play.clusters
    assert happens is lose or not twice.seen, "what is evicted is gone before other copies start"


def test_a_lost_target_is_left_although_dispatching_to_it_is_suspended():
    play = moving(THREE, MovePhase.SURGING)
    play.run(3)
    play.amend(suspension={"dispatchingOnClusters": {"clusterNames": ["m2"]}})
    lose(play)
    play.run(BACK_S)
    assert len(play.clusters) == 1
    assert "m2" not in play.clusters
    assert play.healthy == 4


def test_a_source_that_is_lost_while_its_copies_go_is_given_up():
    play = Play(TWO, STATIC, moves=QUICK)
    play.drain("m1")
    play.stage.model.members.lose("m1")
    play.run(60)
    assert play.clusters == {}, "it may still run its copies"
    play.run(90)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)
    notes = {each.note for each in play.stage.scheduler.recorder.events if each.reason == "MoveOldCopiesGone"}
    assert notes == {"Drain: the copies on m1 are given up, m2:4 starts"}
    play.stage.model.members.recover("m1", pods_ran=True)
    play.run(100)
    assert play.stage.model.members.running(play.template) == {"m2"}, "nothing keeps its copies"


@pytest.mark.parametrize("away_s", [105.0, 115.0, 120.0])
def test_a_cluster_that_is_back_before_other_copies_start_is_not_given_up(away_s: float):
    """Karmada removes its copies then, and their pods have not used their grace period yet."""
    slow = ControllerSettings(failover="not-ready", failover_toleration_s=60)
    play = Play(TWO, STATIC, moves=QUICK, settings=slow)
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=30)
    play.drain("m1")
    play.stage.model.members.lose("m1")
    play.run(away_s)
    assert play.clusters == {}
    play.stage.model.members.recover("m1", pods_ran=True)
    twice = Twice(play)
    twice.run(BACK_S)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)


@pytest.mark.parametrize("phase", [MovePhase.SURGING, MovePhase.SOAKING])
def test_a_target_that_is_drained_and_then_deleted_is_left_before_the_deadline(phase: MovePhase):
    play = moving(TWO, phase)
    twice = Twice(play)
    play.drain("m2")
    twice.run(5)
    play.stage.delete(cluster("m2"))
    twice.run(90)
    assert (play.clusters, play.healthy, twice.seen) == ({"m1": 4}, 4, False)
    assert play.stage.get(cluster("m2")) is None, "no assignment holds it up"


def test_a_copy_that_karmada_has_not_seen_yet_is_not_removed():
    """Its cluster is back from an outage. Karmada would remove the Work, and leave the copy there."""
    play = Play(THREE, STATIC, moves=QUICK)
    play.stage.model.members.hide("m2", 100)
    play.place({"g": ["m2"], "next": ["m3"]})
    play.run(5)
    play.drain("m2")
    play.run(60)
    assert (play.clusters, play.move.cause) == ({"m2": 4}, Cause.UNREPORTED.value)
    twice = Twice(play)
    twice.run(BACK_S)
    assert (play.clusters, play.healthy, twice.seen) == ({"m3": 4}, 4, False)
    assert not play.stage.model.members.member("m2").orphans


@pytest.mark.parametrize("strategy", MoveStrategy)
def test_a_new_copy_that_karmada_does_not_see_in_time_is_not_removed(strategy: MoveStrategy):
    play = Play(TWO, STATIC, moves=replace(QUICK, defaults=replace(QUICK.defaults, strategy=strategy)))
    play.drain("m1")
    play.stage.model.members.hide("m2", 250)
    play.until(MovePhase.SURGING)
    play.run(180)
    assert play.move.cause == Cause.UNREPORTED.value
    play.run(BACK_S)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)
    assert not play.stage.model.members.member("m2").orphans


def test_no_target_replaces_another_while_karmada_waits_for_a_lost_cluster():
    """Karmada writes no copy before the one that is evicted with the purge mode Directly is gone."""
    play = Play({"g": ["m1"], "next": ["m2", "m3"]}, AGGREGATED, moves=QUICK)
    play.stage.model.members.lose("m1")
    path = play.stage.api.served.path(play.stage.binding(play.template))
    play.stage.api.change(path, lambda content: evict(content, "m1", purgeMode="Directly"))
    play.run(120)
    chosen = play.clusters
    assert chosen in ({"m2": 4}, {"m3": 4})
    play.run(400)
    assert (play.clusters, play.healthy) == (chosen, 0)
    assert "Karmada first deletes the copy on m1, which does not answer" in play.move.message
    play.stage.model.members.recover("m1")
    play.run(BACK_S)
    assert (len(play.clusters), play.healthy) == (1, 4)


@pytest.mark.parametrize("phase", [MovePhase.SURGING, MovePhase.SOAKING])
def test_without_failover_a_move_waits_for_a_silent_target(phase: MovePhase):
    play = moving(TWO, phase, settings=STAYS)
    twice = Twice(play)
    lose(play)
    twice.run(900)
    assert (play.clusters, play.healthy, twice.seen) == ({}, 0, False)
    assert "m2 cannot be asked" in play.move.message
    play.stage.model.members.recover("m2")
    twice.run(BACK_S)
    assert (play.clusters, play.healthy, twice.seen) == ({"m1": 4}, 4, False)


@pytest.mark.parametrize("groups", [pytest.param(TWO, id="two"), pytest.param(KEPT, id="kept")])
def test_without_failover_a_silent_target_that_karmada_evicts_is_given_up(groups: dict[str, list[str]]):
    play = moving(groups, MovePhase.SURGING, settings=STAYS)
    lose(play)
    play.run(60)
    evicted(play)
    play.run(BACK_S)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)


def test_the_storm_brake_gives_no_cluster_up():
    play = Play(TWO, STATIC, moves=QUICK)
    play.drain("m1")
    play.stage.model.members.lose("m1")
    play.run(5)
    play.stage.scheduler.brake("3 of 4 clusters turned unready")
    play.run(BACK_S)
    assert play.clusters == {}
    play.stage.scheduler.brake("")
    play.run(BACK_S)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)


def test_a_return_that_is_refused_is_tried_again_and_does_not_go_to_a_lost_cluster():
    play = moving(TWO, MovePhase.SURGING)
    play.stage.api.before = refuse_if(lambda clusters: "m1" in clusters)
    lose(play)
    play.run(BACK_S)
    assert (play.clusters, play.move.target) == ({}, {"m1": 4})
    play.stage.api.before = nothing
    play.run(60)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)


def test_healthy_new_copies_stay_although_a_lost_source_still_seems_to_serve():
    """With MakeBeforeBreak. The last report of a lost cluster proves nothing."""
    play = Play({"g": ["m1", "m2"], "next": ["m3", "m4"]}, STATIC, moves=ON)
    play.drain("m4")
    play.drain("m2")
    play.run(1)
    play.stage.model.members.lose("m1")
    play.until(MovePhase.SOAKING)
    assert (play.move.source, play.move.target) == ({"m1": 2, "m2": 2}, {"m3": 4})
    play.watch()
    play.drain("m3")
    play.stage.edit(cluster("m4"), spec={"taints": []})
    play.run(900)
    assert (play.clusters, play.lowest) == ({"m4": 4}, REPLICAS)


def test_a_workload_whose_target_is_refused_returns_to_where_it_was_last_if_its_first_cluster_is_lost():
    play = Play(THREE, STATIC, moves=QUICK)
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.stage.model.members.break_workload("m2", "web")
    play.stage.model.members.lose("m1")
    while play.move.target != {"m3": 4}:
        play.run(5)
    play.stage.api.before = refuse_if(lambda clusters: "m3" in clusters)
    play.stage.model.members.mend()
    play.run(600)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)


def test_another_target_takes_no_healthy_copy_before_others_run():
    """The source is back, but its pods start again. A scale that shares the replicas waits for the end of the move."""
    settings = replace(ON.defaults, soak_s=300, deadline_s=600)
    play = Play({"g": ["m1", "m2"]}, STATIC, moves=replace(ON, defaults=settings))
    play.drain("m1")
    play.until(MovePhase.SOAKING)
    play.stage.model.members.lose("m1")
    play.run(50)
    play.stage.edit(cluster("m1"), spec={"taints": []})
    play.stage.model.members.recover("m1")
    play.run(5)
    assert (play.clusters, play.healthy) == ({"m1": 2, "m2": 4}, 4)
    play.watch()
    play.stage.scale(play.template, 5)
    play.run(60)
    assert (play.clusters, play.lowest) == ({"m1": 2, "m2": 4}, 4)
    play.run(400)
    assert (sum(play.clusters.values()), play.healthy) == (5, 5)


# Pods that end slowly


def ends_slowly(grace_s: int) -> JSON:
    return deployment("web", REPLICAS, terminationGracePeriodSeconds=grace_s)


def end_pods_after(play: Play, seconds: float) -> None:
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=seconds)


def wait_for_no_works(play: Play, twice: Twice) -> None:
    """Let time pass until the Works of the old copies are gone, and their pods still end."""
    while play.move is None or play.move.phase is not MovePhase.ADMITTED or play.move.gone_since is None:
        twice.run(1)


@pytest.mark.parametrize("happens", ["lost", "deleted"])
def test_a_move_that_turns_twice_waits_for_the_pods_of_its_first_target(happens: str):
    play = moving(THREE, MovePhase.SOAKING, template=ends_slowly(120))
    end_pods_after(play, 110)
    twice = Twice(play)
    evicted(play)
    wait_for_no_works(play, twice)
    if happens == "lost":
        play.stage.model.members.lose("m3")
    else:
        play.stage.delete(cluster("m3"))
    twice.run(BACK_S)
    assert (play.clusters, play.healthy, twice.seen) == ({"m1": 4}, 4, False)


def test_a_target_that_replaces_a_deleted_one_and_is_deleted_too_keeps_the_grace_period():
    play = moving(THREE, MovePhase.SOAKING, template=ends_slowly(120))
    end_pods_after(play, 110)
    twice = Twice(play)
    play.stage.delete(cluster("m2"))
    twice.run(20)
    [other] = play.move.target
    play.stage.delete(cluster(other))
    twice.run(BACK_S)
    assert (len(play.clusters), play.healthy, twice.seen) == (1, 4, False)


@pytest.mark.parametrize("grace_s", [30, 120])
def test_a_part_that_is_evicted_while_a_move_waits_for_pods_has_ended_before_new_copies_start(grace_s: int):
    play = Play({"g": ["m1", "m2"], "next": ["m3"]}, STATIC, moves=QUICK, template=ends_slowly(grace_s))
    end_pods_after(play, grace_s - 1)
    members = play.stage.model.members
    play.drain("m1")
    wait_for_no_works(play, Twice(play))
    play.run(grace_s - 15)
    evicted(play)
    for _ in range(60):
        play.run(3)
        running = members.running(play.template)
        assert "m3" not in running or running == {"m3"}
    assert (play.clusters, play.healthy) == ({"m3": 4}, 4)


@pytest.mark.parametrize("happens", [delete, evicted])
def test_a_part_of_a_target_grows_only_when_the_pods_of_the_other_part_have_ended(happens: Callable[[Play], None]):
    play = Play({"g": ["m1"], "next": ["m2", "m3"]}, STATIC, moves=QUICK, template=ends_slowly(30))
    end_pods_after(play, 29)
    play.drain("m1")
    play.until(MovePhase.SOAKING)
    happens(play)
    for _ in range(60):
        play.run(3)
        assert "m2" not in play.stage.model.members.running(play.template) or play.clusters["m3"] == 2
    assert (play.clusters, play.healthy) == ({"m3": 4}, 4)


def test_a_cluster_that_is_deleted_while_nothing_moves_is_left_at_once():
    """Karmada deletes its Works in any case. What may run twice (docs/moves.md) has this exception."""
    play = Play(TWO, STATIC, moves=QUICK, template=ends_slowly(30))
    end_pods_after(play, 29)
    twice = Twice(play)
    play.stage.delete(cluster("m1"))
    twice.run(60)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, True)
    assert play.stage.get(cluster("m1")) is None, "no assignment holds it up"


def test_another_target_takes_no_resource_away_before_it_is_elsewhere():
    """With MakeBeforeBreak, as for a workload: a copy without replicas counts as one."""
    settings = resource("settings", "ConfigMap")
    placement = {"clusterAffinities": terms_of(THREE)}
    held = policy("p", selector("ConfigMap", "v1"), schedulerName="berthmaster", placement=placement)
    moves = replace(ON, defaults=replace(ON.defaults, soak_s=300, deadline_s=600))
    stage = Stage(*(cluster(name) for name in ("m1", "m2", "m3")), held, settings, settings=SETTINGS, moves=moves)
    stage.run(60)
    for name in ("m1", "m2"):
        stage.edit(cluster(name), spec={"taints": [{"key": "policy.berthmaster.io/draining", "effect": "NoSchedule"}]})
        stage.run(30)
        if name == "m1":
            assert stage.assignment(settings).keys() == {"m1", "m2"}
            stage.model.members.lose("m1")
            stage.run(50)
    assert "m2" in stage.assignment(settings)
