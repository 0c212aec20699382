"""What a real Karmada with real members showed once, each as a scenario."""

import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import permutations

import pytest
from e2e.serving import COMMAND
from fleet.chaos import REBALANCE
from fleet.fleet import Fleet
from fleet.karmada_apis import AUTOSCALER, SERVICES, Autoscaler, endpoints, estimators, offer, withdraw
from fleet.member import Pods
from fleet.real_karmada import FAILOVER
from karmada_model.replicas import RETAINED

pytestmark = pytest.mark.e2e

TAINT_MANAGER = "--enable-no-execute-taint-eviction=true"
DEPENDENCIES = {"propagateDeps": True}
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


def test_a_restart_of_karmada_is_no_proof_that_a_copy_is_gone(fleet: Fleet):
    fleet.berthmaster()
    fleet.treat("m1", Pods.LINGERING)
    fleet.run("reports", 2, ["m1"], ["m2"], strategy="BreakBeforeMake", grace_s=45)
    fleet.until_ready("reports", {"m1": 2})
    fleet.drain("m1")
    fleet.until_phase("reports", "Admitted")
    fleet.restart_karmada()
    fleet.until_ready("reports", {"m2": 2}, 240)


def test_after_an_outage_of_the_api_server_no_move_releases_before_the_brake_ends(fleet: Fleet):
    settle_s, lost_s = 40, 25.0
    fleet.berthmaster(soak="20s", brake={"enabled": True, "settle": f"{settle_s}s"})
    fleet.run("apiless", 2, ["m1"], ["m2"])
    fleet.until_ready("apiless", {"m1": 2})
    fleet.drain("m1")
    fleet.until_phase("apiless", "Soaking")
    begun_s = time.monotonic()
    fleet.lose_host(lost_s)
    fleet.until_ready("apiless", {"m2": 2}, 240)
    assert time.monotonic() - begun_s > lost_s + settle_s


def test_a_leader_that_loses_its_lease_ends_its_part_of_the_ledger(fleet: Fleet):
    fleet.berthmaster()
    fleet.run("ledger", 1, ["m1"])
    fleet.until_ready("ledger", {"m1": 1})
    stops = len(fleet.stops())
    (leader,) = fleet.controllers
    fleet.start_berthmaster()
    leader.process.ask_to_stop(signal.SIGSTOP)
    fleet.until("another leader", lambda: fleet.controllers[-1].leading, 60)
    leader.process.ask_to_stop(signal.SIGCONT)
    fleet.until("the end of the former leader", lambda: not leader.process.running, 60)
    fleet.controllers.remove(leader)
    assert len(fleet.stops()) == stops + 1


def test_three_lost_clusters_move_nothing(fleet: Fleet):
    """The brake has its default limits."""
    fleet.berthmaster(brake={})
    for index, names in enumerate(permutations(("m1", "m2", "m3"))):
        fleet.run(f"storm{index}", 2, *([name] for name in names))
    before = [fleet.settled(f"storm{index}") for index in range(6)]
    for name in fleet.members:
        fleet.kill(name)
    time.sleep(60)
    for name in fleet.members:
        fleet.recover(name)
    for index, ready in enumerate(before):
        fleet.until_ready(f"storm{index}", ready)
        assert fleet.works(f"storm{index}") == ["alive"]


def test_copies_that_crash_while_they_soak_are_rolled_back(fleet: Fleet):
    """Each becomes ready, and fails before the end of the soak. The old copies stay."""
    fleet.berthmaster(soak="20s")
    fleet.treat("m2", Pods.CRASHING)
    fleet.run("looping", 2, ["m1"], ["m2"])
    fleet.until_ready("looping", {"m1": 2})
    fleet.drain("m1")
    fleet.until_phase("looping", "RolledBack")
    fleet.until_ready("looping", {"m1": 2})


@pytest.mark.parametrize("strategy", ["", "BreakBeforeMake"])
def test_a_move_changes_no_replicas_that_karmada_takes_from_members(fleet: Fleet, strategy: str):
    """With this label Karmada copies what all members run to the template, as for a HorizontalPodAutoscaler."""
    fleet.restart_karmada("--controllers=*,deploymentReplicasSyncer")
    try:
        fleet.berthmaster()
        app = f"retained{strategy.lower()}"
        fleet.run(app, 2, ["m1"], ["m2"], strategy=strategy, labels=RETAINED)
        fleet.until_ready(app, {"m1": 2})
        fleet.drain("m1")
        fleet.until_ready(app, {"m2": 2}, 240)
        fleet.until("the end of the move", lambda: not fleet.moves(app))
        assert fleet.wanted(app) == {2}
    finally:
        fleet.restart_karmada()


def test_a_move_waits_for_a_quota_with_room_for_both(fleet: Fleet):
    if not _real(fleet):
        pytest.skip("the model enforces no quota")
    fleet.berthmaster()
    fleet.run("limited", 3, ["m1"], ["m2"], cpu="100m")
    fleet.until_ready("limited", {"m1": 3})
    fleet.limit("400m")
    fleet.drain("m1")
    fleet.until("the cause", lambda: fleet.move("limited").get("cause") == "quota")
    assert fleet.ready("limited") == {"m1": 3}
    fleet.limit(None)
    fleet.until_ready("limited", {"m2": 3}, 240)


@pytest.mark.parametrize("when", ["at rest", "in the middle of a move"])
def test_karmadas_taint_manager_evicts_without_a_dip(fleet: Fleet, when: str):
    if not _real(fleet):
        pytest.skip("the model has no taint manager")
    fleet.restart_karmada(TAINT_MANAGER, FAILOVER)
    try:
        fleet.berthmaster()
        app = f"taint{len(when)}"
        fleet.run(app, 2, ["m1"], ["m2"])
        fleet.until_ready(app, {"m1": 2})
        if when != "at rest":
            fleet.treat("m2", Pods.SLOW)
            fleet.drain("m1")
            fleet.until_phase(app, "Surging")
        fleet.evict("m1")
        fleet.until_ready(app, {"m2": 2}, 240)
        fleet.until("the end of the move", lambda: not fleet.moves(app))
        fleet.drain("m1", on=False)
        fleet.evict("m1", on=False)
        fleet.until_ready(app, {"m1": 2}, 240)
    finally:
        fleet.evict("m1", on=False)
        fleet.restart_karmada()


@pytest.mark.parametrize("purge_mode", ["Directly", "Gracefully"])
def test_karmada_fails_an_application_over(fleet: Fleet, purge_mode: str):
    """The pods in the first cluster fail. They stay until the others are ready, or go at once."""
    if not _real(fleet):
        pytest.skip("the model has no failover of applications")
    fleet.restart_karmada(FAILOVER)
    try:
        fleet.berthmaster()
        app = f"app{purge_mode.lower()}"
        behavior = {"decisionConditions": {"tolerationSeconds": 10}, "purgeMode": purge_mode}
        fleet.run(app, 2, ["m1"], ["m2"], policy_spec={"failover": {"application": behavior}, **DEPENDENCIES})
        fleet.until_ready(app, {"m1": 2})
        fleet.treat("m1", Pods.FAILING)
        fleet.until_ready(app, {"m2": 2})
        fleet.treat("m1", Pods.NORMAL)
        fleet.until_ready(app, {"m1": 2}, 300)
    finally:
        fleet.restart_karmada()


@pytest.mark.parametrize("strategy", ["", "BreakBeforeMake"])
def test_an_autoscaler_scales_in_the_middle_of_a_move(fleet: Fleet, strategy: str):
    """While both copies run, it divides by what both have. While none runs, it does not scale."""
    if not _real(fleet):
        pytest.skip("the model has no FederatedHPA")
    app = f"scaled{strategy.lower()}"
    fleet.restart_karmada(*AUTOSCALER)
    try:
        fleet.berthmaster(soak="20s")
        fleet.run(app, 2, ["m1"], ["m2"], strategy=strategy)
        fleet.until_ready(app, {"m1": 2})
        autoscaler = Autoscaler(fleet, app, 2, 8, percent=50)
        fleet.drain("m1")
        fleet.until_phase(app, "Soaking", limit_s=200)
        fleet.until("four replicas", lambda: autoscaler.report("100m") or 4 in fleet.wanted(app))
        fleet.until("the end of the move", lambda: autoscaler.report("50m") or fleet.ready(app) == {"m2": 4}, 240)
        assert fleet.wanted(app) == {2, 4}
    finally:
        fleet.restart_karmada()


def test_a_multi_cluster_service_has_ready_endpoints_during_a_move(fleet: Fleet):
    """Karmada propagates its Service to all clusters, and a rule keeps the Service there during a drain."""
    if not _real(fleet):
        pytest.skip("the model has no MultiClusterService")
    fleet.restart_karmada(SERVICES)
    try:
        services_stay = {"selector": {"kinds": ["Service"]}, "drain": {"mode": "Off"}}
        fleet.berthmaster("--scheduler-name=default-scheduler", rules=[services_stay])
        fleet.run("offered", 2, ["m1"], ["m2"], scheduler="default-scheduler")
        fleet.until_ready("offered", {"m1": 2})
        offer(fleet, "offered", "m3")
        fleet.until("endpoints in m3", lambda: endpoints(fleet, "offered", "m3") == 2)
        fleet.treat("m2", Pods.SLOW)
        fleet.drain("m1")
        seen = set[int]()

        def moved() -> bool:
            seen.add(endpoints(fleet, "offered", "m3"))
            return fleet.ready("offered") == {"m2": 2}

        fleet.until("the end of the move", moved, 240)
        assert min(seen) == 2
    finally:
        withdraw(fleet, "offered")
        fleet.restart_karmada()


@pytest.fixture
def joining(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet without m3. It joins at the latest after the test."""
    fleet.forget("m3")
    try:
        fleet.until("m3 is removed", lambda: not fleet.joined("m3"))
        yield fleet
    finally:
        fleet.rejoin("m3")


def test_a_joined_cluster_fills_within_its_budget(joining: Fleet):
    """One move is enough for each application."""
    apps = [f"fill{index}" for index in range(4)]
    joining.berthmaster(rebalance=REBALANCE, budgets=[{"name": "joined", "maxMovesToCluster": 2}])
    for app in apps:
        joining.run(app, 6, ["m1", "m2", "m3"])
    for app in apps:
        joining.until_ready(app, {"m1": 3, "m2": 3})
    joining.rejoin("m3")
    full = {"m1": 2, "m2": 2, "m3": 2}
    joining.until(
        "m3 is filled", lambda: all(joining.ready(app) == full and not joining.moves(app) for app in apps), 240
    )
    assert joining.most_at_once(apps) == 2
    assert [joining.begun(app) for app in apps] == [1, 1, 1, 1]


def test_a_joined_cluster_whose_pods_do_not_start_takes_no_replicas(joining: Fleet):
    joining.berthmaster(rebalance=REBALANCE)
    joining.run("waits", 6, ["m1", "m2", "m3"])
    joining.until_ready("waits", {"m1": 3, "m2": 3})
    joining.treat("m3", Pods.STUCK)
    joining.rejoin("m3")
    joining.until_phase("waits", "RolledBack", limit_s=240)
    joining.until_ready("waits", {"m1": 3, "m2": 3})
    joining.treat("m3", Pods.NORMAL)
    joining.until_ready("waits", {"m1": 2, "m2": 2, "m3": 2}, 240)  # after the hold-down


def test_no_rebalance_counts_on_replicas_that_do_not_run(joining: Fleet):
    joining.berthmaster(rebalance=REBALANCE)
    joining.run("counts", 6, ["m1", "m2", "m3"])
    joining.until_ready("counts", {"m1": 3, "m2": 3})
    joining.treat("m2", Pods.FAILING)
    joining.until_ready("counts", {"m1": 3})
    joining.rejoin("m3")
    joining.until("m3 is ready", lambda: joining.is_ready("m3"))
    time.sleep(45)
    assert joining.begun("counts") == 0
    joining.treat("m2", Pods.NORMAL)
    joining.until_ready("counts", {"m1": 2, "m2": 2, "m3": 2}, 240)


def test_applications_that_move_together_take_no_more_than_they_need(joining: Fleet):
    """What leaves a cluster uses it until its pods have ended. The next application counts on that end."""
    apps = [f"shoal{index}" for index in range(9)]
    for name in ("m1", "m2"):
        joining.treat(name, Pods.LINGERING)
    joining.berthmaster(rebalance=REBALANCE)
    for app in apps:
        joining.run(app, 2, ["m1", "m2", "m3"], cpu="700m", dynamic=True, grace_s=20)
    for app in apps:
        joining.settled(app)
    joining.rejoin("m3")
    joining.until("m3 is used", lambda: any(joining.ready(app).get("m3") for app in apps))
    time.sleep(60)
    for app in apps:
        joining.settled(app)
    most = joining.most_assigned(apps, "m3")
    assert 4 <= most <= 8, "about a third of 18"
    assert max(joining.begun(app) for app in apps) == 1, "nothing moves back"


def test_stuck_replicas_leave(fleet: Fleet):
    """Estimators report the replica that no node takes. The ready one stays, and nothing else moves."""
    with estimators(fleet) as options:
        fleet.berthmaster(*options, rebalance=REBALANCE)
        fleet.run("stuck", 2, ["m1", "m2", "m3"], apart=True)
        fleet.until("one ready pod", lambda: sum(fleet.ready("stuck").values()) == 1)
        (first,) = fleet.ready("stuck")
        assert fleet.assigned("stuck") == {first: 2}
        fleet.until("two ready pods", lambda: not fleet.unrest("stuck"), 300)
        time.sleep(90)
        assert fleet.settled("stuck")[first] == 1
        assert fleet.begun("stuck") == 1


def _real(fleet: Fleet) -> bool:
    return fleet.driver.real


def test_the_ledger_decides_the_same_again(fleet: Fleet):
    """It is the last test: its ledger has the moves of all tests before."""
    fleet.berthmaster()
    command = [COMMAND, "replay", "--check", f"--ledger={fleet.ledger}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
