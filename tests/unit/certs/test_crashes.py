"""A replica crashes or is delayed before any of its requests. Another replica continues, and no client notices.

Each test covers every point: before the first request of a reconciliation, before the second, and so on.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from certified import AUTHORITY, OPTIONS, Installation
from replicas import History, Replica

SMALL = replace(OPTIONS, serving=OPTIONS.serving[:1], targets=OPTIONS.targets[:1])
LAG = OPTIONS.overlap - timedelta(seconds=1)
MANY = 100  # more requests than any reconciliation sends


def settled(installation: Installation) -> dict[str, bool]:
    installation.settle(2)
    return {}


def begun(installation: Installation) -> dict[str, bool]:
    settled(installation)
    return {"rotate_authority": True}


def introduced(installation: Installation) -> dict[str, bool]:
    settled(installation)
    installation.reconcile(rotate_authority=True)
    return {}


def about_to_take_over(installation: Installation) -> dict[str, bool]:
    introduced(installation)
    installation.advance(OPTIONS.overlap)
    return {}


def about_to_retire(installation: Installation) -> dict[str, bool]:
    about_to_take_over(installation)
    installation.reconcile()
    installation.advance(OPTIONS.overlap)
    return {}


def renewed(installation: Installation) -> dict[str, bool]:
    settled(installation)
    return {"renew_leaves": True}


def lost(installation: Installation) -> dict[str, bool]:
    settled(installation)
    installation.cluster.remove(AUTHORITY)
    return {}


STAGES = [
    pytest.param(begun, id="a rotation begins"),
    pytest.param(introduced, id="a rotation waits"),
    pytest.param(about_to_take_over, id="the successor takes over"),
    pytest.param(about_to_retire, id="the predecessor retires"),
    pytest.param(renewed, id="leaves are renewed"),
    pytest.param(lost, id="the authority was deleted"),
]


def stops(stage: Callable[[Installation], dict[str, bool]]) -> Iterator[tuple[Installation, Replica, History]]:
    """Yield, for each request of a reconciliation, an installation whose replica has stopped before it."""
    for requests in range(MANY):
        installation = Installation(SMALL)
        wanted = stage(installation)
        history = History(installation, LAG)
        replica = Replica(installation)
        replica.begin(**wanted)
        replica.send_requests(requests)
        if not replica.running:
            assert requests > 3, "a reconciliation sends at least the reads"
            return
        yield installation, replica, history
        replica.crash()
    pytest.fail(f"a reconciliation with more than {MANY} requests")


def assert_settled(installation: Installation, history: History) -> None:
    installation.settle(4)
    history.check()
    assert installation.reconcile() == []
    assert list(installation.bundle()) == [installation.issuer().certificate]
    assert installation.injected() == {installation.bundle().pem}


@pytest.mark.parametrize("stage", STAGES)
def test_another_replica_continues_after_a_crash(stage):
    for installation, replica, history in stops(stage):
        replica.crash()
        assert_settled(installation, history)


@pytest.mark.parametrize("stage", STAGES)
def test_a_delayed_replica_does_no_harm(stage):
    for installation, replica, history in stops(stage):
        installation.settle(4)
        replica.finish()
        assert_settled(installation, history)


@pytest.mark.parametrize("stage", [STAGES[0], STAGES[2]])
def test_a_replica_that_was_delayed_while_another_began_a_rotation_does_no_harm(stage):
    for installation, replica, history in stops(stage):
        installation.settle(4)
        installation.reconcile(rotate_authority=True)
        installation.advance(OPTIONS.overlap)
        installation.reconcile()
        replica.finish()
        assert_settled(installation, history)


def test_an_authority_lost_right_after_a_takeover_keeps_served_leaves_trusted():
    installation = Installation(SMALL)
    about_to_take_over(installation)
    history = History(installation, LAG)
    installation.reconcile()
    installation.cluster.remove(AUTHORITY)
    installation.reconcile()
    assert len(installation.bundle()) == 3
    assert_settled(installation, history)


def test_another_replica_finishes_a_first_reconciliation_that_crashed():
    for requests in range(MANY):
        installation = Installation(SMALL)
        replica = Replica(installation)
        replica.send_requests(requests)
        if not replica.running:
            assert requests > 6, "a first reconciliation reads and writes"
            return
        replica.crash()
        installation.reconcile()
        assert installation.reconcile() == []
        assert list(installation.bundle()) == [installation.issuer().certificate]
        assert installation.injected() == {installation.bundle().pem}
    pytest.fail(f"a first reconciliation with more than {MANY} requests")
