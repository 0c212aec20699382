"""The watches of kinds that policies name: start, stop and limit."""

import pytest
from preempting import Stage, owner, policy, template
from waiting import wait_for

from berthmaster.controllers.preemption import event_handlers
from berthmaster.controllers.preemption.event_handlers import claim_state_of
from berthmaster.controllers.preemption.policy_index import NamedKind
from berthmaster.controllers.preemption.reconciler import SERVED_WAIT_S, UNSERVED_WAIT_S
from berthmaster.kube.discovery import CACHE_S
from berthmaster.model.decode import encode_json
from berthmaster.model.policy import PolicyReference

DEPLOYMENTS = NamedKind("apps/v1", "Deployment")
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
    monkeypatch.setattr(event_handlers, "MAX_WATCHES", 1)
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


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(template(WEAK), PolicyReference("PropagationPolicy", "default", "weak"), id="claimed"),
        pytest.param(template(), None, id="unclaimed"),
    ],
)
def test_the_holder_of_a_resource(manifest, expected):
    assert claim_state_of(encode_json(manifest)).holder == expected


def test_unclaimed_resources_share_one_value():
    assert claim_state_of(encode_json(template())) is claim_state_of(encode_json(template(labels={"a": "b"})))
