"""The version of a state: equal for equal objects, however a process received them."""

import pytest
from builders import binding, cluster, policy
from builders import selector as typed_selector
from extender_services import WatchedPlane
from karmada_plane import binding as stored_binding
from karmada_plane import deployment, resource, selector, shop, store
from karmada_plane import policy as stored_policy
from kube_in_memory import KubeInMemory
from waiting import LIMIT_S, wait_for

from extender.state.fingerprint import Fingerprint, difference_of, text_of
from extender.state.state import FleetCache

VALUES = [cluster("a", cpu=4), cluster("b"), policy("p"), binding("web", clusters={"a": 1}), {"kind": "Deployment"}]


def test_the_order_of_changes_does_not_matter_and_a_removed_object_leaves_nothing():
    first, second = Fingerprint(), Fingerprint()
    for each in VALUES:
        first.add(difference_of(None, each))
    for each in reversed(VALUES):
        second.add(difference_of(None, each))
    second.add(difference_of(None, cluster("gone")))
    assert first.value != second.value
    second.add(difference_of(cluster("gone"), None))
    assert first.value == second.value != 0


@pytest.mark.parametrize("before", VALUES[:2], ids=["a cluster with resources", "a cluster without resources"])
def test_a_changed_object_changes_the_version(before):
    after = cluster(before.name, cpu=5)
    assert text_of(difference_of(before, after)) != text_of(0)


@pytest.fixture
def watching():
    planes = []

    def start(api):
        planes.append(WatchedPlane(api))
        planes[-1].start()
        return planes[-1].state

    yield start
    for each in planes:
        each.stop()


def test_a_process_that_started_later_has_the_same_version(watching):
    api = KubeInMemory()
    shop(api)
    store(api, resource("w", "Widget", "example.org/v1", namespace=""))
    first = watching(api)
    before = first.version
    web = stored_policy("web", selector(name="web"), selector("ConfigMap", "v1", name="settings"))
    store(api, stored_binding(deployment("web", 4, by=web), web, member3=4))
    wait_for(lambda: first.version != before)
    second = watching(api)
    wait_for(lambda: first.version == second.version)
    asked = policy(selectors=[typed_selector("Widget", "example.org/v1")], cluster_scoped=True)
    assert first.observed.unknown([asked], LIMIT_S) is None
    assert first.version == second.version  # a kind that only a request asked for does not count


def test_a_new_version_never_names_the_state_before(watching, monkeypatch):
    api, seen = KubeInMemory(), []
    shop(api)
    state = watching(api)
    before, applied = state.version, FleetCache.apply_cluster
    monkeypatch.setattr(
        FleetCache, "apply_cluster", lambda cache, each: (seen.append(state.version), applied(cache, each))
    )
    changed = dict(api.objects["/apis/cluster.karmada.io/v1alpha1/clusters/member1"])
    store(api, {**changed, "spec": {**changed["spec"], "region": "elsewhere"}})
    wait_for(lambda: state.version != before)
    assert seen == [before]
