"""The events of policies and resources, and the page."""

import re
from pathlib import Path

import pytest
import yaml
from access_rules import role_rule
from preempting import WEB, Stage, owner, policy, template
from retained import retained
from tables import cases
from waiting import wait_for

from berthmaster.controllers.preemption import watches as watches_module
from berthmaster.controllers.preemption.event_handlers import PolicyHandler
from berthmaster.controllers.preemption.policy_index import NamedKind, PolicyIndex
from berthmaster.controllers.preemption.reconciler import SERVED_WAIT_S, UNSERVED_WAIT_S
from berthmaster.controllers.preemption.takeover import FAILED, NOT_CLEARED, SUCCEEDED
from berthmaster.controllers.preemption.watches import claim_state_of
from berthmaster.controllers.rbac import RULES
from berthmaster.kube.served_types import CACHE_S
from berthmaster.model.claims import PERMANENT_ID
from berthmaster.model.decode import convert, encode_json
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import Resource
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION
from berthmaster.runtime.feature_gates import POLICY_PREEMPTION

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


@cases(
    ("changes", "expected"),
    {
        "a new policy": ([(None, A)], [DEPLOYMENTS, WEB_KEY]),
        "a new policy that does not preempt": ([(None, QUIET)], []),
        "its priority changes": ([(None, A), (A, policy("a", 6))], [DEPLOYMENTS, WEB_KEY]),
        "an irrelevant change": ([(None, A), (A, A)], []),
        "it starts to preempt": ([(None, QUIET), (QUIET, A)], [DEPLOYMENTS, WEB_KEY]),
        "it stops preempting: the next policy may be eligible": ([(None, A), (A, QUIET)], [DEPLOYMENTS, WEB_KEY]),
        "it is deleted": ([(None, A), (A, None)], [DEPLOYMENTS, WEB_KEY]),
        "it names another resource": (
            [(None, A), (A, policy("a", 5, names=[{**WEB, "name": "api"}]))],
            [DEPLOYMENTS, API_KEY, WEB_KEY],
        ),
        "it gets its permanent id": (
            [(None, policy("a", 5, permanent_id="")), (policy("a", 5, permanent_id=""), A)],
            [DEPLOYMENTS, WEB_KEY],
        ),
        "a recorded priority drop": (
            [(None, policy("a", 1, always=False, drop='{"from": 2, "to": 1}'))],
            [PolicyReference("PropagationPolicy", "default", "a")],
        ),
        "an unrecorded priority drop": (
            [
                (None, A),
                (None, policy("b", 5, always=False)),
                (policy("b", 5, always=False), policy("b", 4, always=False)),
            ],
            [WEB_KEY],
        ),
        "a priority drop that stays above the others": (
            [
                (None, A),
                (None, policy("b", 9, always=False)),
                (policy("b", 9, always=False), policy("b", 5, always=False)),
            ],
            [],
        ),
    },
)
def test_enqueued_keys(changes, expected):
    assert enqueued(*changes) == expected


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


ROLES = NamedKind("rbac.authorization.k8s.io/v1", "ClusterRole")
WIDGETS = NamedKind("example.io/v1", "Widget")
STRONG = policy("strong", 5)
WEAK = policy("weak", 1, always=False)


@pytest.fixture
def stage():
    built = Stage(WEAK)
    yield built
    built.controller.stop()


def watched(stage):
    return set(stage.controller.watches.running())


def test_a_kind_is_watched_while_a_policy_names_it(stage):
    stage.put(STRONG)
    stage.work(watching=True)
    assert watched(stage) == {DEPLOYMENTS}
    stage.put(policy("second", 6))
    stage.work(watching=True)
    stage.remove(STRONG)
    stage.work(watching=True)
    assert watched(stage) == {DEPLOYMENTS}
    stage.put(policy("second", 6, always=False))
    stage.work(watching=True)
    assert watched(stage) == set()


def test_nothing_is_watched_for_policies_that_do_not_preempt(stage):
    stage.work(watching=True)
    assert watched(stage) == set()
    assert stage.api.requests == []


def test_a_resource_that_falls_to_a_weaker_policy_is_taken_over_again(stage):
    """Karmada notices this only when the stronger policy changes."""
    stage.put(STRONG)
    stage.controller.start()
    wait_for(lambda: watched(stage) == {DEPLOYMENTS})
    stage.put(template(WEAK))
    wait_for(lambda: owner(stage.web()) == "strong")
    stage.put(template(WEAK))
    wait_for(lambda: owner(stage.web()) == "strong" and stage.takeovers() == 2)


def test_only_the_metadata_of_resources_is_requested(stage):
    stage.put(STRONG)
    stage.controller.start()
    stage.put(template(WEAK))
    wait_for(lambda: owner(stage.web()) == "strong")
    about = [request for request in stage.api.requests if "deployments" in request.path]
    assert about
    assert all("as=PartialObjectMetadata" in request.accept for request in about)


def test_unnamed_resources_are_not_read(stage):
    stage.put(STRONG)
    stage.work(watching=True)
    stage.put(template(WEAK, of={"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}))
    stage.put(template(WEAK))
    wait_for(lambda: len(stage.queue) > 1)  # besides the key of the kind, which is due later
    stage.work()
    assert not [request for request in stage.api.requests if request.path.endswith("/other")]


def test_an_unserved_kind_is_retried(stage):
    names = [{"apiVersion": "example.io/v1", "kind": "Widget", "name": "w", "namespace": "default"}]
    stage.put(policy("strong", 5, names=names))
    assert "requeued" in stage.work(watching=True)
    assert watched(stage) == set()
    stage.api.served.add(*WIDGETS, "widgets")
    stage.clock.pass_by(UNSERVED_WAIT_S)
    stage.work(watching=True)
    assert watched(stage) == {WIDGETS}


def test_the_watch_stops_when_the_kind_is_no_longer_served(stage):
    stage.put(STRONG)
    stage.work(watching=True)
    stage.api.served.withdraw("apps/v1")
    stage.clock.pass_by(max(SERVED_WAIT_S, CACHE_S))
    stage.work(watching=True)
    assert watched(stage) == set()


def test_the_watch_moves_with_the_path_of_its_kind(stage):
    stage.put(STRONG)
    stage.work(watching=True)
    stage.api.served.withdraw("apps/v1")
    stage.api.served.add("apps/v1", "Deployment", "rollouts")
    stage.clock.pass_by(SERVED_WAIT_S)
    stage.work(watching=True)
    assert stage.controller.watches.running()[DEPLOYMENTS].collection.plural == "rollouts"


def test_the_number_of_watches_is_limited(stage, monkeypatch):
    monkeypatch.setattr(watches_module, "MAX_WATCHES", 1)
    stage.put(STRONG)
    stage.work(watching=True)
    stage.put(policy("wide", 5, cluster_scoped=True, names=[{"apiVersion": ROLES[0], "kind": ROLES[1], "name": "r"}]))
    assert "requeued" in stage.work(watching=True)
    assert watched(stage) == {DEPLOYMENTS}
    stage.remove(STRONG)
    stage.clock.pass_by(SERVED_WAIT_S)
    stage.work(watching=True)
    assert watched(stage) == {ROLES}, "a stopped watch makes room for another"


def test_a_stopped_controller_starts_no_watch(stage):
    stage.put(STRONG)
    stage.work(watching=True)
    stage.controller.stop()
    assert watched(stage) == set()
    assert stage.controller.watches.sync(DEPLOYMENTS)
    assert watched(stage) == set()


def test_unclaimed_resources_share_one_value():
    assert claim_state_of(encode_json(template())) is claim_state_of(encode_json(template(labels={"a": "b"})))


PAGE = (Path(__file__).parents[4] / "docs" / "preemption.md").read_text()


def test_the_page_lists_the_rights_of_the_end_to_end_tests():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert yaml.safe_load(block) == [role_rule(rule) for rule in RULES["preemption"]]


@pytest.mark.parametrize(
    "name",
    [
        SUCCEEDED, FAILED, NOT_CLEARED, PRIORITY_DROP_ANNOTATION, POLICY_PREEMPTION.name, "policy_preemption_total",
        *PERMANENT_ID.values(),
    ],
)  # fmt: skip
def test_the_page_names(name):
    assert name in PAGE
