"""Moves with BreakBeforeMake under the modelled Karmada: a workload never runs twice, and never stays away."""

from dataclasses import replace
from typing import Any

import pytest
from karmada_plane import deployment
from move_plays import BREAK, REPLICAS, STATIC, STAYS, WEB, Play, Twice, draining, refuse_if

from berthmaster.model.move import MovePhase

PRESERVED = {"aliasLabelName": "shop/replicas", "jsonPath": "{.readyReplicas}"}


def purging(mode: str, **more: Any) -> Any:
    """Return a failover policy."""
    return {"application": {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": mode, **more}}


@pytest.mark.parametrize(
    ("failover", "injected"),
    [
        pytest.param({}, {}, id="without a failover policy the copy is purged directly"),
        pytest.param(purging("Gracefully", gracePeriodSeconds=600), {}, id="gracefully"),
        pytest.param(
            purging("Directly", statePreservation={"rules": [PRESERVED]}),
            {"shop/replicas": "4"},
            id="directly, with the state of the old copy",
        ),
    ],
)
def test_with_break_before_make_a_workload_never_runs_twice(failover: Any, injected: Any):
    spec = {"failover": failover} if failover else {}
    play = draining(moves=BREAK, **spec)
    twice = Twice(play)
    labels: dict[str, str] = {}
    play.phases.clear()
    for _ in range(40):
        twice.run(10)
        for task in (play.stage.binding(WEB) or {})["spec"].get("gracefulEvictionTasks") or ():
            labels |= task.get("preservedLabelState", {})
    assert (play.clusters, twice.seen, play.healthy) == ({"m2": 4}, False, 4)
    assert play.phases == ["Admitted", "Surging", "Soaking", "Released"]
    assert labels == injected
    assert not (play.stage.binding(WEB) or {})["spec"].get("gracefulEvictionTasks"), "its tasks are removed"


def test_a_policy_that_never_purges_does_not_move_with_break_before_make():
    play = draining(moves=BREAK, failover=purging("Never"))
    play.run(60)
    assert (play.clusters, play.move.phase) == ({"m1": 4}, MovePhase.ELIGIBLE)
    assert "Never" in play.move.message


def test_a_failed_move_with_break_before_make_returns_the_same_way():
    slow = deployment("web", REPLICAS, terminationGracePeriodSeconds=120)
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=BREAK, template=slow)
    play.stage.model.members.break_workload("m2", "web")
    play.drain("m1")
    twice = Twice(play)
    while play.move is None or not play.move.returning:
        twice.run(30)
    twice.run(200)
    assert (play.clusters, twice.seen, play.healthy) == ({"m1": 4}, False, 4)


# BreakBeforeMake, when members do not play along


@pytest.mark.parametrize(
    ("grace_s", "longest_s"),
    [pytest.param(60, 110, id="a grace period of 60 s"), pytest.param(5, 60, id="one shorter than 30 s")],
)
def test_the_new_copies_start_after_the_grace_period_of_the_old_pods(grace_s: int, longest_s: int):
    pod = {**WEB["spec"]["template"]["spec"], "terminationGracePeriodSeconds": grace_s}
    spec = {**WEB["spec"], "template": {**WEB["spec"]["template"], "spec": pod}}
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=BREAK, template={**WEB, "spec": spec})
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=1000)
    play.drain("m1")
    twice = Twice(play)
    twice.run(longest_s)
    assert (play.clusters, twice.seen) == ({"m2": 4}, False)


def test_a_copy_is_not_gone_because_karmada_reports_nothing_after_a_restart():
    play = draining(moves=BREAK, settings=STAYS)
    twice = Twice(play)
    while play.move is None or play.move.phase is not MovePhase.ADMITTED:
        twice.run(1)
    play.stage.model.members.lose("m1")
    play.stage.model.restart_controllers()
    twice.run(300)
    assert (play.clusters, twice.seen) == ({}, False)
    assert "m1" in play.move.message
    play.stage.model.members.recover("m1")
    twice.run(400)
    assert (twice.seen, play.healthy) == (False, 4)


def test_a_source_that_froze_returns_before_its_copy_counts_as_gone():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=BREAK, settings=STAYS)
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=25)
    play.drain("m1")
    play.stage.model.members.lose("m1")
    twice = Twice(play)
    twice.run(100)
    assert play.clusters == {}
    play.stage.model.members.recover("m1", pods_ran=True)
    twice.run(300)
    assert (play.clusters, twice.seen, play.healthy) == ({"m2": 4}, False, 4)


def test_another_target_starts_after_the_former_one_is_gone():
    play = Play({"g": ["m1"], "next": ["m2"], "last": ["m3"]}, STATIC, moves=BREAK)
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=25)
    play.drain("m1")
    twice = Twice(play)
    while play.move is None or play.move.phase is not MovePhase.SURGING:
        twice.run(1)
    play.drain("m2")
    twice.run(600)
    assert (play.clusters, twice.seen, play.healthy) == ({"m3": 4}, False, 4)


def test_a_target_that_is_not_ready_when_the_old_copies_are_gone_gets_none_and_the_source_is_restored():
    play = draining(MovePhase.ADMITTED, moves=BREAK)
    play.stage.model.members.set_ready("m2", "False")
    play.run(3)
    assert play.clusters == {"m1": 4}
    play.run(60)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)


@pytest.mark.parametrize(
    ("target_ready", "at_last"),
    [pytest.param(True, "m2", id="on its target"), pytest.param(False, "m1", id="on its source")],
)
def test_the_storm_brake_never_keeps_a_workload_without_copies(at_last: str, *, target_ready: bool):
    play = draining(MovePhase.ADMITTED, moves=BREAK)
    play.stage.scheduler.brake("3 of 4 clusters turned unready")
    if not target_ready:
        play.stage.model.members.set_ready("m2", "False")
    play.run(100)
    assert (play.clusters, play.healthy) == ({at_last: 4}, 4)


def test_a_workload_returns_if_the_api_server_refuses_its_new_copies_when_the_old_ones_are_gone():
    play = draining(MovePhase.ADMITTED, moves=BREAK)
    play.stage.api.before = refuse_if(lambda clusters: "m2" in clusters)
    play.run(90)
    assert (play.clusters, play.move.phase) == ({"m1": 4}, MovePhase.ROLLED_BACK)
    assert "exceeds the quota" in play.move.message
    play.run(60)
    assert play.healthy == 4
    assert "MoveAbandoned" not in play.events


def test_a_workload_whose_way_there_and_back_are_refused_starts_where_it_is_allowed_first():
    play = draining(MovePhase.ADMITTED, moves=BREAK)
    play.stage.api.before = refuse_if(bool)
    play.run(1200)
    assert play.clusters == {}
    assert play.stage.condition(WEB)["reason"] == "QuotaExceeded"
    play.stage.api.before = refuse_if(lambda clusters: "m1" in clusters)
    play.run(60)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)


def test_a_way_back_that_is_refused_before_the_old_pods_have_ended_starts_nothing_elsewhere():
    slow = deployment("web", REPLICAS, terminationGracePeriodSeconds=60)
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=BREAK, template=slow)
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=60)
    play.drain("m1")
    while play.move is None or play.move.gone_since is None:
        play.run(1)
    play.stage.api.before = refuse_if(lambda clusters: "m1" in clusters)
    play.drain("m2")
    twice = Twice(play)
    twice.run(300)
    assert (play.clusters, play.healthy, twice.seen) == ({"m2": 4}, 4, False)


def test_another_target_does_not_start_the_wait_for_the_old_pods_again():
    play = Play({"g": ["m1"], "next": ["m2"], "last": ["m3"]}, STATIC, moves=BREAK)
    play.drain("m1")
    while play.move is None or play.move.gone_since is None:
        play.run(1)
    gone_since = play.move.gone_since
    play.drain("m2")
    play.run(5)
    assert (play.move.phase, play.move.gone_since) == (MovePhase.ADMITTED, gone_since)
    play.run(60)
    assert (play.clusters, play.healthy) == ({"m3": 4}, 4)


def test_a_way_back_to_a_lost_cluster_starts_the_workload_where_it_was():
    slow = deployment("web", REPLICAS, terminationGracePeriodSeconds=120)
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=BREAK, template=slow)
    play.stage.model.members.break_workload("m2", "web")
    play.drain("m1")
    play.run(BREAK.defaults.deadline_s + 60)
    for _ in range(60):
        play.run(5)
        if play.move is not None and play.move.returning and play.move.gone_since is not None:
            break
    assert play.clusters == {}, "the new copies are gone, and the old ones have not started"
    play.stage.model.members.lose("m1")
    play.run(180)
    assert (play.clusters, play.events[-1]) == ({"m2": 4}, "MoveRolledBack")
