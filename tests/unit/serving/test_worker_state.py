"""State that the processes of a server share."""

import os

import pytest

from berthmaster.serving.probes import Readiness
from berthmaster.serving.worker_state import ConnectionBalance, WorkerHealth


@pytest.mark.parametrize(
    ("others", "mine", "fewer"),
    [
        pytest.param([], 5, False, id="no other worker"),
        pytest.param([5, 3], 4, True, id="one worker has fewer"),
        pytest.param([5, 3], 3, False, id="no worker has fewer"),
        pytest.param([100], 112, False, id="a small difference of large numbers"),
        pytest.param([100], 113, True, id="a clear difference of large numbers"),
    ],
)
def test_a_new_connection_is_for_the_worker_with_the_fewest(others, mine, fewer):
    balance = ConnectionBalance(3)
    for worker, connections in enumerate(others):
        balance.report(worker, connections)
    assert balance.other_has_fewer(mine) == fewer


def test_a_worker_that_ended_gets_no_connections():
    balance = ConnectionBalance(1)
    balance.report(1, 5)
    balance.report(2, 1)
    assert balance.other_has_fewer(3)
    balance.ended(2)
    assert not balance.other_has_fewer(3)


def test_processes_share_the_balance():
    balance = ConnectionBalance(1)
    if child := os.fork():
        os.waitpid(child, 0)
        assert not balance.other_has_fewer(7)
    else:
        balance.report(1, 7)
        os._exit(0)


@pytest.mark.parametrize(
    ("reports", "readiness"),
    [
        pytest.param([], Readiness("no worker is ready"), id="no worker"),
        pytest.param([Readiness(), Readiness()], Readiness(), id="all workers are ready"),
        pytest.param([Readiness(), Readiness("x")], Readiness("x"), id="one worker is not ready"),
        pytest.param([Readiness("", "stale"), Readiness()], Readiness("", "stale"), id="one worker has a note"),
    ],
)
def test_a_server_is_ready_if_all_its_workers_are(tmp_path, reports, readiness):
    health = WorkerHealth(tmp_path)
    for pid, report in enumerate(reports):
        health.report(pid, report)
    assert health.readiness() == readiness


def test_a_removed_worker_does_not_count_and_a_draining_server_is_not_ready(tmp_path):
    health = WorkerHealth(tmp_path)
    health.report(1, Readiness())
    health.report(2, Readiness("x"))
    health.remove(2)
    assert health.readiness() == Readiness()
    health.drain()
    assert health.readiness() == Readiness("draining")


def test_processes_share_that_the_server_drains(tmp_path):
    health = WorkerHealth(tmp_path)
    assert not health.is_draining()
    if child := os.fork():
        os.waitpid(child, 0)
        assert health.is_draining()
    else:
        health.drain()
        os._exit(0)


def test_a_worker_may_report_after_the_server_has_removed_the_folder(tmp_path):
    WorkerHealth(tmp_path / "removed").report(1, Readiness())
