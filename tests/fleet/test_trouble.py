"""Moves in trouble, on members that run pods: what must not be lost, doubled, or stay at zero."""

import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from fleet.chaos import JOBS_MOVE
from fleet.fleet import QUIET_S, Fleet
from fleet.member import SPACE, Pods, is_finished, refusing
from fleet.real_karmada import FAILOVER
from kube_store import JSON

from berthmaster.controllers.run import EXIT_LOST
from berthmaster.kube.source_check import INTERVAL_S
from berthmaster.model.move import MOVE

pytestmark = pytest.mark.e2e

BREAK: Final = "BreakBeforeMake"
DEADLINE_S: Final = 45
SOAK_S: Final = 15
GRACE_S: Final = 30
"""How long the pods of an old copy may take to end, at least."""
BACK_S: Final = 100.0
"""How long a way to another cluster, and back, may take after what stopped it has ended."""
QUICK: Final[dict[str, Any]] = {"deadline": f"{DEADLINE_S}s", "soak": f"{SOAK_S}s"}


@pytest.fixture
def quick(fleet: Fleet) -> Fleet:
    """The fleet with a short deadline, and a soak that is long enough to do something in it."""
    fleet.berthmaster(**QUICK)
    return fleet


def running(fleet: Fleet, app: str, replicas: int = 3, *groups: tuple[str, ...], **more: Any) -> JSON:
    """Run a workload in m1, or then in m2, that must not run twice, and wait until it is ready."""
    workload = fleet.run(app, replicas, *(groups or (("m1",), ("m2",))), **{"strategy": BREAK, **more})
    fleet.until(f"{app} runs", lambda: sum(fleet.ready(app).values()) == replicas)
    return workload


# Nothing is at zero without end


@pytest.mark.parametrize("purge_mode", ["Gracefully", "Directly"])
def test_a_target_that_karmada_evicts_is_left_for_the_source(quick: Fleet, purge_mode: str):
    _real_only(quick)
    quick.restart_karmada(FAILOVER)
    try:
        app = f"sluice{purge_mode.lower()}"
        behavior = {"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": purge_mode}
        running(quick, app, policy_spec={"propagateDeps": True, "failover": {"application": behavior}})
        quick.treat("m2", Pods.STUCK)
        quick.drain("m1")
        quick.until(f"{app} leaves m1", lambda: not quick.ready(app))
        quick.until_ready(app, {"m1": 3}, DEADLINE_S + 2 * GRACE_S + BACK_S)
        assert not quick.twice(app)
    finally:
        quick.restart_karmada()


def test_targets_that_are_lost_or_deleted_while_their_copies_start_are_left(quick: Fleet):
    """One workload starts in a cluster that is lost, and one in a cluster that is deleted. They return home."""
    running(quick, "castoff")
    running(quick, "unmoored", 3, ("m1",), ("m3",))
    for name in ("m2", "m3"):
        quick.treat(name, Pods.STUCK)
    quick.drain("m1")
    for app in ("castoff", "unmoored"):
        quick.until_phase(app, "Surging")
    quick.kill("m2")
    quick.forget("m3")
    try:
        for app in ("castoff", "unmoored"):
            quick.until_ready(app, {"m1": 3}, 2 * BACK_S)
    finally:
        quick.drain("m1", on=False)
        quick.recover("m2")
        quick.rejoin("m3")
    for app in ("castoff", "unmoored"):
        quick.until(f"{app} is at rest", lambda app=app: not quick.unrest(app))


def test_a_target_that_is_drained_and_then_deleted_is_left(quick: Fleet):
    running(quick, "evacuee")
    quick.treat("m2", Pods.STUCK)
    quick.drain("m1")
    quick.until_phase("evacuee", "Surging")
    quick.drain("m2")
    time.sleep(2)
    quick.forget("m2")
    try:
        quick.until_ready("evacuee", {"m1": 3}, BACK_S)
    finally:
        quick.drain("m1", on=False)
        quick.rejoin("m2")
    quick.until("it is at rest", lambda: not quick.unrest("evacuee"))


def test_a_target_stays_while_karmada_waits_for_a_lost_cluster(quick: Fleet):
    """Karmada writes no new copy before the one that is evicted with the purge mode Directly is gone."""
    _real_only(quick)
    policy = {"failover": {"cluster": {"purgeMode": "Directly"}}}
    running(quick, "purged", 3, ("m1",), ("m2", "m3"), policy_spec=policy)
    quick.kill("m1")
    quick.until("another cluster is chosen", lambda: quick.assigned("purged").keys() - {"m1"}, 60)
    chosen = quick.assigned("purged")
    time.sleep(DEADLINE_S + GRACE_S)
    assert (quick.assigned("purged"), quick.ready("purged")) == (chosen, {})
    quick.recover("m1")
    quick.until("it runs", lambda: sum(quick.ready("purged").values()) == 3, 300)


def test_a_backup_that_is_lost_returns_to_the_primary(quick: Fleet):
    running(quick, "backup", 2, strategy="")
    quick.kill("m1")
    quick.until_ready("backup", {"m2": 2})
    quick.recover("m1")
    quick.until("m1 is ready", lambda: quick.is_ready("m1"))
    quick.kill("m2")
    quick.until_ready("backup", {"m1": 2}, 90)


@pytest.mark.parametrize("strategy", ["", BREAK])
def test_a_source_that_is_lost_at_the_deadline_serves_again_when_it_is_back(quick: Fleet, strategy: str):
    app = f"deadline{strategy.lower()}"
    running(quick, app, strategy=strategy)
    quick.treat("m2", Pods.STUCK)
    quick.drain("m1")
    quick.until_phase(app, "Surging")
    time.sleep(DEADLINE_S - 25)
    quick.kill("m1")
    time.sleep(60)
    quick.recover("m1")
    quick.until_ready(app, {"m1": 3}, BACK_S)
    quick.until("the end of the move", lambda: not quick.moves(app), BACK_S)


def test_scales_without_end_do_not_move_the_deadline(quick: Fleet):
    workload = running(quick, "scaling")
    quick.treat("m2", Pods.STUCK)
    quick.drain("m1")
    quick.until_phase("scaling", "Surging")
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + DEADLINE_S + GRACE_S + 40 and not quick.ready("scaling").get("m1"):
        quick.edit(workload, replicas=3 + int(time.monotonic() / 10) % 2)
        time.sleep(10)
    quick.until("pods in m1", lambda: quick.ready("scaling").get("m1", 0) >= 3, 30)


def test_a_target_that_gains_a_cluster_starts_it_at_once(quick: Fleet):
    workload = running(quick, "gains", 1, ("m1",), ("m2", "m3"), cpu="3")
    quick.drain("m1")
    quick.until_phase("gains", "Surging")
    quick.edit(workload, replicas=4)
    quick.until_ready("gains", {"m2": 2, "m3": 2}, 60)
    quick.until("the end of the move", lambda: not quick.moves("gains"))


def test_old_copies_that_went_during_an_outage_of_the_controllers_do_not_return(quick: Fleet):
    quick.treat("m1", Pods.LINGERING)
    running(quick, "outlived", grace_s=10)
    quick.drain("m1")
    quick.until_phase("outlived", "Admitted")
    quick.kill_berthmaster()
    time.sleep(DEADLINE_S + GRACE_S + 5)
    quick.start_berthmaster()
    quick.until_ready("outlived", {"m2": 3}, QUIET_S + BACK_S)
    assert quick.works("outlived", "m1").count("alive") == 1


def test_a_target_that_refuses_is_left_before_the_deadline(fleet: Fleet):
    """The member's API server refuses it. The way back takes less time than the deadline."""
    fleet.berthmaster(**{**QUICK, "deadline": "5m"})
    running(fleet, "refused")
    with refusing(fleet.members["m2"], "CREATE"):
        fleet.drain("m1")
        fleet.until("it leaves m1", lambda: not fleet.ready("refused"))
        fleet.until_ready("refused", {"m1": 3}, 200)
    fleet.until_ready("refused", {"m2": 3}, 240)


def test_a_workload_that_cannot_leave_is_not_restored_until_it_has(quick: Fleet):
    """The member refuses to delete it, so Karmada deletes it some time later."""
    running(quick, "sticky")
    with refusing(quick.members["m1"], "DELETE"):
        quick.drain("m1")
        quick.until_phase("sticky", "Admitted")
        time.sleep(DEADLINE_S + GRACE_S + 25)
        assert quick.ready("sticky") == {"m1": 3}
        assert quick.moves("sticky"), "its Work is being deleted, so it cannot stay"
    quick.drain("m1", on=False)
    quick.until("it is at rest", lambda: not quick.unrest("sticky"), 240)
    before = len(quick.observer.lines)
    time.sleep(70)
    assert not [each for each in quick.observer.lines[before:] if "ready" in each], "nothing goes afterwards"
    assert quick.ready("sticky") == {"m1": 3}


# Healthy new copies stay


def pause(fleet: Fleet, app: str) -> None:
    fleet.annotate(app, pause_moves="All")


def pause_all(fleet: Fleet, _app: str) -> None:
    fleet.configure(pause="All")
    time.sleep(8)


def use_up(fleet: Fleet, _app: str) -> None:
    fleet.configure(budgets=[{"name": "none", "maxMoves": 0}])
    time.sleep(8)


@pytest.mark.parametrize("close", [pause, pause_all, use_up])
def test_a_scale_that_is_not_admitted_takes_no_healthy_copy_down(quick: Fleet, close: Callable[[Fleet, str], None]):
    app = f"crane{close.__name__.replace('_', '')}"
    workload = running(quick, app)
    quick.drain("m1")
    quick.until_phase(app, "Soaking")
    close(quick, app)
    try:
        quick.edit(workload, replicas=4)
        quick.until_ready(app, {"m2": 4})
        quick.until("the end of the move", lambda: not quick.moves(app))
    finally:
        quick.configure(pause="None", budgets=[])


def test_pods_that_are_not_ready_for_a_moment_take_no_copy_down(quick: Fleet):
    running(quick, "blinks")
    quick.drain("m1")
    quick.until_phase("blinks", "Soaking")
    quick.treat("m2", Pods.FAILING)
    quick.until("a failed pod", lambda: quick.ready("blinks").get("m2", 0) < 3, 30)
    quick.treat("m2", Pods.NORMAL)
    quick.until_ready("blinks", {"m2": 3}, 30)
    quick.until("the end of the move", lambda: not quick.moves("blinks"))
    assert quick.works("blinks", "m2") == ["alive"]


# Nothing runs twice


def test_a_scale_to_zero_and_back_while_the_old_copies_go(quick: Fleet):
    quick.treat("m1", Pods.LINGERING)
    workload = running(quick, "zero", grace_s=20)
    quick.drain("m1")
    quick.until_phase("zero", "Admitted")
    quick.edit(workload, replicas=0)
    time.sleep(3)
    quick.edit(workload, replicas=3)
    quick.until_ready("zero", {"m2": 3}, BACK_S)
    assert not quick.twice("zero")


def test_a_record_that_another_client_removes_starts_nothing_beside_pods_that_end(quick: Fleet):
    quick.treat("m1", Pods.LINGERING)
    running(quick, "erased", grace_s=25)
    quick.drain("m1")
    quick.until_phase("erased", "Admitted")
    quick.until("its Work is gone", lambda: quick.works("erased", "m1")[-1] == "gone")
    binding = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
               "metadata": {"name": "erased-deployment", "namespace": SPACE}}  # fmt: skip
    quick.api.patch(binding, {"metadata": {"annotations": {MOVE: None}}})
    quick.until_ready("erased", {"m2": 3}, BACK_S)
    assert not quick.twice("erased")


def test_a_copy_that_karmada_has_not_seen_yet_stays(quick: Fleet):
    """After an outage Karmada connects to a cluster again some time later, and deletes only what it has seen there."""
    _real_only(quick)
    quick.kill("m1")
    time.sleep(60)
    quick.recover("m1")
    quick.until("m1 is ready", lambda: quick.is_ready("m1"))
    running(quick, "unseen")
    quick.drain("m1")
    quick.until_ready("unseen", {"m2": 3}, 2 * BACK_S)
    assert not quick.twice("unseen")


def test_a_finalizer_in_the_member_is_not_known(quick: Fleet):
    """Karmada removes the Work at once. The old pods run on, as docs/moves-trouble.md says."""
    workload = running(quick, "finalized")
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    quick.members["m1"].plane.api.patch(workload, held)
    try:
        quick.drain("m1")
        quick.until_phase("finalized", "Surging")
        quick.note("finalizer", app="finalized")  # it excuses what follows
        quick.until_ready_in("finalized", "m2", 3)
    finally:
        quick.members["m1"].plane.api.patch(workload, {"metadata": {"finalizers": None}})


def test_a_target_that_begins_to_drain_gets_no_copies(quick: Fleet):
    quick.treat("m1", Pods.LINGERING)
    running(quick, "nowhere", grace_s=20)
    quick.drain("m1")
    quick.until_phase("nowhere", "Admitted")
    quick.drain("m2")
    quick.drain("m1", on=False)
    quick.until_ready("nowhere", {"m1": 3}, BACK_S)
    assert not quick.works("nowhere", "m2")


def test_a_union_holds_up_no_deletion_of_a_cluster(quick: Fleet):
    """Karmada deletes the copies there at once."""
    quick.treat("m2", Pods.STUCK)
    running(quick, "unjoined", strategy="")
    quick.drain("m1")
    quick.until_phase("unjoined", "Surging")
    quick.forget("m1")
    try:
        quick.until("the Cluster is gone", lambda: not quick.joined("m1"), 60)
        quick.treat("m2", Pods.NORMAL)
        quick.until_ready("unjoined", {"m2": 3}, BACK_S)
    finally:
        quick.rejoin("m1")


# Jobs


def test_a_job_that_finishes_while_it_moves_is_not_run_again(fleet: Fleet):
    """Jobs that may run twice start again elsewhere. One that ends before the new copies have replaced it has ended."""
    fleet.berthmaster(**QUICK, rules=[JOBS_MOVE])
    twice: JSON = {"kind": "Job", "duplicated": True, "strategy": "MakeBeforeBreak", "more": {"completions": 2}}
    running(fleet, "batch", 2, **twice)
    ending = running(fleet, "ending", 2, **twice)
    fleet.drain("m1")
    fleet.until_phase("ending", "Soaking")
    fleet.finish("ending", "m1")
    fleet.until_ready("batch", {"m2": 2}, DEADLINE_S + BACK_S)
    fleet.until("the other Job has ended", lambda: not fleet.moves("ending"), DEADLINE_S + BACK_S)
    assert fleet.move("ending")["phase"] == "RolledBack"
    fleet.until("the Job has finished", lambda: is_finished(fleet.api.get(ending)), 60)
    assert not fleet.ready("ending")


# Quotas


def test_the_quota_that_a_move_gives_up_stays_its_own(quick: Fleet):
    _real_only(quick)
    running(quick, "buoy", cpu="50m")
    quick.limit("150m")
    quick.run("waiting", 2, ("m1",), ("m2",), cpu="50m")
    quick.drain("m1")
    quick.until_ready("buoy", {"m2": 3}, BACK_S)
    assert not quick.assigned("waiting")
    assert quick.low_s("buoy", 3) < 2 * GRACE_S + 30, "it waits twice if m1 has joined just before"


def test_a_quota_below_the_use_keeps_the_copies(quick: Fleet):
    _real_only(quick)
    running(quick, "lowered", cpu="50m")
    quick.limit("100m")
    quick.drain("m1")
    quick.until("its cause", lambda: quick.move("lowered").get("cause") == "quota")
    time.sleep(30)
    assert quick.ready("lowered") == {"m1": 3}
    quick.limit(None)
    quick.until_ready("lowered", {"m2": 3}, BACK_S)


def test_a_failover_whose_union_exceeds_a_quota_happens(quick: Fleet):
    _real_only(quick)
    running(quick, "exceeds", 4, ("m1", "m2"), ("m3",), cpu="1500m", strategy="", dynamic=True)
    assert set(quick.ready("exceeds")) == {"m1", "m2"}
    quick.run("filler", 1, ("m2",), cpu="3500m")  # it leaves room for three replicas
    quick.until_ready("filler", {"m2": 1})
    time.sleep(15)  # Karmada reports what is free
    quick.limit("10")
    quick.kill("m1")
    quick.until_ready("exceeds", {"m3": 4}, 150)


def test_a_union_whose_release_a_quota_refuses_is_reported(quick: Fleet):
    _real_only(quick)
    running(quick, "union", cpu="50m", strategy="")
    quick.treat("m2", Pods.SLOW)
    quick.drain("m1")
    quick.until_phase("union", "Surging")
    quick.limit("100m")
    quick.until("an event about the quota", lambda: _events(quick, "union", "FederatedResourceQuota"), 150)
    assert quick.move("union")["cause"] == "refused"
    quick.limit(None)
    quick.until_ready("union", {"m2": 3}, BACK_S)


# Leaders


def test_a_new_leader_begins_nothing_by_an_older_file(fleet: Fleet):
    fleet.berthmaster(**QUICK)
    running(fleet, "older", 2, strategy="")
    fleet.start_berthmaster()
    fleet.until("a standby", fleet.controllers[-1].ready)
    fleet.configure(pause="All")
    fleet.controllers[0].process.kill()
    fleet.controllers.pop(0)
    try:
        fleet.drain("m1")
        fleet.until("the standby leads", lambda: fleet.controllers[-1].leading, 60)
        fleet.until("its cause", lambda: fleet.move("older").get("cause") in ("paused", "starting"))
        time.sleep(QUIET_S + 15)
        assert fleet.ready("older") == {"m1": 2}
        assert fleet.move("older")["cause"] == "paused"
    finally:
        fleet.configure(pause="None")
    fleet.until_ready("older", {"m2": 2}, BACK_S)


def test_two_controllers_end_after_a_restore_of_etcd_and_the_next_one_works(fleet: Fleet):
    """A drain after the backup is lost. Its copies run on without a Work until the workload returns to them."""
    fleet.berthmaster(**QUICK)
    running(fleet, "restored", 2, strategy="")
    fleet.kill_berthmaster()
    fleet.host.back_up()
    for _ in range(2):
        fleet.start_berthmaster()
    fleet.until("a leader", lambda: any(each.leading for each in fleet.controllers))
    fleet.drain("m1")
    fleet.until_ready("restored", {"m2": 2}, QUIET_S + BACK_S)
    fleet.restore_host()
    assert [each.process.wait(4 * INTERVAL_S) for each in fleet.controllers] == [EXIT_LOST, EXIT_LOST]
    fleet.controllers.clear()
    fleet.start_berthmaster()
    fleet.until_ready("restored", {"m1": 2, "m2": 2})
    assert fleet.assigned("restored") == {"m1": 2}, "no Work stands for the copies in m2"
    fleet.drain("m1")
    fleet.until_ready("restored", {"m2": 2}, QUIET_S + BACK_S)
    fleet.until("the end of the move", lambda: not fleet.moves("restored"))


def test_a_restore_of_a_members_etcd_takes_new_copies_and_brings_old_ones_back(quick: Fleet):
    """Karmada creates what has vanished. It does not know what has come back, as docs/failures.md says."""
    _real_only(quick)
    running(quick, "vanishing", strategy="")
    running(quick, "ghost", 2, ("m2",), strategy="")
    quick.members["m2"].back_up()
    quick.place("ghost", ("m3",))
    quick.until_ready("ghost", {"m3": 2})
    quick.drain("m1")
    quick.until_phase("vanishing", "Soaking")
    quick.note("vanish", app="vanishing")  # Karmada does not see that the copy is gone until it restarts
    quick.restore("m2")
    quick.until_ready("ghost", {"m2": 2, "m3": 2})
    quick.until_ready("vanishing", {"m2": 3}, BACK_S)
    quick.until("the end of the move", lambda: not quick.moves("vanishing"))
    assert quick.assigned("ghost") == {"m3": 2}


def _events(fleet: Fleet, app: str, text: str) -> list[JSON]:
    """Return the events about a binding whose note has a text."""
    found = fleet.api.list("events.k8s.io/v1", "Event", SPACE)
    return [each for each in found if each["regarding"]["name"].startswith(app) and text in each.get("note", "")]


def _real_only(fleet: Fleet) -> None:
    if not fleet.driver.real:
        pytest.skip("the model of the members has nothing of it")
