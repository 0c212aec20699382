"""Moves and FederatedResourceQuotas under the modelled Karmada: what a move gives up is its own again."""

import pytest
from decisions import DYNAMIC
from karmada_model.quotas import QuotaWebhook
from karmada_plane import deployment, policy, selector
from kube_store import JSON
from move_plays import BREAK, ON, STATIC, WEB, Play, terms_of

from berthmaster.deciding.config import MovesConfig
from berthmaster.model.move import MovePhase
from berthmaster.model.move_refusal import Cause

GROUPS = {"g": ["m1"], "next": ["m2"]}
NEXT = deployment("next", 2)


def quota(cpu: str) -> JSON:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "FederatedResourceQuota",
        "metadata": {"name": "all", "namespace": "shop"},
        "spec": {"overall": {"cpu": cpu}},
    }


def with_a_full_quota(moves: MovesConfig = BREAK) -> Play:
    """Return a play whose workload has all of a quota, and another workload that waits for it."""
    play = Play(GROUPS, STATIC, moves=moves)
    play.stage.put(quota("2"))  # four replicas of 500m
    play.stage.edit(quota("2"), status={"overallUsed": {"cpu": "2"}})
    play.stage.api.before = QuotaWebhook(play.stage)
    placement = {"clusterAffinities": terms_of(GROUPS), "replicaScheduling": STATIC}
    play.stage.put(policy("next", selector(name="next"), schedulerName="berthmaster", placement=placement))
    play.stage.put(NEXT)
    play.run(60)
    assert not play.stage.assignment(NEXT)
    return play


def test_no_other_workload_gets_the_quota_that_a_move_has_given_up():
    play = with_a_full_quota()
    play.drain("m1")
    play.until(MovePhase.ADMITTED)
    play.run(60)
    assert (play.clusters, play.healthy, play.stage.assignment(NEXT)) == ({"m2": 4}, 4, {})
    play.stage.scale(WEB, 2)
    play.run(400)
    assert sum(play.stage.assignment(NEXT).values()) == 2, "what no move needs is free"


def test_a_new_leader_keeps_the_quota_of_a_move_under_way():
    play = with_a_full_quota()
    play.drain("m1")
    play.until(MovePhase.ADMITTED)
    play.run(5)
    play.stage.restart_scheduler()
    play.run(60)
    assert (play.clusters, play.stage.assignment(NEXT)) == ({"m2": 4}, {})


@pytest.mark.parametrize("cpu", ["1900m", "500m"])
def test_a_quota_below_the_use_keeps_the_old_copies(cpu: str):
    play = with_a_full_quota()
    play.stage.apply(quota(cpu))
    play.watch()
    play.drain("m1")
    play.run(300)
    assert (play.clusters, play.lowest) == ({"m1": 4}, 4)
    assert play.move.cause == Cause.QUOTA.value
    play.stage.apply(quota("2"))
    play.run(400)
    assert (play.clusters, play.healthy) == ({"m2": 4}, 4)


def test_a_move_whose_old_and_new_copies_exceed_a_quota_waits_for_room_and_begins_with_it():
    play = with_a_full_quota(ON)
    play.watch()
    play.drain("m1")
    play.run(300)
    assert (play.clusters, play.lowest, play.move.cause) == ({"m1": 4}, 4, Cause.QUOTA.value)
    assert play.move.message == "quota all has no room for cpu beside the old copies"
    play.stage.apply(quota("6"))  # the workload that waits takes 2
    play.run(200)
    assert (play.clusters, play.lowest) == ({"m2": 4}, 4)


def test_a_quota_below_the_use_refuses_a_release_and_the_record_says_so():
    """karmada-webhook refuses each use above the limit, also a smaller one than before."""
    play = Play(GROUPS, STATIC, moves=ON)
    play.stage.api.before = QuotaWebhook(play.stage)
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.stage.put(quota("1900m"))
    play.stage.edit(quota("1900m"), status={"overallUsed": {"cpu": "4"}})
    play.watch()
    play.run(400)
    assert (play.clusters, play.lowest, play.move.cause) == ({"m1": 4, "m2": 4}, 4, Cause.REFUSED.value)
    assert "all has no cpu left" in play.move.message
    assert play.events.count("MoveWaiting") == 1
    play.stage.apply(quota("2"))
    play.run(100)
    assert (play.clusters, play.move.phase) == ({"m2": 4}, MovePhase.RELEASED)


def test_a_quota_below_the_use_refuses_a_rollback_and_the_record_says_so():
    play = Play(GROUPS, STATIC, moves=ON)
    play.stage.api.before = QuotaWebhook(play.stage)
    play.stage.model.members.break_workload("m2", "web")
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.stage.put(quota("1900m"))
    play.stage.edit(quota("1900m"), status={"overallUsed": {"cpu": "4"}})
    play.watch()
    play.run(2000)
    assert (play.clusters, play.lowest, play.move.cause) == ({"m1": 4, "m2": 4}, 4, Cause.REFUSED.value)
    play.stage.apply(quota("2"))
    play.run(100)
    assert (play.clusters, play.move.phase) == ({"m1": 4}, MovePhase.ROLLED_BACK)


def test_a_failover_whose_union_exceeds_a_quota_happens_without_it_and_keeps_what_runs():
    play = Play({"g": ["m1", "m2"], "next": ["m3"]}, DYNAMIC)
    play.stage.put(quota("2"))
    play.stage.edit(quota("2"), status={"overallUsed": {"cpu": "2"}})
    play.stage.api.before = QuotaWebhook(play.stage)
    play.fill("m2")
    play.stage.model.members.lose("m1")
    play.run(70)
    play.watch()
    play.run(120)
    assert (play.clusters, play.healthy, play.lowest) == ({"m3": 4}, 4, 2)
    assert not (play.stage.binding(WEB) or {})["spec"].get("gracefulEvictionTasks", [])[1:], "of the lost cluster only"
