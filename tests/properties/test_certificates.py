"""No interleaving of replicas, crashes and clock changes lets a client meet a leaf that it cannot verify."""

from datetime import timedelta

from certified import AUTHORITY, OPTIONS, Installation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replicas import History, Replica

REPLICA = st.integers(0, 1)
NONE = st.just(0)
ACTIONS = st.one_of(
    st.tuples(st.just("send requests"), REPLICA, st.sampled_from([1, 2, 3, 5, 6, 7, 12, 13, 40])),
    st.tuples(st.just("send requests"), REPLICA, st.sampled_from([1, 6, 7, 200])),
    st.tuples(st.just("advance the clock"), NONE, st.sampled_from([1, 60, 599, 600, 3600])),
    st.tuples(st.just("another replica reconciles"), NONE, NONE),
    st.tuples(st.just("rotate"), REPLICA, NONE),
    st.tuples(st.just("renew"), REPLICA, NONE),
    st.tuples(st.just("crash"), REPLICA, NONE),
    st.tuples(st.just("lose the authority"), NONE, NONE),
)


def act(installation, replicas, action, replica, amount):
    match action:
        case "send requests":
            replicas[replica].send_requests(amount)
        case "advance the clock":
            installation.advance(timedelta(seconds=amount))
        case "another replica reconciles":
            installation.reconcile()
        case "rotate":
            replicas[replica].begin(rotate_authority=True)
        case "renew":
            replicas[replica].begin(renew_leaves=True)
        case "crash":
            replicas[replica].crash()
        case "lose the authority":
            if AUTHORITY in installation.cluster.objects:
                installation.cluster.remove(AUTHORITY)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, min_size=10, max_size=50))
def test_every_client_verifies_every_leaf_and_the_state_settles(actions):
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
    assert installation.reconcile() == []
    assert list(installation.bundle()) == [installation.issuer().certificate]
    assert installation.injected() == {installation.bundle().pem}
