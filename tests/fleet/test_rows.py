"""What a real Karmada with real members showed once, each as a scenario."""

import subprocess
import time

import pytest
from e2e.controllers_process import COMMAND
from fleet.fleet import Fleet
from fleet.member import Pods

pytestmark = pytest.mark.e2e

OUTAGE_S = 70.0
"""Karmada tries to end the deletion of a Work 82 s and 164 s after it began. The cluster is ready after the first."""


def test_a_failback_after_an_outage_keeps_its_copies(fleet: Fleet):
    """The Work of a lost cluster stays in deletion, and Karmada ends that only after the cluster has returned."""
    fleet.berthmaster()
    fleet.run("outage", 2, ["m1"], ["m2"])
    fleet.until_ready("outage", {"m1": 2})
    fleet.kill("m1")
    fleet.until_ready("outage", {"m2": 2})
    time.sleep(OUTAGE_S)
    fleet.recover("m1")
    fleet.until_ready("outage", {"m1": 2}, 300)
    time.sleep(90)
    fleet.until_ready("outage", {"m1": 2})


def test_an_edit_of_another_group_begins_no_loop_of_moves(fleet: Fleet):
    fleet.berthmaster()
    fleet.run("groups", 5, ["m1"], ["m2"])
    fleet.until_ready("groups", {"m1": 5})
    fleet.place("groups", ["m1"], ["m2", "m3"])
    time.sleep(3)
    fleet.drain("m1")
    fleet.until("the drain", lambda: not fleet.ready("groups").get("m1"), 240)
    fleet.place("groups", ["m1", "m2"], ["m3"])
    fleet.drain("m1", on=False)
    fleet.until("the failback", lambda: set(fleet.ready("groups")) <= {"m1", "m2"}, 240)


@pytest.mark.parametrize("strategy", ["", "BreakBeforeMake"])
def test_a_stateful_set_moves(fleet: Fleet, strategy: str):
    app = f"state{strategy.lower()}"
    fleet.berthmaster()
    fleet.run(app, 3, ["m1"], ["m2"], kind="StatefulSet", strategy=strategy)
    fleet.until_ready(app, {"m1": 3})
    fleet.drain("m1")
    fleet.until_ready(app, {"m2": 3}, 240)
    fleet.until("the end of the move", lambda: not fleet.moves(app))


def test_break_before_make_waits_for_the_grace_period(fleet: Fleet):
    fleet.berthmaster()
    fleet.treat("m1", Pods.LINGERING)
    fleet.run("grace", 2, ["m1"], ["m2"], strategy="BreakBeforeMake", grace_s=45)
    fleet.until_ready("grace", {"m1": 2})
    fleet.drain("m1")
    fleet.until_ready("grace", {"m2": 2}, 240)


def test_break_before_make_waits_while_its_source_is_frozen(fleet: Fleet):
    """The freeze is too short for Karmada to notice."""
    fleet.berthmaster()
    fleet.run("frozen", 2, ["m1"], ["m2"], strategy="BreakBeforeMake")
    fleet.until_ready("frozen", {"m1": 2})
    fleet.freeze("m1")
    fleet.drain("m1")
    fleet.until_phase("frozen", "Admitted")
    time.sleep(10)
    fleet.recover("m1")
    fleet.until_ready("frozen", {"m2": 2}, 240)


def test_a_restart_of_karmada_is_no_proof_that_a_copy_is_gone(fleet: Fleet):
    fleet.berthmaster()
    fleet.treat("m1", Pods.LINGERING)
    fleet.run("reports", 2, ["m1"], ["m2"], strategy="BreakBeforeMake", grace_s=45)
    fleet.until_ready("reports", {"m1": 2})
    fleet.drain("m1")
    fleet.until_phase("reports", "Admitted")
    fleet.restart_karmada()
    fleet.until_ready("reports", {"m2": 2}, 240)


def test_break_before_make_returns_from_a_target_that_is_lost(fleet: Fleet):
    fleet.berthmaster()
    fleet.run("target", 2, ["m1"], ["m2"], strategy="BreakBeforeMake")
    fleet.until_ready("target", {"m1": 2})
    fleet.kill("m2")
    fleet.drain("m1")
    fleet.until_phase("target", "Admitted", "Surging")
    fleet.until_ready("target", {})
    fleet.until_ready("target", {"m1": 2}, 240)


def test_a_move_ends_without_its_policy(fleet: Fleet):
    fleet.berthmaster()
    fleet.treat("m2", Pods.SLOW)
    fleet.run("orphan", 3, ["m1"], ["m2"])
    fleet.until_ready("orphan", {"m1": 3})
    fleet.drain("m1")
    fleet.until_phase("orphan", "Surging")
    fleet.remove("orphan")
    fleet.until("the end of the move", lambda: not fleet.moves("orphan"), 240)
    fleet.until("three pods", lambda: sum(fleet.ready("orphan").values()) == 3, 60)


def test_a_target_that_begins_to_drain_is_left(fleet: Fleet):
    """The workload is moved to the last cluster with at most one outage."""
    fleet.berthmaster()
    fleet.run("further", 2, ["m1"], ["m2"], ["m3"], strategy="BreakBeforeMake")
    fleet.until_ready("further", {"m1": 2})
    fleet.drain("m1")
    fleet.until_phase("further", "Admitted")
    fleet.drain("m2")
    fleet.until_ready("further", {"m3": 2}, 240)
    assert fleet.outages("further") <= 1


def test_the_brake_stops_no_return_to_the_source(fleet: Fleet):
    fleet.berthmaster(
        brake={"enabled": True, "unhealthyPercent": 30, "minClusters": 2, "window": "5m", "settle": "30s"}
    )
    fleet.run("braked", 2, ["m1"], ["m2"], strategy="BreakBeforeMake")
    fleet.until_ready("braked", {"m1": 2})
    fleet.drain("m1")
    fleet.until_phase("braked", "Admitted")
    for name in ("m2", "m3"):
        fleet.kill(name)
    fleet.until_ready("braked", {})
    fleet.until_ready("braked", {"m1": 2}, 240)


def test_after_an_outage_of_the_api_server_no_move_releases_before_the_brake_ends(fleet: Fleet):
    settle_s = 40
    fleet.berthmaster(soak="20s", brake={"enabled": True, "settle": f"{settle_s}s"})
    fleet.run("apiless", 2, ["m1"], ["m2"])
    fleet.until_ready("apiless", {"m1": 2})
    fleet.drain("m1")
    fleet.until_phase("apiless", "Soaking")
    fleet.lose_host(25.0)
    returned_s = time.monotonic()
    fleet.until_ready("apiless", {"m2": 2}, 240)
    assert time.monotonic() - returned_s > settle_s - 5


def test_the_ledger_decides_the_same_again(fleet: Fleet):
    """It is the last test: its ledger has the moves of all tests before."""
    fleet.berthmaster()
    command = [COMMAND[0], "replay", "--check", f"--ledger={fleet.ledger}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
