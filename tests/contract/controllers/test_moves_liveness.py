"""What a move must keep in any trouble: healthy new copies stay, and a workload without copies is tried again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from decisions import DUPLICATED, DYNAMIC
from karmada_model.evictions import evict
from karmada_plane import cluster
from move_plays import BREAK, ON, STATIC, WEB, Play, Twice, draining, refuse_if

from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MovesConfig
from berthmaster.model.move import MovePhase, MoveStrategy

DEADLINE_S = 120
HOLD_DOWN_S = 300
QUICK = replace(BREAK, defaults=replace(BREAK.defaults, deadline_s=DEADLINE_S, hold_down_s=HOLD_DOWN_S))
MAKE = replace(QUICK, defaults=replace(QUICK.defaults, strategy=MoveStrategy.MAKE_BEFORE_BREAK))


def pause(play: Play) -> None:
    play.stage.scheduler.configure(replace(QUICK, pause="All"))


def use_up(play: Play) -> None:
    play.stage.scheduler.configure(replace(QUICK, budgets=(Budget("none", max_moves=0),)))


def limit(play: Play) -> None:
    play.stage.api.before = refuse_if(lambda clusters: sum(clusters.values()) > 4)


@pytest.mark.parametrize("closed", [pause, use_up, limit])
@pytest.mark.parametrize("phase", [MovePhase.SURGING, MovePhase.SOAKING])
def test_a_scale_that_is_not_admitted_keeps_the_new_copies(closed: Callable[[Play], None], phase: MovePhase):
    play = draining(phase, moves=QUICK)
    play.run(25)
    play.watch()
    closed(play)
    play.stage.scale(WEB, 5)
    play.run(600)
    assert (play.clusters.keys(), play.lowest) == ({"m2"}, 4)
    assert play.move is None or not play.move.under_way
    assert "MoveReturning" not in play.events


def test_a_target_that_gains_a_cluster_starts_it_at_once_and_remembers_where_it_came_from():
    play = Play({"g": ["m1"], "next": ["m2", "m3"]}, STATIC, moves=QUICK)
    play.stage.scale(WEB, 1)
    play.run(60)
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.stage.scale(WEB, 4)
    play.run(5)
    assert play.move.phase is MovePhase.SURGING, "nothing leaves, so nothing is waited for"
    assert sum(play.clusters.values()) == 4
    play.stage.model.members.break_workload("m2", "web")
    play.stage.model.members.break_workload("m3", "web")
    play.run(DEADLINE_S + 200)
    assert (play.clusters.keys(), play.healthy) == ({"m1"}, 4)


@pytest.mark.parametrize("lost_s", [0.0, 30.0, DEADLINE_S - 40.0, DEADLINE_S + 20.0])
def test_a_source_that_is_not_ready_at_the_deadline_starts_again_when_it_is_ready(lost_s: float):
    play = draining(moves=QUICK)
    play.stage.model.members.break_workload("m2", "web")
    play.until(MovePhase.SURGING)
    play.run(lost_s)
    play.stage.model.members.lose("m1")
    play.run(DEADLINE_S + 60 - lost_s)
    assert play.healthy == 0
    play.stage.model.members.recover("m1")
    twice = Twice(play)
    twice.run(200)
    assert (play.clusters, play.healthy, twice.seen) == ({"m1": 4}, 4, False)


def test_a_union_whose_source_was_not_ready_at_the_deadline_ends_when_it_is_ready_and_frees_its_slot_before():
    quick = replace(QUICK, defaults=replace(ON.defaults, deadline_s=DEADLINE_S), budgets=(Budget("one", max_moves=1),))
    play = draining(moves=quick)
    play.stage.model.members.break_workload("m2", "web")
    play.until(MovePhase.SURGING)
    play.stage.model.members.lose("m1")
    play.run(DEADLINE_S + 60)
    assert play.move.phase is MovePhase.SURGING
    assert play.move.until is not None
    assert not play.stage.scheduler.active_moves(), "a move that nothing can end holds no slot"
    play.stage.model.members.recover("m1", pods_ran=True)
    play.run(100)
    assert (play.clusters, play.move.phase, play.healthy) == ({"m1": 4}, MovePhase.ROLLED_BACK, 4)


@pytest.mark.parametrize("purge_mode", ["Gracefully", "Directly"])
@pytest.mark.parametrize("terminate_s", [0.0, 25.0])
def test_a_target_that_is_evicted_is_gone_before_the_source_starts_again(purge_mode: str, terminate_s: float):
    """Its pods end some time after its Work is gone, and the Work can be gone before the move returns."""
    failover = {"application": {"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": purge_mode}}
    play = draining(moves=QUICK, failover=failover)
    play.stage.model.members.break_workload("m2", "web")
    play.until(MovePhase.SURGING)
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=terminate_s)
    play.run(15)
    evict_now(play, "m2", purge_mode)
    twice = Twice(play)
    twice.run(250)
    assert (play.clusters, play.healthy, twice.seen) == ({"m1": 4}, 4, False)
    assert play.move.phase is MovePhase.ROLLED_BACK


def evict_now(play: Play, name: str, purge_mode: str = "Gracefully") -> None:
    """Evict a cluster, as Karmada's controllers do."""
    path = play.stage.api.served.path(play.stage.binding(play.template))
    play.stage.api.change(path, lambda content: evict(content, name, purgeMode=purge_mode))


def test_a_workload_that_is_evicted_from_the_last_group_returns_to_the_first_one_at_once():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC)
    play.fail_over_and_back("m1")
    assert play.clusters == {"m2": 4}
    play.stage.model.members.break_workload("m2", "web")
    evict_now(play, "m2")
    play.run(90)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)


def test_old_copies_that_are_gone_count_although_the_deadline_has_passed():
    play = draining(MovePhase.ADMITTED, moves=QUICK)
    play.stage.clock.pass_by(7200.0)
    play.stage.restart_scheduler()
    play.run(100)
    assert play.clusters == {"m2": 4}
    assert not {"MoveReturning", "MoveRolledBack"} & {*play.events}


def test_a_pod_that_is_not_ready_for_a_moment_in_the_soak_takes_no_copy_down():
    play = draining(MovePhase.SOAKING, moves=QUICK)
    play.watch()
    play.stage.model.members.lose_pods("m2", WEB, 1)
    play.run(300)
    assert (play.clusters, play.lowest) == ({"m2": 4}, 3)
    assert "MoveReturning" not in play.events


def test_a_scale_to_zero_and_back_while_the_old_copies_go_runs_nothing_twice():
    play = draining(moves=QUICK)
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=30.0)
    play.until(MovePhase.ADMITTED)
    twice = Twice(play)
    play.stage.scale(WEB, 0)
    twice.run(3)
    play.stage.scale(WEB, 4)
    twice.run(200)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)


@pytest.mark.parametrize("moves", [ON, QUICK])
@pytest.mark.parametrize("after_s", [5.0, 40.0, 70.0])
def test_the_events_of_a_move_that_a_scale_to_zero_ends_name_no_missing_copies(moves: Any, after_s: float):
    play = draining(moves=moves)
    play.run(after_s)
    play.stage.scale(WEB, 0)
    play.run(200)
    notes = [each.note for each in play.stage.scheduler.recorder.events if each.reason.startswith("Move")]
    assert notes
    assert not [each for each in notes if "no clusters" in each]


def test_a_return_ends_as_rolled_back_and_is_held_down_from_its_end():
    play = draining(moves=QUICK)
    play.stage.model.members.break_workload("m2", "web")
    play.run(DEADLINE_S)
    play.phases.clear()
    while not play.move.returning:
        play.run(5)
    assert play.move.held_down_until is None, "it has one end, which is known when the copies run"
    play.until(MovePhase.ROLLED_BACK)
    assert "Released" not in play.phases
    left_s = (play.move.held_down_until - play.stage.clock.now()).total_seconds()
    assert left_s > HOLD_DOWN_S - 20
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)
    assert play.events[-1] == "MoveRolledBack"


def test_scales_every_half_minute_do_not_keep_a_workload_away():
    play = draining(moves=QUICK)
    play.stage.model.members.break_workload("m2", "web")
    for turn in range(20):
        play.stage.scale(WEB, 4 + turn % 2)
        play.run(30)
    assert play.clusters.keys() == {"m1"}
    assert play.healthy >= 4


def test_a_target_that_begins_to_drain_before_it_has_copies_gets_none():
    play = draining(MovePhase.ADMITTED, moves=QUICK)
    play.drain("m2")
    play.stage.edit(cluster("m1"), spec={"taints": []})
    play.run(100)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)


def test_old_copies_that_are_already_being_deleted_are_not_restored_before_they_are_gone():
    play = draining(moves=QUICK)
    play.stage.model.members.delays = replace(play.stage.model.members.delays, delete_s=45.0)
    play.until(MovePhase.ADMITTED)
    play.run(10)
    play.stage.model.members.set_ready("m2", "False")
    play.run(30)
    assert play.move.under_way, "the Work goes in any case, so nothing is restored yet"
    play.until(MovePhase.ROLLED_BACK)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)
    play.watch()
    play.run(100)
    assert play.lowest == 4


def test_a_target_whose_member_refuses_the_workload_is_left_before_the_deadline():
    slow = replace(QUICK, defaults=replace(QUICK.defaults, deadline_s=900))
    play = draining(MovePhase.ADMITTED, moves=slow)
    play.stage.model.members.refuse("m2", "web", "admission webhook denied the request")
    play.run(260)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)
    returning = [each.note for each in play.stage.scheduler.recorder.events if each.reason == "MoveReturning"]
    assert "the members refuse the new copies: m2: admission webhook denied" in returning[0]


def test_the_record_of_a_failed_move_ends_after_an_eviction_from_everywhere():
    play = draining(MovePhase.SURGING, moves=QUICK)
    play.stage.model.members.break_workload("m2", "web")
    play.until(MovePhase.ROLLED_BACK, step_s=5)
    play.stage.edit(cluster("m2"), spec={"taints": [{"key": "busy", "effect": "NoSchedule"}]})
    play.stage.edit(cluster("m1"), spec={"taints": []})
    evict_now(play, "m1")
    play.run(900)
    assert (play.clusters, play.move) == ({"m1": 4}, None)


def test_a_target_that_is_being_deleted_before_it_has_copies_gets_none():
    play = draining(MovePhase.ADMITTED, moves=QUICK)
    play.stage.delete(cluster("m2"))
    play.run(100)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)


@pytest.mark.parametrize("moves", [ON, QUICK])
def test_a_scale_to_zero_and_back_after_the_new_copies_started_reports_no_vanished_copies(moves: Any):
    play = draining(MovePhase.SURGING, moves=moves)
    play.stage.scale(WEB, 0)
    play.run(3)
    play.stage.scale(WEB, 4)
    play.run(200)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)
    assert "MoveCopiesVanished" not in play.events


@pytest.mark.parametrize("moves", [pytest.param(MAKE, id="MakeBeforeBreak"), pytest.param(QUICK, id="BreakBeforeMake")])
def test_a_move_does_not_return_to_a_cluster_that_is_being_deleted(moves: MovesConfig):
    """Karmada removes the Cluster when no binding names it any more."""
    play = draining(MovePhase.SURGING, moves=moves)
    play.stage.model.members.break_workload("m2", "web")
    play.run(20)
    play.stage.delete(cluster("m1"))
    play.run(2 * DEADLINE_S + 200)
    assert "m2" in play.clusters
    assert not {"MoveRolledBack", "MoveReturning"} & {*play.events}
    play.stage.model.members.mend()
    play.run(200)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)


def test_a_scale_in_the_last_second_before_the_deadline_is_no_busy_loop():
    """The cluster of the old copy cannot be asked, so that nothing else happens then."""
    play = draining(MovePhase.ADMITTED, moves=QUICK)
    play.stage.model.members.lose("m1")
    play.run(5)
    left_s = (play.move.deadline_at - play.stage.clock.now()).total_seconds()
    play.stage.run(left_s - 0.2)
    play.stage.scale(WEB, 5)
    play.stage.run(0.3)
    play.run(60)
    assert play.move.under_way


def test_another_target_waits_if_it_would_take_healthy_copies_down_that_are_missed():
    """The failover has kept two of four replicas. Those that it has started run, and the others do not yet."""
    play = Play(
        {"g": ["m1", "m2"], "next": ["m3"]}, DYNAMIC, moves=replace(ON, defaults=replace(ON.defaults, soak_s=600))
    )
    play.fill("m2")
    play.stage.model.members.lose("m1")
    play.until(MovePhase.SOAKING)
    play.watch()
    play.stage.edit(cluster("m2"), status={"resourceSummary": {"allocatable": {"cpu": "100", "pods": "110"}}})
    at = play.stage.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    play.stage.edit(play.stage.binding(WEB) or {}, spec={"rescheduleTriggeredAt": at})
    play.run(300)
    assert play.lowest >= 4, play.clusters


def test_a_copy_on_a_cluster_that_joined_again_stays_when_a_move_returns():
    """Its Cluster was deleted in the middle, so it left the source. The target has it again."""
    play = Play({"g": ["m1", "m2", "m3"]}, DUPLICATED, moves=MAKE)
    play.stage.model.members.break_workload("m1", "web")  # the move waits for it
    play.drain("m3")
    play.until(MovePhase.SURGING)
    play.stage.delete(cluster("m2"))
    play.run(40)
    play.stage.put(cluster("m2"))
    play.run(40)
    assert (play.move.phase, play.clusters.keys()) == (MovePhase.SURGING, {"m1", "m2", "m3"})
    play.stage.edit(cluster("m3"), spec={"taints": []})
    for _ in range(20):
        play.run(5)
        assert "m2" in play.clusters
    assert play.move is None or play.move.phase is MovePhase.ROLLED_BACK


@pytest.mark.parametrize("moves", [pytest.param(MAKE, id="MakeBeforeBreak"), pytest.param(QUICK, id="BreakBeforeMake")])
def test_a_restart_of_karmada_in_the_soak_ends_no_move(moves: MovesConfig):
    """What members report is missing from the binding for some time. The Works have it."""
    play = draining(MovePhase.SOAKING, moves=moves)
    play.stage.model.restart_controllers()
    play.run(100)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)
    assert {"MoveRolledBack", "MoveReturning"}.isdisjoint(play.events)
    assert play.phases[play.phases.index("Soaking") :] == ["Soaking", "Released"]


def test_a_target_that_is_refused_after_an_eviction_assigns_no_evicted_cluster():
    play = Play({"g": ["m1", "m2"], "next": ["m3"]}, STATIC, moves=MAKE)
    play.drain("m1")
    play.until(MovePhase.SOAKING)
    play.stage.api.before = refuse_if(lambda clusters: "m3" in clusters)
    play.stage.edit(cluster("m2"), spec={"taints": [{"key": "busy", "effect": "NoExecute"}]})
    evict_now(play, "m2")
    play.run(150)
    assert "m2" not in play.clusters
    assert "MoveReleased" not in play.events
