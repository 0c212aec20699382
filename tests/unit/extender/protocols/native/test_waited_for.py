"""Policies that wait for overrides or a PriorityClass: the service watches whether these exist, or says that it cannot.

Nothing is placed by a policy that waits, and no answer silently assumes that the object exists.
"""

import pytest
from extender_in_process import ExtenderInProcess
from karmada_plane import policy, resource, selector, shop, store
from kube_in_memory import KubeInMemory

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError
from berthmaster.native_api.what_if import DownChange
from berthmaster.simulation.plan_answer import StayReason
from berthmaster.simulation.workload import NotScheduled

POLICY_API, SCHEDULING_API = "policy.karmada.io/v1alpha1", "scheduling.k8s.io/v1"
KINDS = (
    (POLICY_API, "OverridePolicy", "overridepolicies", True),
    (POLICY_API, "ClusterOverridePolicy", "clusteroverridepolicies", False),
    (SCHEDULING_API, "PriorityClass", "priorityclasses", False),
)
UNCLAIMED = "shop/Deployment/unclaimed"
AWAY = {"clusterAffinity": {"clusterNames": ["member3"]}}
IMAGES = resource("images", "OverridePolicy", POLICY_API, spec={"overrideRules": []})
EVERYWHERE = resource("images", "ClusterOverridePolicy", POLICY_API, namespace="", spec={"overrideRules": []})
HIGH = resource("high", "PriorityClass", SCHEDULING_API, namespace="", value=7)
OVERRIDES = {"dependentOverrides": ["images"]}
PRIORITY = {"schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}}


def waiting(namespace="shop", **spec):
    return policy("first", selector(name="unclaimed", namespace="shop"), namespace=namespace, placement=AWAY, **spec)


@pytest.fixture
def extender():
    made = []

    def start(*objects, forbidden=()):
        def refuse(request: APIRequest) -> None:
            plural = request.path.rsplit("/", 1)[-1]
            if plural in forbidden:
                raise ApiError(403, "Forbidden", f"{plural} is forbidden")

        api = KubeInMemory()
        shop(api)
        for *kind, namespaced in (*KINDS, (POLICY_API, "ClusterTaintPolicy", "clustertaintpolicies", False)):
            api.served.add(*kind, namespaced=namespaced)
        store(api, *objects)
        api.before = refuse
        made.append(ExtenderInProcess(api))
        return made[-1], api

    yield start
    for each in made:
        each.stop()


def simulated(running):
    answer = running.client().simulate([], show_all=True)
    return next(each for each in answer.rows if each.resource == UNCLAIMED).after, answer.gaps


@pytest.mark.parametrize(
    ("spec", "namespace", "awaited", "reason"),
    [
        pytest.param(OVERRIDES, "shop", IMAGES, NotScheduled.MISSING_OVERRIDES, id="an OverridePolicy"),
        pytest.param(OVERRIDES, "", EVERYWHERE, NotScheduled.MISSING_OVERRIDES, id="a ClusterOverridePolicy"),
        pytest.param(PRIORITY, "shop", HIGH, NotScheduled.NO_PRIORITY, id="a PriorityClass"),
    ],
)
class TestWatched:
    def test_a_stored_policy_waits_until_the_object_exists(self, extender, spec, namespace, awaited, reason):
        running, api = extender(waiting(namespace, **spec))
        after, gaps = simulated(running)
        assert (after.not_scheduled, after.clusters, list(gaps)) == (reason, {}, [])
        before = running.state.version
        store(api, awaited)
        running.wait(lambda: running.state.version != before)
        assert simulated(running)[0].clusters == {"member3": 2}

    def test_a_plan_of_a_new_policy_waits_too(self, extender, spec, namespace, awaited, reason):
        del reason
        (without, _), (with_it, _) = extender(), extender(awaited)
        plans = [each.client().plan(create=[waiting(namespace, **spec)]).plan for each in (without, with_it)]
        assert [each.complete for each in plans] == [True, True]
        assert [[move.resource for move in each.moves] for each in plans] == [[], [UNCLAIMED]]
        assert [each.reason for each in plans[0].staying] == [StayReason.WAITS]

    def test_what_may_not_be_listed_is_named_and_counts_as_existing(self, extender, spec, namespace, awaited, reason):
        del awaited, reason
        running, _ = extender(waiting(namespace, **spec), forbidden={plural for _, _, plural, _ in KINDS})
        after, (gap,) = simulated(running)
        assert after.clusters == {"member3": 2}
        assert gap.endswith("policies that wait for such an object count as if it existed")
        edited = waiting(namespace, **spec, priority=1)
        found = running.client().plan(update=[edited]).plan
        assert (found.complete, len(found.gaps)) == (False, 1)
        assert "it is not known whether they exist" in found.gaps[0]


def test_only_what_policies_wait_for_is_watched_as_metadata(extender):
    _, api = extender(waiting(**PRIORITY))
    asked = {each.path: each for each in api.requests if each.path.rsplit("/", 1)[-1] in {kind[2] for kind in KINDS}}
    assert list(asked) == ["/apis/scheduling.k8s.io/v1/priorityclasses"]
    assert all("PartialObjectMetadata" in each.accept for each in asked.values())


def test_cluster_taint_policies_taint_a_lost_cluster(extender):
    condition = {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}
    spec = {"addOnConditions": [condition], "taints": [{"key": "lost", "effect": "NoExecute"}]}
    lost = resource("lost", "ClusterTaintPolicy", POLICY_API, namespace="", spec=spec)
    running, api = extender()
    assert running.client().simulate([DownChange("member1")]).assumptions.tainted_by == ()
    before = running.state.version
    store(api, lost)
    running.wait(lambda: running.state.version != before)
    assert running.client().simulate([DownChange("member1")]).assumptions.tainted_by == ("lost",)
