"""Through any interleaving of replicas, crashes and turns of the clock no client meets a leaf that it cannot verify."""

from datetime import timedelta

from certified import AUTHORITY, OPTIONS, Installation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replicas import History, Replica

WHO = st.integers(0, 1)
NOBODY = st.just(0)
ACTIONS = st.one_of(
    st.tuples(st.just("go on"), WHO, st.sampled_from([1, 2, 3, 5, 6, 7, 12, 13, 40])),
    st.tuples(st.just("go on"), WHO, st.sampled_from([1, 6, 7, 200])),
    st.tuples(st.just("turn"), NOBODY, st.sampled_from([1, 60, 599, 600, 3600])),
    st.tuples(st.just("somebody looks"), NOBODY, NOBODY),
    st.tuples(st.just("rotate"), WHO, NOBODY),
    st.tuples(st.just("renew"), WHO, NOBODY),
    st.tuples(st.just("crash"), WHO, NOBODY),
    st.tuples(st.just("lose the authority"), NOBODY, NOBODY),
)


def act(installation, replicas, action, who, amount):
    match action:
        case "go on":
            replicas[who].go_on(amount)
        case "turn":
            installation.turn(timedelta(seconds=amount))
        case "somebody looks":
            installation.keep()
        case "rotate":
            replicas[who].begin(rotate_authority=True)
        case "renew":
            replicas[who].begin(renew_leaves=True)
        case "crash":
            replicas[who].crash()
        case "lose the authority":
            if AUTHORITY in installation.cluster.objects:
                installation.cluster.remove(AUTHORITY)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, min_size=10, max_size=50))
def test_every_client_verifies_every_leaf_and_all_comes_to_rest(actions):
    installation = Installation()
    installation.settle(2)
    history = History(installation, OPTIONS.overlap - timedelta(seconds=1))
    replicas = [Replica(installation), Replica(installation)]
    try:
        for action in actions:
            act(installation, replicas, *action)
            history.check()
        for replica in replicas:
            replica.finish()
    finally:
        for replica in replicas:
            replica.crash()
    installation.settle(12)
    assert installation.keep() == []
    assert list(installation.bundle()) == [installation.issuer().certificate]
    assert installation.injected() == {installation.bundle().pem}
