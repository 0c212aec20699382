"""Moves of the binding scheduler under the modelled Karmada: healthy replicas never drop, and every move ends."""

import json
from dataclasses import replace
from typing import Any

import pytest
from decisions import DUPLICATED, DYNAMIC
from faults import nothing
from karmada_model.replicas import RETAINED
from karmada_plane import cluster, resource
from kube_store import JSON
from move_plays import AFTER_S, BREAK, ON, REPLICAS, STATEFUL, STATIC, WEB, Play, draining, refuse_if
from tables import cases

from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.move_settings import SourceSettings
from berthmaster.model.errors import ApiError
from berthmaster.model.move import FAILBACK, MOVE, PAUSE, STRATEGY, MovePhase, MoveReason


def test_a_workload_returns_to_its_first_group_and_is_never_short_of_healthy_replicas():
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC)
    play.fail_over_and_back("m1")
    assert (play.clusters, play.move.phase) == ({"m2": 4}, MovePhase.STABILISING)
    play.run(AFTER_S - 60)
    assert play.clusters == {"m2": 4}, "before its time"
    play.phases.clear()
    play.run(200)
    assert play.phases == ["Stabilising", "Surging", "Soaking", "Released"]
    assert (play.clusters, play.lowest) == ({"m1": 4}, 4)
    assert play.events == ["MoveStarted", "MoveHealthy", "MoveReleased"]
    play.run(AFTER_S + 30)
    assert play.move is None, "the record is removed"
    assert play.stage.condition(WEB, "Moving") == {}


@pytest.mark.parametrize("moves", [pytest.param(ON, id="MakeBeforeBreak"), pytest.param(BREAK, id="BreakBeforeMake")])
def test_karmada_copies_no_number_of_a_move_to_the_template(moves: MovesConfig):
    """Its deployment-replicas-syncer would copy the sum of old and new copies, or 0 while there are none."""
    template = {**WEB, "metadata": {**WEB["metadata"], "labels": RETAINED}}
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC, moves=moves, template=template)
    play.drain("m1")
    for _ in range(300):
        play.run(1)
        assert (play.stage.get(template) or {})["spec"]["replicas"] == REPLICAS
    binding = play.stage.binding(template) or {}
    assert binding["status"]["schedulerObservedGeneration"] == binding["metadata"]["generation"]
    assert play.stage.condition(template, "Moving")["reason"] == "Released"


def test_dependencies_stay_with_the_old_copies_until_these_go():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, propagateDeps=True)
    config = resource("settings", "ConfigMap")
    volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
    play.stage.put(config)
    template = {**WEB["spec"]["template"], "spec": {**WEB["spec"]["template"]["spec"], "volumes": volumes}}
    play.stage.edit(WEB, spec={"template": template})
    play.run(60)
    play.drain("m1")
    seen = set()
    for _ in range(60):
        play.run(5)
        running, needed = play.stage.works(WEB).keys(), play.stage.works(config).keys()
        assert running <= needed, "a copy without its dependency"
        seen.add(tuple(sorted(running)))
    assert seen >= {("m1", "m2"), ("m2",)}


@pytest.mark.parametrize(
    ("groups", "strategy", "expected"),
    [
        pytest.param({"g": ["m1", "m2"]}, STATIC, {"m2": 4}, id="a part of a divided workload"),
        pytest.param({"g": ["m1"], "next": ["m2"]}, STATIC, {"m2": 4}, id="to the next group"),
        pytest.param({"g": ["m1"], "next": ["m2"]}, DUPLICATED, {"m2": 4}, id="a duplicated workload"),
        pytest.param({"g": ["m1", "m2"]}, DUPLICATED, {"m2": 4}, id="a duplicated workload with a copy elsewhere"),
        pytest.param({"g": ["m1", "m2", "m3"]}, DYNAMIC, None, id="by available replicas"),
    ],
)
def test_a_drained_cluster_is_left_without_a_gap(groups: dict[str, list[str]], strategy: JSON, expected: Any):
    play = Play(groups, strategy)
    play.watch()
    play.drain("m1")
    play.run(400)
    assert "m1" not in play.clusters
    assert expected is None or play.clusters == expected
    assert play.lowest >= REPLICAS
    assert play.move.phase is MovePhase.RELEASED


def test_a_drain_of_the_last_group_ends_in_an_earlier_one():
    """No failback begins before the end of the drain."""
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC)
    play.fail_over_and_back("m1")
    play.drain("m2")
    play.run(200)
    assert (play.clusters, play.lowest) == ({"m1": 4}, REPLICAS)
    assert (play.move.reason, play.move.phase) == (MoveReason.DRAIN, MovePhase.RELEASED)


# Failures


def returning(**config: Any) -> Play:
    """A play whose workload surges back to its first group."""
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC, **config)
    play.fail_over_and_back("m1")
    play.until(MovePhase.SURGING, 5)
    return play


def test_a_move_that_is_not_healthy_in_time_is_rolled_back_and_held_down_twice_as_long_each_time():
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC)
    play.fail_over_and_back("m1")
    play.stage.model.members.break_workload("m1", "web")
    holds = []
    for failures in (1, 2, 3):
        while play.move is None or play.move.phase is not MovePhase.ROLLED_BACK or play.move.failures != failures:
            play.run(60)
        assert play.clusters == {"m2": 4}
        assert play.move.since is not None
        assert play.move.held_down_until is not None
        holds.append((play.move.held_down_until - play.move.since).total_seconds())
        while play.move.phase is MovePhase.ROLLED_BACK:
            play.run(60)
    assert holds == [600, 1200, 2400]
    assert play.lowest == REPLICAS
    assert play.events[:2] == ["MoveStarted", "MoveRolledBack"]


def soaking_with_unhealthy_old_copies():
    play = returning()
    play.until(MovePhase.SOAKING, 5)
    play.stage.model.members.break_workload("m2", "web")
    play.run(10)
    return play


def test_the_new_copies_stay_while_the_old_ones_are_unhealthy_and_a_cluster_is_not_ready():
    play = soaking_with_unhealthy_old_copies()
    play.stage.model.members.set_ready("m1", "False")
    play.run(20)
    assert (play.move.phase, play.clusters, play.healthy) == (MovePhase.SURGING, {"m1": 4, "m2": 4}, 4)
    assert play.events[-1] == "MoveStalled"
    play.stage.model.members.set_ready("m1", "True")
    play.run(200)
    assert (play.move.phase, play.clusters, play.lowest) == (MovePhase.RELEASED, {"m1": 4}, 4)


def test_a_move_continues_to_a_target_that_is_no_better_if_the_old_copies_are_unhealthy():
    play = soaking_with_unhealthy_old_copies()
    play.place({"dr": ["m2"], "primary": ["m1"]})
    play.stage.scale(WEB, 3)
    play.run(60)
    assert play.healthy == 3
    play.run(200)
    assert (play.events[-1], play.clusters) == ("MoveReleased", {"m1": 3})


def test_a_failover_after_a_failback_is_a_flap_and_holds_the_binding_down():
    play = returning()
    play.run(150)
    assert play.move.phase is MovePhase.RELEASED
    play.stage.model.members.lose("m1")
    play.run(150)
    assert play.clusters == {"m2": 4}
    assert (play.move.phase, play.move.failures) == (MovePhase.HELD_DOWN, 1)


def test_a_record_of_a_failure_is_forgotten_when_the_placement_is_edited():
    play = returning()
    play.stage.model.members.break_workload("m1", "web")
    play.until(MovePhase.ROLLED_BACK, 30)
    play.place({"dr": ["m2", "m3"]})
    play.run(10)
    assert play.move is None


@pytest.mark.parametrize("moves", [pytest.param(ON, id="MakeBeforeBreak"), pytest.param(None, id="BreakBeforeMake")])
def test_a_stateful_set_moves_although_karmada_reports_no_observed_generation_of_it(moves: Any):
    play = draining(moves=moves or BREAK, template=STATEFUL)
    play.run(400)
    assert (play.clusters, play.move.phase, play.healthy) == ({"m2": 4}, MovePhase.RELEASED, 4)


def test_a_move_to_a_group_that_was_edited_while_the_workload_was_elsewhere_starts_once():
    """Karmada schedules nothing after such an edit, so the annotation with the applied placement keeps the old text."""
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC)
    play.fail_over_and_back("m1")
    play.stage.put(cluster("m3"))
    play.place({"primary": ["m1", "m3"], "dr": ["m2"]})
    play.run(AFTER_S + 300)
    assert (play.clusters, play.lowest) == ({"m1": 2, "m3": 2}, REPLICAS)
    assert play.events == ["MoveStarted", "MoveHealthy", "MoveReleased"]


def test_another_order_of_the_clusters_abandons_no_move():
    """Karmada writes the clusters of a MultiClusterService in any order, each time it looks at them."""
    play = Play({"all": ["m1", "m2"]}, STATIC)

    def order(*names: str) -> None:
        placement = {"clusterAffinity": {"clusterNames": [*names]}, "replicaScheduling": STATIC}
        play.stage.apply({**play.policy, "spec": {**play.policy["spec"], "placement": placement}})

    order("m1", "m2")
    play.run(30)
    play.drain("m1")
    play.run(10)
    assert play.phases[-1] == "Surging"
    order("m2", "m1")
    play.run(300)
    assert play.clusters == {"m2": 4}
    assert play.events == ["MoveStarted", "MoveHealthy", "MoveReleased"]


def test_a_failover_keeps_all_its_copies_when_the_placement_is_edited():
    play = Play({"primary": ["m1", "m2"], "dr": ["m3"]}, DYNAMIC)
    kept = play.clusters["m2"]
    play.fill("m2")
    play.stage.model.members.lose("m1")
    while play.clusters.get("m3") is None:
        play.run(5)
    play.run(10)
    play.watch()
    play.stage.put(cluster("m4"))
    play.place({"primary": ["m1", "m2"], "dr": ["m3", "m4"]})
    play.run(10)
    assert play.clusters.keys() >= {"m2", "m3"}
    play.run(600)
    assert play.clusters.keys() <= {"m3", "m4"}
    assert (sum(play.clusters.values()), play.healthy) == (4, 4)
    assert play.lowest >= kept
    assert play.events.count("MoveStarted") == 1


# In the middle of a move


def evict(play: Play, name: str) -> None:
    binding = play.stage.binding(WEB)
    left = [each for each in binding["spec"]["clusters"] if each["name"] != name]
    task = {"fromCluster": name, "reason": "Test", "producer": "Test", "purgeMode": "Gracefully"}
    play.stage.edit(binding, spec={"clusters": left, "gracefulEvictionTasks": [task]})


def write_others(play: Play) -> None:
    play.stage.edit(play.stage.binding(WEB), spec={"clusters": [{"name": "m2", "replicas": 4}]})


def reschedule(play: Play) -> None:
    at = play.stage.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    play.stage.edit(play.stage.binding(WEB), spec={"rescheduleTriggeredAt": at})


def suspend(play: Play) -> None:
    play.stage.edit(play.stage.binding(WEB), spec={"suspension": {"scheduling": True}})


@cases(
    ("change", "at_once", "phase", "at_last"),
    {
        "a scale up": (lambda play: play.stage.scale(WEB, 6), {"m1": 6, "m2": 4}, "Surging", {"m1": 6}),
        "a scale down": (lambda play: play.stage.scale(WEB, 2), {"m1": 2, "m2": 2}, "Surging", {"m1": 2}),
        "a scale to zero": (lambda play: play.stage.scale(WEB, 0), {}, "Released", {}),
        "a change of the template": (
            lambda play: play.stage.edit(WEB, spec={"minReadySeconds": 5}), {"m1": 4, "m2": 4}, "Surging", {"m1": 4},
        ),
        "an edit of the placement": (lambda play: play.place({"dr": ["m2"]}), {"m2": 4}, "HeldDown", {"m2": 4}),
        "an eviction of the old copy": (lambda play: evict(play, "m2"), {"m1": 4}, "Surging", {"m1": 4}),
        "an eviction of the new copy": (lambda play: evict(play, "m1"), {"m2": 4}, "RolledBack", {"m2": 4}),
        "another client writes the assignment": (write_others, {"m2": 4}, "HeldDown", {"m1": 4}),
        "a plain rescheduling": (reschedule, {"m1": 4, "m2": 4}, "Surging", {"m1": 4}),
        "a suspension": (suspend, {"m1": 4, "m2": 4}, "Surging", {"m1": 4, "m2": 4}),
    },
)  # fmt: skip
def test_what_happens_in_the_middle_of_a_move(change: Any, at_once: Any, phase: str, at_last: Any):
    play = returning()
    play.stage.put(cluster("m3"))
    change(play)
    play.run(3)
    found = play.move.phase.value if play.move is not None else ""
    assert (play.clusters, found) == (at_once, phase)
    play.run(600 + AFTER_S + 300 if phase == "HeldDown" else 300)
    assert play.clusters == at_last


@pytest.mark.parametrize(
    ("phase", "message"), [(MovePhase.SURGING, "no target is better"), (MovePhase.SOAKING, "not ready")]
)
def test_a_cluster_of_the_target_that_is_lost_rolls_the_move_back(phase: MovePhase, message: str):
    play = returning()
    play.until(phase)
    play.stage.model.members.lose("m1")
    play.run(120)
    assert (play.clusters, play.move.phase, play.lowest) == ({"m2": 4}, MovePhase.ROLLED_BACK, REPLICAS)
    assert message in play.move.message


def test_a_cluster_of_the_source_that_is_lost_does_not_stop_the_move():
    play = returning()
    play.stage.model.members.lose("m2")
    play.run(200)
    assert (play.clusters, play.move.phase) == ({"m1": 4}, MovePhase.RELEASED)


def test_a_failover_to_another_group_keeps_the_healthy_old_copies_until_the_new_ones_are_healthy():
    play = Play({"primary": ["m1", "m2"], "dr": ["m3", "m4"]}, {**STATIC, **DYNAMIC})
    for name in ("m1", "m2"):
        play.fill(name)
    kept = play.clusters["m2"]
    play.stage.model.members.lose("m1")
    play.run(45)
    play.watch()
    play.run(40)
    assert play.move.reason.value == "Failover"
    assert play.clusters["m2"] == kept
    play.run(200)
    assert set(play.clusters) <= {"m3", "m4"}
    assert play.lowest >= kept


def test_a_failover_that_never_becomes_healthy_returns_when_its_group_can_hold_everything_again():
    play = Play({"primary": ["m1", "m2"], "dr": ["m3"]}, DYNAMIC)
    kept = play.clusters["m2"]
    play.fill("m2")
    play.stage.model.members.break_workload("m3", "web")
    play.stage.model.members.lose("m1")
    play.run(1300)
    assert play.clusters == {"m2": kept, "m3": 4}
    assert play.events[-1] == "MoveStalled"
    play.stage.model.members.recover("m1")
    play.run(1000)
    assert play.clusters.keys() <= {"m1", "m2"}
    assert (sum(play.clusters.values()), play.healthy) == (4, 4)


def test_a_hundred_failures_of_one_cluster_within_an_hour_cause_at_most_two_moves():
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC)
    before, moves = play.clusters, 0
    for _ in range(100):
        play.stage.model.members.set_ready("m1", "False")
        play.run(18)
        play.stage.model.members.set_ready("m1", "True")
        play.run(18)
        moves += play.clusters != before
        before = play.clusters
    assert moves <= 2


# Who may move


def test_a_requested_rescheduling_is_a_move_if_the_policy_names_a_strategy():
    play = Play({"g": ["m1", "m2"]}, DYNAMIC)
    play.stage.edit(play.policy, metadata={"annotations": {STRATEGY: "MakeBeforeBreak"}})
    binding = play.stage.binding(WEB)
    assert binding is not None
    play.stage.edit(binding, spec={"clusters": [{"name": "m1", "replicas": 4}]})
    play.stage.run(60)
    play.watch()
    reschedule(play)
    play.phases.clear()
    play.run(200)
    assert play.clusters == {"m1": 2, "m2": 2}
    assert play.phases[:3] == ["Surging", "Soaking", "Released"]
    assert play.lowest == REPLICAS


@pytest.mark.parametrize(
    ("annotations", "moves", "says"),
    [
        pytest.param({FAILBACK: "after=10m"}, True, "", id="an annotation turns failback on"),
        pytest.param({}, False, "", id="without it nothing moves"),
        pytest.param({FAILBACK: "after=10m", PAUSE: "true"}, False, "pauses", id="a pause stops it"),
        pytest.param({FAILBACK: "after=soon"}, False, FAILBACK, id="an invalid annotation turns nothing on"),
        pytest.param({FAILBACK: "after=10m,mode=DryRun"}, False, "it would move", id="DryRun only says so"),
    ],
)
def test_a_policy_turns_failback_on(annotations: dict[str, str], says: str, *, moves: bool):
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC, moves=MovesConfig())
    play.stage.edit(play.policy, metadata={"annotations": annotations})
    play.fail_over_and_back("m1")
    play.run(AFTER_S + 200)
    assert play.clusters == ({"m1": 4} if moves else {"m2": 4})
    assert says in (play.move.message if play.move is not None else "")


def test_a_workload_that_tolerates_the_drain_stays():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC)
    play.place({"g": ["m1"], "next": ["m2"]}, clusterTolerations=[{"operator": "Exists"}])
    play.run(10)
    play.drain("m1")
    play.run(60)
    assert (play.clusters, play.move) == ({"m1": 4}, None)


def test_a_workload_without_another_place_stays_and_says_why_until_there_is_one():
    play = Play({"g": ["m1", "m9"]}, STATIC, moves=ON)
    play.stage.delete(cluster("m9"))
    play.run(60)
    play.drain("m1")
    play.run(60)
    assert (play.clusters, play.move.phase) == ({"m1": 4}, MovePhase.ELIGIBLE)
    assert "no place" in play.move.message
    play.stage.put(cluster("m9"))
    play.run(200)
    assert play.clusters == {"m9": 4}


def test_a_move_that_a_quota_refuses_is_held_down_and_the_binding_stays_scheduled():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC)
    play.stage.api.before = refuse_if(lambda clusters: sum(clusters.values()) > REPLICAS)
    play.drain("m1")
    play.run(60)
    assert (play.clusters, play.move.phase) == ({"m1": 4}, MovePhase.HELD_DOWN)
    assert play.stage.condition(WEB)["status"] == "True"
    play.stage.api.before = nothing
    play.run(AFTER_S + 300)
    assert play.clusters == {"m2": 4}


# What reality showed: copies are what Works say


def swift(**defaults: Any) -> MovesConfig:
    """Moves that begin and end within seconds, so that they overlap with what Karmada still does."""
    sources = {"failback": SourceSettings("On", 0, 10), "drain": SourceSettings("On", 0, 0)}
    return replace(ON, defaults=replace(ON.defaults, **{"soak_s": 15, **sources, **defaults}))


def test_a_failback_waits_until_the_old_copy_is_removed_that_karmada_could_not_delete_during_the_outage():
    """Karmada would finish the deletion after the move, and delete the only copies."""
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC, moves=swift())
    play.stage.model.members.lose("m1")
    play.run(200)
    assert play.clusters == {"m2": 4}
    assert "deletionTimestamp" in play.stage.works(WEB)["m1"]["metadata"]
    play.stage.model.members.recover("m1", pods_ran=True)
    play.watch()
    play.run(20)
    assert (play.clusters, play.move.cause, play.move.about) == ({"m2": 4}, "old-copy", ("m1",))
    play.run(300)
    assert (play.clusters, play.lowest, play.healthy) == ({"m1": 4}, 4, 4)
    assert play.events.count("MoveStarted") == 1


def test_a_drain_does_not_move_to_a_cluster_that_still_removes_its_old_copy():
    play = Play({"g": ["m1", "m2"]}, STATIC, moves=swift())
    play.drain("m1")
    play.until(MovePhase.SOAKING)
    play.stage.model.members.lose("m1")
    play.run(25)
    assert play.clusters == {"m2": 4}
    assert "deletionTimestamp" in play.stage.works(WEB)["m1"]["metadata"]
    play.stage.model.members.recover("m1", pods_ran=True)
    play.stage.edit(cluster("m1"), spec={"taints": []})
    play.watch()
    play.drain("m2")
    play.run(5)
    assert (play.clusters, play.move.about) == ({"m2": 4}, ("m1",))
    play.run(400)
    assert (play.clusters, play.lowest) == ({"m1": 4}, 4)


def test_no_move_begins_or_ends_while_the_works_cannot_be_read():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=swift())
    play.stage.api.before = forbid_works
    play.drain("m1")
    play.run(120)
    assert (play.clusters, play.move.cause) == ({"m1": 4}, "works-unread")
    assert "cannot be read" in play.move.message
    play.stage.api.before = nothing
    play.run(40)
    assert play.clusters == {"m1": 4, "m2": 4}
    play.stage.api.before = forbid_works
    play.run(2000)
    assert (play.clusters, play.move.phase) == ({"m1": 4, "m2": 4}, MovePhase.SURGING)
    assert "cannot be read" in play.move.message
    play.stage.api.before = nothing
    play.run(120)
    assert play.clusters == {"m2": 4}


def forbid_works(request: Any) -> None:
    if request.path.endswith("/works"):
        raise ApiError(403, "Forbidden", "works is forbidden")


def test_a_move_costs_at_most_six_more_requests():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC)
    before = len(play.stage.api.requests)
    play.drain("m1")
    play.run(400)
    assert play.clusters == {"m2": 4}
    reads = [each for each in play.stage.api.requests[before:] if each.path.endswith("/works")]
    assert 1 <= len(reads) <= 6


def test_copies_that_vanish_after_the_release_are_reported_and_the_workload_is_decided_again():
    play = Play({"g": ["m1", "m2"]}, STATIC, moves=swift())
    play.drain("m1")
    play.run(60)
    assert (play.clusters, play.move.phase) == ({"m2": 4}, MovePhase.RELEASED)
    play.stage.edit(cluster("m1"), spec={"taints": []})
    play.run(5)
    play.stage.delete(play.stage.works(WEB)["m2"])
    play.run(10)
    assert "MoveCopiesVanished" in play.events
    assert (play.clusters, play.move.phase) == ({"m1": 4}, MovePhase.HELD_DOWN)
    assert "m2" in play.move.message
    play.run(60)
    assert play.healthy == 4


def test_a_cluster_that_was_evicted_and_used_again_after_a_release_has_no_vanished_copies():
    """Karmada deletes the evicted Work when the cluster answers again, and writes the next one about a minute later."""
    play = Play({"g": ["m1", "m2", "m3"]}, DUPLICATED, moves=swift(hold_down_s=600))
    members = play.stage.model.members
    play.drain("m1")
    play.until(MovePhase.RELEASED)
    members.lose("m2")
    evict(play, "m2")
    play.run(60)
    members.recover("m2")
    play.run(1)
    play.stage.scale(WEB, 5)
    play.run(58)
    assert (play.clusters, play.stage.works(WEB).keys()) == ({"m2": 5, "m3": 5}, {"m3"})
    members.lose_pods("m3", WEB, 1)  # a report lets the scheduler look
    play.run(60)
    assert "MoveCopiesVanished" not in play.events
    assert members.healthy(WEB) == {"m2": 5, "m3": 5}


# Who ends a move, and what it says while it waits


def test_a_move_ends_although_its_policy_was_deleted():
    play = returning()
    play.stage.delete(play.policy)
    play.run(300)
    assert play.clusters == {"m1": 4}
    play.run(AFTER_S)
    assert play.move is None


def test_a_target_that_begins_to_drain_is_given_up():
    play = Play({"g": ["m1"], "next": ["m2"], "last": ["m3"]}, STATIC)
    play.watch()
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.drain("m2")
    play.run(300)
    assert (play.clusters, play.lowest) == ({"m3": 4}, 4)
    assert play.events.count("MoveStarted") == 1


def test_a_fast_move_soaks_as_soon_as_its_report_can_be_trusted():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=swift())
    play.stage.model.members.delays = replace(play.stage.model.members.delays, start_s=1.0)
    play.drain("m1")
    play.until(MovePhase.SURGING)
    play.run(12)
    assert play.move.phase is MovePhase.SOAKING


def test_a_waiting_move_names_the_cluster_that_it_waits_for_now():
    play = Play({"primary": ["m1", "m2"], "dr": ["m3"]}, DYNAMIC)
    for name in ("m1", "m2"):
        play.stage.model.members.lose(name)
    play.run(200)
    assert play.clusters == {"m3": 4}
    play.stage.model.members.recover("m1")
    play.run(40)
    assert play.move.target.keys() == {"m1"}
    play.stage.model.members.lose("m1")
    play.stage.model.members.recover("m2")
    play.run(100)
    assert play.move.target.keys() == {"m2"}


def test_a_record_from_a_wrong_clock_holds_no_longer_than_the_settings_allow():
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC)
    forged = {
        "reason": "Drain", "phase": "HeldDown", "failures": 1, "since": "2099-01-01T00:00:00Z",
        "until": "2099-01-01T00:10:00Z", "heldDownUntil": "2099-01-01T00:10:00Z",
    }  # fmt: skip
    play.stage.edit(play.stage.binding(WEB), metadata={"annotations": {MOVE: json.dumps(forged)}})
    play.drain("m1")
    play.stage.run(86400)  # much faster than a look every five seconds
    play.run(300)
    assert play.clusters == {"m2": 4}
