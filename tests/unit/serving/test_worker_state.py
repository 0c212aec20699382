"""The state of workers, and what serving needs from gunicorn."""

import os
import resource
from pathlib import Path

import pytest
from tables import cases

from berthmaster.serving.connection_balance import ConnectionBalance
from berthmaster.serving.probes import Readiness
from berthmaster.serving.server import affordable_connections
from berthmaster.serving.shared_bytes import SharedBytes
from berthmaster.serving.worker_health import WorkerHealth


@cases(
    ("others", "mine", "fewer"),
    {
        "no other worker": ([], 5, False),
        "one worker has fewer": ([5, 3], 4, True),
        "no worker has fewer": ([5, 3], 3, False),
        "a small difference of large numbers": ([100], 112, False),
        "a clear difference of large numbers": ([100], 113, True),
    },
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


@cases(
    ("reports", "readiness"),
    {
        "no worker": ([], Readiness("no worker is ready")),
        "all workers are ready": ([Readiness(), Readiness()], Readiness()),
        "one worker is not ready": ([Readiness(), Readiness("x")], Readiness("x")),
        "one worker has a note": ([Readiness("", "stale"), Readiness()], Readiness("", "stale")),
    },
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


@cases(
    ("descriptors", "expected"),
    {
        "enough for all connections": (1064, 1000),
        "one too few": (1063, 999),
        "fewer than the reserve": (10, 1),
        "no limit of open files": (resource.RLIM_INFINITY, 1000),
    },
)
def test_connections_leave_descriptors_for_everything_else(descriptors, expected, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert affordable_connections(1000) == expected


DESCRIPTORS = Path("/proc/self/fd")


def test_a_value_replaces_the_previous_one():
    shared = SharedBytes(10)
    assert (shared.version, shared.read()) == (0, b"")
    for number, value in enumerate([b"a" * 10, b"", b"bc", b"def"], start=1):
        with shared.locked():
            shared.write(value)
        assert (shared.version, shared.read()) == (number, value)


def test_a_value_that_is_too_large_is_refused_and_the_previous_one_stays():
    shared = SharedBytes(10)
    shared.write(b"good")
    with pytest.raises(ValueError, match="11 bytes; at most 10 are shared"):
        shared.write(b"x" * 11)
    assert (shared.version, shared.read()) == (1, b"good")


def test_a_write_that_is_cut_off_leaves_the_previous_value():
    shared = SharedBytes(10)
    shared.write(b"first")
    shared.write(b"good")
    start = 3 * 8 + 10  # behind the numbers and the first slot
    shared._memory[start : start + 5] = b"wrong"  # noqa: SLF001 - a writer is killed before it changes the version
    assert (shared.version, shared.read()) == (2, b"good")


def test_the_lock_leaves_no_descriptor_behind():
    before = len(list(DESCRIPTORS.iterdir()))
    for _ in range(100):
        SharedBytes(10)
    left = len(list(DESCRIPTORS.iterdir())) - before
    assert left < 50, "other threads of the process may open a few"
