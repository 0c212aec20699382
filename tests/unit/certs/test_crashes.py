"""A replica crashes, or is held up for hours, at any moment of anything: another one goes on, and no client notices.

Each test walks over all moments: before the first request of a look, before the second, and so on to its end.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from certified import AUTHORITY, OPTIONS, Installation
from replicas import History, Replica

SMALL = replace(OPTIONS, serving=OPTIONS.serving[:1], targets=OPTIONS.targets[:1])
LAG = OPTIONS.overlap - timedelta(seconds=1)
MANY = 100  # more requests than any look has


def settled(installation: Installation) -> dict[str, bool]:
    installation.settle(2)
    return {}


def begun(installation: Installation) -> dict[str, bool]:
    settled(installation)
    return {"rotate_authority": True}


def introduced(installation: Installation) -> dict[str, bool]:
    settled(installation)
    installation.keep(rotate_authority=True)
    return {}


def about_to_take_over(installation: Installation) -> dict[str, bool]:
    introduced(installation)
    installation.turn(OPTIONS.overlap)
    return {}


def about_to_retire(installation: Installation) -> dict[str, bool]:
    about_to_take_over(installation)
    installation.keep()
    installation.turn(OPTIONS.overlap)
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


def moments(stage: Callable[[Installation], dict[str, bool]]) -> Iterator[tuple[Installation, Replica, History]]:
    """For each moment of a look: an installation in which a replica has come so far."""
    for requests in range(MANY):
        installation = Installation(SMALL)
        wanted = stage(installation)
        history = History(installation, LAG)
        replica = Replica(installation)
        replica.begin(**wanted)
        replica.go_on(requests)
        if not replica.looking:
            assert requests > 3, "a look has at least the requests that read"
            return
        yield installation, replica, history
        replica.crash()
    pytest.fail(f"a look with more than {MANY} requests")


def assert_at_rest(installation: Installation, history: History) -> None:
    installation.settle(4)
    history.check()
    assert installation.keep() == []
    assert list(installation.bundle()) == [installation.issuer().certificate]
    assert installation.injected() == {installation.bundle().pem}


@pytest.mark.parametrize("stage", STAGES)
def test_another_replica_goes_on_where_one_crashed(stage):
    for installation, replica, history in moments(stage):
        replica.crash()
        assert_at_rest(installation, history)


@pytest.mark.parametrize("stage", STAGES)
def test_a_replica_that_was_held_up_spoils_nothing(stage):
    for installation, replica, history in moments(stage):
        installation.settle(4)
        replica.finish()
        assert_at_rest(installation, history)


@pytest.mark.parametrize("stage", [STAGES[0], STAGES[2]])
def test_a_replica_that_was_held_up_while_another_began_a_rotation_spoils_nothing(stage):
    for installation, replica, history in moments(stage):
        installation.settle(4)
        installation.keep(rotate_authority=True)
        installation.turn(OPTIONS.overlap)
        installation.keep()
        replica.finish()
        assert_at_rest(installation, history)


def test_an_authority_that_is_lost_just_after_a_take_over_costs_nothing_that_servers_still_show():
    installation = Installation(SMALL)
    about_to_take_over(installation)
    history = History(installation, LAG)
    installation.keep()
    installation.cluster.remove(AUTHORITY)
    installation.keep()
    assert len(installation.bundle()) == 3
    assert_at_rest(installation, history)


def test_a_first_look_that_crashes_at_any_moment_is_finished_by_another():
    for requests in range(MANY):
        installation = Installation(SMALL)
        replica = Replica(installation)
        replica.go_on(requests)
        if not replica.looking:
            assert requests > 6, "a first look reads and writes"
            return
        replica.crash()
        installation.keep()
        assert installation.keep() == []
        assert list(installation.bundle()) == [installation.issuer().certificate]
        assert installation.injected() == {installation.bundle().pem}
    pytest.fail(f"a first look with more than {MANY} requests")
