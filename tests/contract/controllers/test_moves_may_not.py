"""What keeps a move from beginning or ending, under the modelled Karmada: where a copy cannot start, or must not go."""

import os
from dataclasses import replace
from typing import Any

import pytest
from decisions import DUPLICATED, DYNAMIC
from karmada_model.replicas import RETAINED
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, resource, selector
from kube_store import JSON
from move_plays import BREAK, ON, REPLICAS, SETTINGS, STATIC, WEB, Play, Twice, draining, terms_of
from msgspec import structs

from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MoveRule, MovesConfig
from berthmaster.deciding.move_selector import MoveSelector
from berthmaster.deciding.move_settings import SourceOverride
from berthmaster.kube.requests import APIRequest
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster.model.move import DRAINING, MOVE, MovePhase, MoveState, MoveStrategy
from berthmaster.model.move_refusal import Cause

BOTH = pytest.mark.parametrize(
    "moves", [pytest.param(ON, id="MakeBeforeBreak"), pytest.param(BREAK, id="BreakBeforeMake")]
)
ALL: JSON = {"dispatching": True}
# How long after the begin of a phase dispatching is suspended. EVERY_DELAY=1 tries more.
SUSPENDED_AFTER_S = [0, 3, 30] if os.environ.get("EVERY_DELAY") else [3]


def on(*names: str) -> JSON:
    return {"dispatchingOnClusters": {"clusterNames": list(names)}}


def cause_of(play: Play) -> Cause | None:
    return Cause(play.move.cause) if play.move is not None and play.move.cause else None


# Suspended dispatching


@BOTH
@pytest.mark.parametrize(
    "suspension",
    [
        pytest.param(ALL, id="everywhere"),
        pytest.param(on("m2"), id="on the target"),
        pytest.param(on("m1"), id="on the source"),
        pytest.param(on("m1", "m2"), id="on both"),
    ],
)
def test_no_move_begins_while_dispatching_is_suspended(moves: MovesConfig, suspension: JSON):
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=moves)
    play.amend(suspension=suspension)
    play.drain("m1")
    play.watch()
    play.run(300)
    assert (play.clusters, play.lowest, cause_of(play)) == ({"m1": 4}, REPLICAS, Cause.SUSPENDED)
    assert "suspended" in play.move.message
    play.amend(suspension=None)
    play.run(500)
    assert (play.clusters, play.healthy) == ({"m2": 4}, REPLICAS)


def test_a_move_goes_to_another_group_than_that_where_dispatching_is_suspended():
    play = Play({"g": ["m1"], "next": ["m2"], "last": ["m3"]}, STATIC)
    play.amend(suspension=on("m2"))
    play.drain("m1")
    play.run(300)
    assert play.clusters == {"m3": 4}


@BOTH
@pytest.mark.parametrize("phase", list(MovePhase)[2:5])
@pytest.mark.parametrize(
    "suspension",
    [
        pytest.param(ALL, id="everywhere"),
        pytest.param(on("m2"), id="on the target"),
        pytest.param(on("m1"), id="on the source"),
        pytest.param(on("m1", "m2"), id="on both"),
    ],
)
@pytest.mark.parametrize("after_s", SUSPENDED_AFTER_S)
def test_a_move_whose_dispatching_is_suspended_in_the_middle_deletes_no_frozen_copy_and_runs_on(
    moves: MovesConfig, phase: MovePhase, suspension: JSON, after_s: int
):
    if moves is ON and phase is MovePhase.ADMITTED:
        return  # this phase does not last
    play = draining(phase, moves=moves)
    twice = Twice(play)
    twice.run(after_s)
    play.watch()
    before = play.stage.model.members.running(WEB)
    play.amend(suspension=suspension)
    twice.run(10)
    frozen = {
        name for name in before if suspension is ALL or name in suspension["dispatchingOnClusters"]["clusterNames"]
    }
    twice.run(1500)
    if moves is ON:
        assert play.lowest >= REPLICAS
        assert frozen <= play.stage.model.members.running(WEB), "a frozen copy was deleted"
    assert moves is ON or not twice.seen
    startable = suspension in (on("m1"), on("m2"))
    if startable:
        assert play.healthy >= REPLICAS
    elif play.healthy == 0:
        assert cause_of(play) is Cause.SUSPENDED
        assert play.move.until is not None
    play.amend(suspension=None)
    twice.run(2500)
    assert play.healthy == REPLICAS
    assert moves is ON or not twice.seen


def test_a_failover_does_not_go_where_dispatching_is_suspended():
    play = Play({"g": ["m1"], "next": ["m2"], "last": ["m3"]}, STATIC)
    play.amend(suspension=on("m2"))
    play.stage.model.members.lose("m1")
    play.run(200)
    assert play.clusters == {"m3": 4}


def test_a_part_of_a_workload_stays_while_the_other_part_returns():
    """Karmada is deleting the copy on m1, so it starts again when it is gone. The copies that stay serve meanwhile."""
    play = Play({"g": ["m1", "m2", "m3"]}, STATIC, moves=BREAK)
    play.drain("m1")
    play.until(MovePhase.ADMITTED)
    play.watch()
    play.amend(suspension=on("m2", "m3"))
    play.run(300)
    assert "MoveReturning" in play.events
    assert play.lowest >= REPLICAS - 1, "one replica was on m1"
    assert play.healthy == REPLICAS


# What a member keeps


def test_break_before_make_does_not_begin_if_the_member_would_keep_the_old_copy():
    play = draining(moves=BREAK, preserveResourcesOnDeletion=True)
    play.run(300)
    assert (play.clusters, play.lowest, cause_of(play)) == ({"m1": 4}, REPLICAS, Cause.KEEPS_OLD_COPY)


@pytest.mark.parametrize("phase", [MovePhase.SURGING, MovePhase.SOAKING])
def test_a_move_with_break_before_make_does_not_return_from_a_copy_that_the_member_would_keep(phase: MovePhase):
    play = draining(phase, moves=BREAK)
    twice = Twice(play)
    play.amend(preserveResourcesOnDeletion=True)
    twice.run(5)
    play.stage.model.members.break_workload("m2", "web")
    twice.run(2000)
    assert (play.clusters, twice.seen, cause_of(play)) == ({"m2": 4}, False, Cause.KEEPS_OLD_COPY)
    play.stage.model.members.mend()
    twice.run(300)
    assert (play.healthy, play.move.phase, twice.seen) == (REPLICAS, MovePhase.RELEASED, False)


def test_a_move_names_the_copy_that_a_member_keeps():
    play = draining(preserveResourcesOnDeletion=True)
    play.run(300)
    assert (play.clusters, play.move.phase) == ({"m2": 4}, MovePhase.RELEASED)
    assert play.stage.model.members.running(WEB) == {"m1", "m2"}, "as Karmada does"
    assert "copy on m1" in play.move.message
    notes = [each.note for each in play.stage.scheduler.recorder.events if each.reason == "MoveReleased"]
    assert all("copy on m1" in each for each in notes)


# Templates


@BOTH
def test_a_paused_deployment_stays(moves: MovesConfig):
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=moves)
    play.stage.edit(WEB, spec={"paused": True})
    play.run(30)
    play.drain("m1")
    play.watch()
    play.run(300)
    assert (play.clusters, play.lowest, cause_of(play)) == ({"m1": 4}, REPLICAS, Cause.TEMPLATE_PAUSED)
    play.stage.edit(WEB, spec={"paused": False})
    play.run(500)
    assert (play.clusters, play.healthy) == ({"m2": 4}, REPLICAS)


@pytest.mark.parametrize("phase", [MovePhase.ADMITTED, MovePhase.SURGING])
def test_a_deployment_that_is_paused_in_the_middle_waits_and_does_not_go_to_and_fro(phase: MovePhase):
    play = draining(phase, moves=BREAK)
    twice = Twice(play)
    play.stage.edit(WEB, spec={"paused": True})
    twice.run(2000)
    assert play.events.count("MoveReturning") == 0
    play.stage.edit(WEB, spec={"paused": False})
    twice.run(1500)
    assert (play.healthy, twice.seen) == (REPLICAS, False)


# Jobs


JOB: JSON = resource("web", "Job", "batch/v1", spec={"parallelism": REPLICAS, "template": {"spec": {}}})
MOVES_JOBS = MoveRule(selector=MoveSelector(kinds=frozenset({"Job"})), drain=SourceOverride("On"))


@BOTH
def test_a_job_whose_completions_clusters_share_stays(moves: MovesConfig):
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=replace(moves, rules=(MOVES_JOBS,)), template=JOB)
    play.drain("m1")
    play.watch()
    play.run(300)
    assert (play.clusters, play.lowest, cause_of(play)) == ({"m1": 4}, REPLICAS, Cause.JOB_DIVIDED)


@pytest.mark.parametrize("after_s", [2, 20])
def test_a_part_of_a_job_that_begins_to_move_before_it_has_started_returns(after_s: float):
    """Karmada has written no Work when the move begins, and gives each other cluster its part of the completions."""
    rules = (MOVES_JOBS,)
    play = Play({"g": ["m1", "m2"]}, STATIC, moves=replace(BREAK, rules=rules), template=JOB, sends=False)
    play.drain("m1")
    play.until(MovePhase.ADMITTED)
    play.run(after_s)
    play.stage.model.hold()
    play.run(300)
    assert (play.clusters, play.healthy) == ({"m1": 2, "m2": 2}, REPLICAS)
    play.run(2000)
    assert (play.clusters, play.healthy, cause_of(play)) == ({"m1": 2, "m2": 2}, REPLICAS, Cause.JOB_DIVIDED)


@BOTH
@pytest.mark.parametrize("strategy", [STATIC, DUPLICATED], ids=["divided", "duplicated"])
def test_a_job_that_has_finished_does_not_run_again(moves: MovesConfig, strategy: JSON):
    play = Play({"g": ["m1"], "next": ["m2"]}, strategy, moves=replace(moves, rules=(MOVES_JOBS,)), template=JOB)
    play.stage.model.members.finish(JOB)
    play.run(30)
    play.drain("m1")
    play.run(300)
    assert (play.clusters, cause_of(play)) == ({"m1": 4}, Cause.JOB_FINISHED)
    assert play.stage.works(JOB).keys() == {"m1"}


def test_a_job_that_finishes_in_the_middle_of_a_move_starts_nowhere_and_the_move_ends():
    play = Play({"g": ["m1", "m2", "m3"]}, DUPLICATED, moves=replace(BREAK, rules=(MOVES_JOBS,)), template=JOB)
    play.drain("m1")
    play.run(600)
    play.drain("m3")
    play.until(MovePhase.ADMITTED)
    play.stage.model.members.finish(JOB)
    play.stage.edit(cluster("m1"), spec={"taints": []})  # it belongs to the target now
    play.until(MovePhase.RELEASED)
    assert (play.clusters, play.stage.works(JOB).keys(), play.move.message) == ({"m2": 4}, {"m2"}, "")


@BOTH
def test_a_duplicated_job_that_runs_starts_again_on_its_next_cluster(moves: MovesConfig):
    play = Play({"g": ["m1"], "next": ["m2"]}, DUPLICATED, moves=replace(moves, rules=(MOVES_JOBS,)), template=JOB)
    play.drain("m1")
    play.run(600)
    assert (play.clusters, play.healthy, play.stage.works(JOB).keys()) == ({"m2": 4}, REPLICAS, {"m2"})


@pytest.mark.parametrize("phase", [MovePhase.SURGING, MovePhase.SOAKING])
def test_a_job_that_finishes_while_it_moves_is_not_run_again(phase: MovePhase):
    rule = structs.replace(MOVES_JOBS, strategy=MoveStrategy.MAKE_BEFORE_BREAK)
    play = Play({"g": ["m1"], "next": ["m2"]}, DUPLICATED, moves=replace(ON, rules=(rule,)), template=JOB)
    play.drain("m1")
    play.until(phase)
    play.stage.model.members.finish(JOB, "m1")
    play.run(30)
    assert (play.clusters, play.move.phase) == ({"m1": 4}, MovePhase.ROLLED_BACK)
    play.run(2000)
    assert (play.clusters, cause_of(play), play.stage.works(JOB).keys()) == ({"m1": 4}, Cause.JOB_FINISHED, {"m1"})


# Volumes


MOUNTED: JSON = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
CLAIM: JSON = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}}
MAY_BE_LOST = {"policy.berthmaster.io/move-volumes": "MayBeLost"}


def with_a_claim(moves: MovesConfig, **spec: Any) -> Play:
    """Return a play whose workload has a claim that follows it."""
    template, groups = deployment("web", REPLICAS, **MOUNTED), {"g": ["m1"], "next": ["m2"]}
    play = Play(groups, STATIC, moves=moves, template=template, claim=CLAIM, propagateDeps=True, **spec)
    play.watch()
    return play


@BOTH
def test_a_workload_with_volumes_stays_unless_its_policy_says_that_they_may_be_lost(moves: MovesConfig):
    play = with_a_claim(moves)
    play.drain("m1")
    play.run(600)
    assert (play.clusters, play.lowest, cause_of(play)) == ({"m1": 4}, REPLICAS, Cause.VOLUMES)
    play.stage.edit(play.policy, metadata={"annotations": MAY_BE_LOST})
    play.run(600)
    assert (play.clusters, play.healthy) == ({"m2": 4}, REPLICAS)


def test_a_group_without_room_for_a_scale_costs_no_volume():
    """Another group has room, but the copy that runs would be removed there."""
    play = with_a_claim(ON)
    play.place({"other": ["m2"], "g": ["m1"]}, replicaScheduling=DYNAMIC)
    play.run(60)
    play.fill("m1")
    play.stage.scale(play.template, 8)
    play.run(900)
    assert play.clusters == {"m1": 4}
    play.stage.edit(play.policy, metadata={"annotations": MAY_BE_LOST})
    play.run(600)
    assert (play.clusters, play.healthy) == ({"m2": 8}, 8)


def test_a_failover_loses_no_volume_unasked():
    play = with_a_claim(ON)
    play.stage.model.members.lose("m1")
    play.run(300)
    play.stage.model.members.recover("m1")
    play.run(300)
    assert (play.clusters, play.healthy, play.stage.model.members.harm) == ({"m1": 4}, REPLICAS, [])


def test_a_scale_to_zero_stops_a_workload_with_volumes_whose_failover_has_not_ended():
    """A failover begins if a workload is scaled to zero and back while its old pods end."""
    play = with_a_claim(replace(BREAK, defaults=replace(BREAK.defaults, soak_s=60)))
    play.stage.model.members.delays = replace(play.stage.model.members.delays, terminate_s=25)
    play.stage.scale(play.template, 0)
    play.run(10)
    play.stage.scale(play.template, 4)
    play.until(MovePhase.SOAKING)
    play.stage.scale(play.template, 0)
    play.run(5)
    assert (play.clusters, play.move.phase) == ({}, MovePhase.RELEASED)
    play.stage.scale(play.template, 4)
    play.run(300)
    assert (play.clusters, play.healthy) == ({"m1": 4}, 4)


@BOTH
def test_a_stateful_set_with_claims_of_its_own_stays(moves: MovesConfig):
    template = {**WEB, "kind": "StatefulSet"}
    template["spec"] = {**WEB["spec"], "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, moves=moves, template=template)
    play.drain("m1")
    play.run(600)
    assert (play.clusters, cause_of(play)) == ({"m1": 4}, Cause.VOLUMES)


@BOTH
def test_a_workload_whose_copies_karmada_has_not_sent_yet_does_not_leave_its_volumes(moves: MovesConfig):
    """No Work says what the copies will have. A union could not end once they have it."""
    play = with_a_claim(moves, sends=False)
    play.drain("m1")
    play.run(300)
    assert (play.stage.works(play.template), play.clusters, cause_of(play)) == ({}, {"m1": 4}, Cause.VOLUMES)
    play.stage.model.hold()
    play.run(600)
    assert (play.clusters, play.healthy, cause_of(play)) == ({"m1": 4}, REPLICAS, Cause.VOLUMES)


@pytest.mark.parametrize("volumes", [True, False])
def test_a_template_that_cannot_be_read_keeps_a_move_from_beginning_until_there_is_a_work(*, volumes: bool):
    groups = {"g": ["m1"], "next": ["m2"]}
    play = with_a_claim(ON, sends=False) if volumes else Play(groups, STATIC, sends=False)

    def refuse(request: APIRequest) -> None:
        if request.path.endswith("/deployments/web"):
            raise ApiError(403, "Forbidden", "cannot get deployments")

    play.stage.api.before = refuse
    play.drain("m1")
    play.run(60)
    assert cause_of(play) is Cause.WORKS_UNREAD
    assert play.move.message.startswith("Karmada has written no Work, and the Deployment shop/web cannot be read")
    play.stage.model.hold()
    play.run(600)
    assert (play.clusters, play.healthy) == ({"m1" if volumes else "m2": 4}, REPLICAS)


# What others need


CRD: JSON = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "basins.example.org"},
    "spec": {"group": "example.org", "names": {"kind": "Basin", "plural": "basins"}},
}  # fmt: skip
BASINS: list[JSON] = [
    {"apiVersion": "example.org/v1", "kind": "Basin", "metadata": {"name": f"b{number}", "namespace": "shop"},
     "spec": {"litres": number}}
    for number in range(3)
]  # fmt: skip
SETTINGS_MAP = resource("settings", "ConfigMap")
ACCOUNT = resource("runner", "ServiceAccount")
POD: JSON = {"serviceAccountName": "runner", "volumes": [{"name": "s", "configMap": {"name": "settings"}}]}
NEEDY = deployment("web", REPLICAS, **POD)


def needed(limit: int, moves: MovesConfig = ON) -> Stage:
    """Return a stage whose resources are in m1, and may go to m2."""
    groups = {"clusterAffinities": terms_of({"g": ["m1"], "next": ["m2"]})}
    everywhere = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}
    own = {"schedulerName": "berthmaster"}
    selectors = [selector("ConfigMap", "v1"), selector("ServiceAccount", "v1"), selector("Basin", "example.org/v1")]
    stage = Stage(
        *(cluster(name) for name in ("m1", "m2")),
        policy("crd", selector(CRD["kind"], CRD["apiVersion"]), namespace="", placement=everywhere, **own),
        policy("needs", *selectors, placement=groups, **own),
        policy("web", selector(name="web"), placement={**groups, "replicaScheduling": STATIC}, **own),
        CRD, *BASINS, SETTINGS_MAP, ACCOUNT, NEEDY,
        settings=SETTINGS, moves=replace(moves, budgets=(Budget("all", max_moves=limit),)),
    )  # fmt: skip
    stage.run(60)
    assert stage.model.members.healthy(NEEDY) == {"m1": REPLICAS}
    return stage


def start_drain(stage: Stage, name: str) -> None:
    stage.edit(cluster(name), spec={"taints": [{"key": DRAINING, "effect": "NoSchedule"}]})


@BOTH
@pytest.mark.parametrize("limit", [1, 2, 20])
def test_what_others_need_leaves_a_drained_cluster_last(moves: MovesConfig, limit: int):
    stage = needed(limit, moves)
    start_drain(stage, "m1")
    stage.run(3000)
    placed = {each["metadata"]["name"]: stage.assignment(each) for each in (CRD, *BASINS, SETTINGS_MAP, ACCOUNT)}
    assert all(found.keys() == {"m2"} for found in placed.values()), placed
    assert stage.assignment(NEEDY) == {"m2": REPLICAS}
    assert stage.model.members.harm == []


@BOTH
def test_what_a_workload_needs_stays_with_it_while_it_cannot_leave(moves: MovesConfig):
    stage = needed(1, moves)
    stage.model.members.break_workload("m2", "web")
    start_drain(stage, "m1")
    stage.run(3000)
    for each in (SETTINGS_MAP, ACCOUNT):
        assert stage.assignment(each).keys() == {"m1", "m2"}
        state = decode_json(MoveState, (stage.binding(each) or {})["metadata"]["annotations"][MOVE])
        assert (state.cause, state.phase) == ("needed", MovePhase.SOAKING)
        assert "shop/Deployment/web on m1" in state.message
    assert stage.assignment(CRD).keys() == {"m2"}, "no custom resource is left there"
    assert stage.model.members.harm == []
    stage.model.members.mend()
    while stage.assignment(NEEDY) != {"m2": REPLICAS}:
        stage.run(5)
    stage.run(200)
    assert stage.assignment(SETTINGS_MAP).keys() == {"m2"}, "it waits no longer than for what needs it"
    assert stage.model.members.harm == []


def test_what_a_workload_needs_stays_with_it_while_its_cluster_is_silent():
    """Its pods run there, and Karmada deletes what it needs when the cluster is back."""
    stage = needed(20)
    stage.model.members.break_workload("m2", "web")
    start_drain(stage, "m1")
    stage.run(100)
    stage.model.members.lose("m1")
    stage.run(200)
    assert stage.assignment(SETTINGS_MAP).keys() == {"m1", "m2"}
    stage.model.members.recover("m1", pods_ran=True)
    stage.run(100)
    assert stage.model.members.harm == []


# Replicas that the member decides


@BOTH
def test_a_member_that_decides_the_replicas_must_have_them_before_the_others_go(moves: MovesConfig):
    template = {**WEB, "metadata": {**WEB["metadata"], "labels": RETAINED}}
    play = Play({"g": ["m1", "m2"]}, STATIC, moves=moves, template=template)
    assert play.clusters == {"m1": 2, "m2": 2}
    play.watch()
    play.drain("m1")
    play.run(1500)
    assert (play.clusters, play.lowest) == ({"m1": 2, "m2": 2}, REPLICAS)
    assert cause_of(play) is Cause.REPLICAS_RETAINED


def test_a_member_that_keeps_fewer_replicas_where_nothing_starts_does_not_keep_a_move_from_its_next_phase():
    template = {**WEB, "metadata": {**WEB["metadata"], "labels": RETAINED}}
    play = Play({"g": ["m1", "m2"]}, DUPLICATED, moves=BREAK, template=template)
    play.drain("m1")
    play.until(MovePhase.ADMITTED)
    play.stage.model.members.autoscale("m2", template, 3)
    play.until(MovePhase.SURGING)
    assert play.clusters == {"m2": 4}


def test_a_workload_without_copies_goes_to_another_group_if_dispatching_to_its_target_and_its_source_is_suspended():
    play = Play({"g": ["m1"], "next": ["m2"], "last": ["m3"]}, STATIC, moves=BREAK)
    play.drain("m1")
    play.until(MovePhase.ADMITTED)
    twice = Twice(play)
    play.amend(suspension=on("m1", "m2"))
    twice.run(300)
    assert (play.clusters, play.healthy, twice.seen) == ({"m3": 4}, REPLICAS, False)
