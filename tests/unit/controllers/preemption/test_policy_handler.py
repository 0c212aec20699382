"""Which keys a change of a policy enqueues."""

import pytest
from preempting import WEB, Stage, owner, policy, template
from retained import retained

from berthmaster.controllers.preemption.event_handlers import PolicyHandler
from berthmaster.controllers.preemption.policy_index import NamedKind, PolicyIndex
from berthmaster.model.claims import Resource
from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy, PolicyReference

WEB_KEY = Resource("apps/v1", "Deployment", "default", "web")
API_KEY = WEB_KEY._replace(name="api")
DEPLOYMENTS = NamedKind("apps/v1", "Deployment")


def enqueued(*changes):
    """Return the keys that the last change enqueues. A change is a pair of manifests."""
    keys: list[object] = []
    handler = PolicyHandler(PolicyIndex(), keys.append)
    for before, after in changes:
        keys.clear()
        pair = [convert(Policy, each) if each is not None else None for each in (before, after)]
        handler(("default", "x"), *pair)
    return keys


A = policy("a", 5)
QUIET = policy("a", 5, always=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param([(None, A)], [DEPLOYMENTS, WEB_KEY], id="a new policy"),
        pytest.param([(None, QUIET)], [], id="a new policy that does not preempt"),
        pytest.param([(None, A), (A, policy("a", 6))], [DEPLOYMENTS, WEB_KEY], id="its priority changes"),
        pytest.param([(None, A), (A, A)], [], id="an irrelevant change"),
        pytest.param([(None, QUIET), (QUIET, A)], [DEPLOYMENTS, WEB_KEY], id="it starts to preempt"),
        pytest.param(
            [(None, A), (A, QUIET)], [DEPLOYMENTS, WEB_KEY], id="it stops preempting: the next policy may be eligible"
        ),
        pytest.param([(None, A), (A, None)], [DEPLOYMENTS, WEB_KEY], id="it is deleted"),
        pytest.param(
            [(None, A), (A, policy("a", 5, names=[{**WEB, "name": "api"}]))],
            [DEPLOYMENTS, API_KEY, WEB_KEY],
            id="it names another resource",
        ),
        pytest.param(
            [(None, policy("a", 5, permanent_id="")), (policy("a", 5, permanent_id=""), A)],
            [DEPLOYMENTS, WEB_KEY],
            id="it gets its permanent id",
        ),
        pytest.param(
            [(None, policy("a", 1, always=False, drop='{"from": 2, "to": 1}'))],
            [PolicyReference("PropagationPolicy", "default", "a")],
            id="a recorded priority drop",
        ),
        pytest.param(
            [
                (None, A),
                (None, policy("b", 5, always=False)),
                (policy("b", 5, always=False), policy("b", 4, always=False)),
            ],
            [WEB_KEY],
            id="an unrecorded priority drop",
        ),
        pytest.param(
            [
                (None, A),
                (None, policy("b", 9, always=False)),
                (policy("b", 9, always=False), policy("b", 5, always=False)),
            ],
            [],
            id="a priority drop that stays above the others",
        ),
    ],
)
def test_enqueued_keys(changes, expected):
    assert enqueued(*changes) == expected


def test_a_priority_drop_without_a_webhook_triggers_a_takeover():
    holder = policy("holder", 9, always=False)
    stage = Stage(template(holder), holder, policy("other", 5))
    stage.work()
    assert owner(stage.web()) == "holder"
    stage.put(policy("holder", 4, always=False))
    stage.work()
    assert owner(stage.web()) == "other"


def test_the_index_drops_resources_that_no_policy_names():
    index = PolicyIndex()
    one, other = (convert(Policy, policy(name, 5)) for name in "ab")
    index.update(None, one)
    index.update(None, other)
    index.update(one, None)
    assert index.names(WEB_KEY)
    assert index.names_kind(DEPLOYMENTS)
    index.update(other, convert(Policy, policy("b", 5, always=False)))
    assert not index.names(WEB_KEY)
    assert not index.names_kind(DEPLOYMENTS)
    assert index.naming(WEB_KEY) == []
    assert retained(index) == retained(PolicyIndex())
