"""What makes the controller look."""

import pytest
from preempting import WEB, Stage, owner, policy, template

from berthmaster.controllers.preemption.event_handlers import PolicyHandler
from berthmaster.controllers.preemption.policy_index import NamedKind, PolicyIndex
from berthmaster.model.claims import Resource
from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy, PolicyReference

WEB_KEY = Resource("apps/v1", "Deployment", "default", "web")
API_KEY = WEB_KEY._replace(name="api")
DEPLOYMENTS = NamedKind("apps/v1", "Deployment")


def looked_at(*changes):
    """The subjects of the last of some changes, each a pair of manifests."""
    subjects: list[object] = []
    triggers = PolicyHandler(PolicyIndex(), subjects.append)
    for before, after in changes:
        subjects.clear()
        pair = [convert(Policy, each) if each is not None else None for each in (before, after)]
        triggers(("default", "x"), *pair)
    return subjects


A = policy("a", 5)
QUIET = policy("a", 5, always=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param([(None, A)], [DEPLOYMENTS, WEB_KEY], id="a policy appears"),
        pytest.param([(None, QUIET)], [], id="one that does not preempt appears"),
        pytest.param([(None, A), (A, policy("a", 6))], [DEPLOYMENTS, WEB_KEY], id="its priority changes"),
        pytest.param([(None, A), (A, A)], [], id="nothing that matters changes"),
        pytest.param([(None, QUIET), (QUIET, A)], [DEPLOYMENTS, WEB_KEY], id="it begins to preempt"),
        pytest.param(
            [(None, A), (A, QUIET)], [DEPLOYMENTS, WEB_KEY], id="it ceases to: the next one may have its turn"
        ),
        pytest.param([(None, A), (A, None)], [DEPLOYMENTS, WEB_KEY], id="it is gone"),
        pytest.param(
            [(None, A), (A, policy("a", 5, names=[{**WEB, "name": "api"}]))],
            [DEPLOYMENTS, API_KEY, WEB_KEY],
            id="it names something else",
        ),
        pytest.param(
            [(None, policy("a", 5, permanent_id="")), (policy("a", 5, permanent_id=""), A)],
            [DEPLOYMENTS, WEB_KEY],
            id="it gets its permanent id",
        ),
        pytest.param(
            [(None, policy("a", 1, always=False, drop='{"from": 2, "to": 1}'))],
            [PolicyReference("PropagationPolicy", "default", "a")],
            id="a record of a priority drop",
        ),
        pytest.param(
            [
                (None, A),
                (None, policy("b", 5, always=False)),
                (policy("b", 5, always=False), policy("b", 4, always=False)),
            ],
            [WEB_KEY],
            id="a fall in priority that nobody has put on record",
        ),
        pytest.param(
            [
                (None, A),
                (None, policy("b", 9, always=False)),
                (policy("b", 9, always=False), policy("b", 5, always=False)),
            ],
            [],
            id="but not one that stays above",
        ),
    ],
)
def test_what_is_looked_at(changes, expected):
    assert looked_at(*changes) == expected


def test_a_fall_without_a_webhook_is_noticed():
    holder = policy("holder", 9, always=False)
    stage = Stage(template(holder), holder, policy("other", 5))
    stage.work()
    assert owner(stage.web()) == "holder"
    stage.put(policy("holder", 4, always=False))
    stage.work()
    assert owner(stage.web()) == "other"


def test_challengers_forget_what_nobody_names_any_more():
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
    assert (index._policies, index._naming, index._policies_of_kind) == ({}, {}, {})
