"""What other clients do to a binding or a Cluster in the middle of a move: nothing runs twice, and nothing waits."""

from dataclasses import replace
from typing import Any

import pytest
from decisions import DUPLICATED
from karmada_model.evictions import evict
from karmada_plane import cluster
from move_plays import BREAK, ON, REPLICAS, STATIC, WEB, Play, Twice, draining

from berthmaster.deciding.config import MovesConfig
from berthmaster.model.move import MOVE, MovePhase, MoveStrategy

DEADLINE_S = 120
QUICK = replace(BREAK, defaults=replace(BREAK.defaults, deadline_s=DEADLINE_S, hold_down_s=300))
MAKE = replace(QUICK, defaults=replace(QUICK.defaults, strategy=MoveStrategy.MAKE_BEFORE_BREAK))
TERMINATE_S = 28.0
STRATEGIES = [pytest.param(MAKE, id="MakeBeforeBreak"), pytest.param(QUICK, id="BreakBeforeMake")]


def forget(play: Play, **spec: Any) -> None:
    """Remove the record of a move, and edit more of the binding."""
    path = play.stage.api.served.path(play.stage.binding(WEB))

    def change(content: Any) -> None:
        content["metadata"]["annotations"].pop(MOVE, None)
        content["spec"].update(spec)

    play.stage.api.change(path, change)


def ending(play: Play) -> None:
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=TERMINATE_S)


@pytest.mark.parametrize("after_s", [0.0, 1.0, 4.0, 15.0, 30.0])
@pytest.mark.parametrize("purge_mode", ["Directly", "Gracefully"])
@pytest.mark.parametrize("groups", [["m2"], ["m2", "m3"]])
def test_a_record_that_is_removed_while_the_old_copies_go_starts_nothing_beside_their_pods(
    after_s: float, purge_mode: str, groups: list[str]
):
    """With Gracefully, Karmada removes the tasks, too."""
    failover = {"application": {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": purge_mode}}
    play = Play({"g": ["m1"], "next": groups}, STATIC, moves=QUICK, failover=failover)
    ending(play)
    play.drain("m1")
    play.until(MovePhase.ADMITTED, step_s=0.5)
    play.run(after_s)
    forget(play)
    beside = False
    for _ in range(250):
        play.run(1.0)
        running = play.stage.model.members.running(WEB)
        beside |= "m1" in running and len(running) > 1
    assert (play.clusters.keys(), play.healthy, beside) == ({*groups}, 4, False)
    assert not (play.stage.binding(WEB) or {})["spec"].get("gracefulEvictionTasks")


@pytest.mark.parametrize("after_s", [0.0, 4.0, 15.0])
def test_a_record_that_is_damaged_while_the_old_copies_go_starts_nothing_beside_their_pods(after_s: float):
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=QUICK)
    ending(play)
    play.drain("m1")
    play.until(MovePhase.ADMITTED, step_s=0.5)
    twice = Twice(play)
    twice.run(after_s)
    play.stage.edit(play.stage.binding(WEB) or {}, metadata={"annotations": {MOVE: '{"phase": 7}'}})
    twice.run(250)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)


@pytest.mark.parametrize("after_s", [0.0, 1.0])
def test_a_binding_without_record_tasks_and_clusters_waits_for_the_old_copies(after_s: float):
    """As a restored manifest leaves it. The Works tell that copies are there."""
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=QUICK)
    ending(play)
    play.drain("m1")
    play.until(MovePhase.ADMITTED, step_s=0.5)
    twice = Twice(play)
    twice.run(after_s)
    forget(play, gracefulEvictionTasks=[], clusters=[])
    twice.run(250)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)


def test_a_removed_record_of_a_part_of_a_workload_starts_no_more_than_the_rest():
    play = Play({"g": ["m1", "m2", "m3"]}, STATIC, moves=QUICK)
    before = play.clusters
    ending(play)
    play.drain("m1")
    play.until(MovePhase.ADMITTED, step_s=0.5)
    forget(play)
    most = 0
    for _ in range(60):
        play.run(1.0)
        running = play.stage.model.members.running(WEB)
        assigned = play.clusters
        grown = sum(max(0, assigned.get(name, 0) - before[name]) for name in ("m2", "m3"))
        most = max(most, grown if "m1" in running else 0)
    play.run(120)
    assert (most, play.clusters.keys(), play.healthy) == (0, {"m2", "m3"}, 4)


@pytest.mark.parametrize("phase", [MovePhase.SURGING, MovePhase.SOAKING])
def test_a_record_that_is_removed_when_the_new_copies_are_there_keeps_these(phase: MovePhase):
    play = draining(phase, moves=QUICK)
    twice = Twice(play)
    forget(play)
    twice.run(200)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)
    assert (play.stage.binding(WEB) or {})["status"]["schedulerObservingAffinityName"] == "next"
    assert not (play.stage.binding(WEB) or {})["spec"].get("gracefulEvictionTasks")


def test_a_move_that_a_client_ends_by_hand_is_in_the_group_of_its_target():
    play = draining(MovePhase.SURGING, moves=MAKE)
    play.stage.edit(play.stage.binding(WEB) or {}, spec={"clusters": [{"name": "m2", "replicas": 4}]})
    play.run(300)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)
    assert (play.stage.binding(WEB) or {})["status"]["schedulerObservingAffinityName"] == "next"


def test_a_workload_that_another_controller_evicts_from_everywhere_is_gone_before_it_starts_elsewhere():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=QUICK)
    ending(play)
    path = play.stage.api.served.path(play.stage.binding(WEB))
    play.stage.api.change(path, lambda content: evict(content, "m1", purgeMode="Gracefully"))
    twice = Twice(play)
    twice.run(250)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)


def test_copies_that_another_controller_evicts_while_the_old_ones_go_are_removed_before_the_next_place_starts():
    """Karmada keeps them until others are healthy, and the others wait until they are gone."""
    play = Play({"g": ["m1", "m2"], "next": ["m3"]}, DUPLICATED, moves=QUICK)
    play.drain("m1")
    play.until(MovePhase.ADMITTED)
    path = play.stage.api.served.path(play.stage.binding(WEB))
    play.stage.api.change(path, lambda content: evict(content, "m2", purgeMode="Gracefully"))
    play.run(75)
    assert (play.clusters, play.healthy) == ({"m3": 4}, 4)


@pytest.mark.parametrize("after_s", [1.0, 10.0, 25.0])
def test_a_scale_to_zero_and_back_to_another_cluster_waits_for_the_old_pods(after_s: float):
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=QUICK)
    ending(play)
    twice = Twice(play)
    play.stage.scale(WEB, 0)
    twice.run(after_s)
    play.drain("m1")
    play.stage.scale(WEB, 4)
    twice.run(200)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)


# Clusters that are deleted


@pytest.mark.parametrize("moves", STRATEGIES)
@pytest.mark.parametrize("phase", [MovePhase.SURGING, MovePhase.SOAKING])
def test_a_move_holds_up_no_deletion_of_a_cluster_that_it_leaves(moves: MovesConfig, phase: MovePhase):
    """Karmada deletes all Works of the cluster at once, and waits until no assignment names it."""
    play = draining(phase, moves=moves)
    play.stage.delete(cluster("m1"))
    play.run(30)
    assert play.stage.get(cluster("m1")) is None
    play.run(200)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)
    assert not {"MoveRolledBack", "MoveReturning", "MoveAbandoned"} & {*play.events}


def test_a_union_whose_new_copies_never_start_holds_up_no_deletion_of_a_cluster():
    play = draining(moves=MAKE)
    play.stage.model.members.break_workload("m2", "web")
    play.until(MovePhase.SURGING)
    play.stage.delete(cluster("m1"))
    play.run(30)
    assert (play.stage.get(cluster("m1")), play.clusters) == (None, {"m2": 4})


def test_a_union_with_parts_of_a_workload_holds_up_no_deletion_of_a_cluster():
    play = Play({"g": ["m1", "m2", "m3"]}, STATIC, moves=MAKE)
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.stage.delete(cluster("m2"))
    play.run(30)
    assert (play.stage.get(cluster("m2")), "m2" in play.clusters) == (None, False)
    play.run(300)
    assert (play.clusters, play.healthy) == ({"m3": 4}, 4)


def test_a_move_with_break_before_make_holds_up_no_deletion_of_its_only_place():
    play = draining(MovePhase.SURGING, moves=QUICK)
    twice = Twice(play)
    ending(play)
    play.stage.model.members.lose("m1")
    twice.run(50)
    play.stage.delete(cluster("m2"))
    twice.run(60)
    assert (play.stage.get(cluster("m2")), play.clusters) == (None, {})
    play.stage.put(cluster("m2"))
    twice.run(120)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)


def test_a_union_with_a_copy_that_stays_and_has_no_other_place_holds_up_no_deletion_of_its_cluster():
    play = Play({"g": ["m1", "m2"]}, DUPLICATED, moves=MAKE)
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.stage.delete(cluster("m2"))
    play.run(60)
    assert (play.stage.get(cluster("m2")), play.clusters, play.healthy) == (None, {"m1": 4}, 4)


def test_a_cluster_that_is_deleted_is_left_although_its_labels_match_no_longer():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=ON)
    for name in ("m1", "m2"):
        play.stage.edit(cluster(name), metadata={"labels": {"tier": "gold"}})
    gold = {"affinityName": "gold", "labelSelector": {"matchLabels": {"tier": "gold"}}}
    held = {**play.policy["spec"]["placement"], "clusterAffinities": [gold]}
    play.amend(placement=held)
    play.run(60)
    here = next(iter(play.clusters))
    play.stage.edit(cluster(here), metadata={"labels": {"tier": None}})
    play.run(60)
    assert here in play.clusters, "a label that changes moves nothing"
    play.stage.delete(cluster(here))
    play.run(60)
    assert play.stage.get(cluster(here)) is None
    assert play.healthy == 4


def test_new_copies_that_run_stay_when_another_client_removes_a_cluster_of_the_target():
    """The old copy does not run, and a cluster of its group is free again."""
    play = Play({"g": ["m1", "m4"], "next": ["m2", "m3"]}, DUPLICATED, moves=MAKE)
    play.drain("m4")
    play.run(400)
    assert play.clusters.keys() == {"m1"}
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.run(30)
    binding = play.stage.binding(WEB) or {}
    play.stage.edit(binding, spec={"suspension": {"scheduling": True}})
    play.stage.model.members.break_workload("m1", "web")
    play.run(30)
    left = [{"name": name, "replicas": REPLICAS} for name in ("m1", "m3")]
    play.stage.edit(play.stage.binding(WEB) or {}, spec={"clusters": left})
    play.stage.edit(cluster("m4"), spec={"taints": []})
    play.run(30)
    play.watch()
    play.stage.edit(play.stage.binding(WEB) or {}, spec={"suspension": None})
    play.run(300)
    assert play.lowest == REPLICAS
    assert "m3" in play.clusters


def test_a_record_that_is_removed_while_pods_end_starts_nothing_in_an_earlier_group():
    """The workload returns to its first group, and the group that it left cannot hold it any more."""
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=QUICK, failover=None)
    ending(play)
    play.fail_over_and_back("m1")
    assert play.clusters == {"m2": 4}
    play.until(MovePhase.ADMITTED, step_s=1.0)
    play.run(5)
    play.drain("m2")
    forget(play)
    twice = Twice(play)
    twice.run(200)
    assert (play.clusters, play.healthy, twice.seen) == ({"m1": 4}, 4, False)
