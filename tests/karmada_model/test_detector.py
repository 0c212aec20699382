"""The modelled detector keeps to each rule of karmada-semantics.md, section 2."""

from typing import Any

import pytest
from karmada_model.model import Settings
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, resource, selector
from kube_store import JSON

WEB = deployment("web", 4)
FLEET = (cluster("m1"), cluster("m2"))
PREEMPTION = Settings(preemption=True)
CPP_ID = "clusterpropagationpolicy.karmada.io/permanent-id"
PP_ID = "propagationpolicy.karmada.io/permanent-id"


def named(name: str, **spec: Any) -> JSON:
    """A PropagationPolicy that selects the Deployment by its name."""
    return policy(name, selector(name="web"), **{"schedulerName": "berthmaster", **spec})


def everywhere(name: str, *selectors: JSON, **spec: Any) -> JSON:
    """A ClusterPropagationPolicy."""
    return policy(name, *(selectors or (selector(),)), namespace="", **{"schedulerName": "berthmaster", **spec})


BY_LABEL = selector(labelSelector={"matchLabels": {"app": "web"}})
BY_EXPRESSION = selector(labelSelector={"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]})
BY_KIND = selector()
BY_NAME = selector(name="web")


@pytest.mark.parametrize(
    ("policies", "holder"),
    [
        pytest.param([policy("other", selector(name="db"))], "", id="no selector matches: no claim"),
        pytest.param([policy("p", selector("StatefulSet"))], "", id="another kind does not match"),
        pytest.param([policy("p", selector(api_version="apps/v1beta1"))], "", id="another version does not match"),
        pytest.param([policy("p", BY_KIND, namespace="other")], "", id="a policy claims in its namespace only"),
        pytest.param([policy("kind", BY_KIND), policy("label", BY_LABEL)], "label", id="labels beat the kind"),
        pytest.param([policy("label", BY_LABEL), policy("name", BY_NAME)], "name", id="a name beats labels"),
        pytest.param(
            [policy("low", BY_NAME), policy("high", BY_KIND, priority=1)], "high", id="priority beats a closer match"
        ),
        pytest.param([policy("b", BY_KIND), policy("a", BY_EXPRESSION)], "a", id="expressions count as labels"),
        pytest.param([policy("b", BY_KIND), policy("a", BY_KIND)], "a", id="of equals the first name wins"),
        pytest.param([policy("p", BY_KIND), everywhere("c", BY_NAME, priority=9)], "p", id="every PP beats every CPP"),
        pytest.param([everywhere("c", BY_KIND)], "c", id="a CPP claims what no PP claims"),
        pytest.param(
            [policy("p", selector(labelSelector={}, name="db"), selector(labelSelector={}))],
            "p",
            id="an empty label selector matches everything",
        ),
        pytest.param(
            [policy("p", selector(name="web", labelSelector={"matchLabels": {"app": "db"}}))],
            "p",
            id="a name switches the label selector off",
        ),
    ],
)
def test_a_new_template_goes_to_the_policy(policies, holder):
    stage = Stage(*FLEET, *policies, WEB)
    stage.settle()
    assert stage.holder(WEB) == holder
    assert (stage.binding(WEB) is not None) == bool(holder)


@pytest.mark.parametrize(
    ("change", "holder"),
    [
        pytest.param(lambda stage: stage.put(named("new", priority=9)), "old", id="a stronger policy does not take"),
        pytest.param(
            lambda stage: stage.put(named("new", priority=9, preemption="Always")), "new", id="unless it preempts"
        ),
        pytest.param(
            lambda stage: stage.put(named("new", priority=5, preemption="Always")),
            "old",
            id="an equal priority never preempts",
        ),
        pytest.param(
            lambda stage: stage.put(
                everywhere("new", selector(name="web", namespace="shop"), priority=9, preemption="Always")
            ),
            "old",
            id="a CPP never preempts a PP",
        ),
        pytest.param(
            lambda stage: stage.edit(named("old"), spec={"resourceSelectors": [selector(name="db")]}),
            "weak",
            id="a policy that stops selecting releases the template to the next one",
        ),
        pytest.param(lambda stage: stage.delete(named("old")), "weak", id="so does a deleted policy"),
        pytest.param(lambda stage: stage.delete(named("weak")), "old", id="another deleted policy changes nothing"),
    ],
)
@pytest.mark.parametrize("finalizers", [(), ("karmada.io/propagation-policy-controller",)], ids=["plain", "finalizer"])
def test_a_claim_lasts(change, holder, finalizers):
    old = named("old", priority=5)
    old["metadata"]["finalizers"] = list(finalizers)
    stage = Stage(*FLEET, old, WEB, karmada=PREEMPTION)
    stage.settle()
    stage.put(named("weak"))
    stage.settle()
    assert stage.holder(WEB) == "old"
    change(stage)
    stage.settle()
    assert stage.holder(WEB) == holder


def test_preemption_needs_its_gate():
    stage = Stage(*FLEET, named("old"), WEB)
    stage.settle()
    stage.put(named("new", priority=9, preemption="Always"))
    stage.settle()
    assert stage.holder(WEB) == "old"


def test_a_pp_takes_from_a_cpp_without_comparing_priorities():
    stage = Stage(*FLEET, everywhere("c", priority=9), WEB, karmada=PREEMPTION)
    stage.settle()
    stage.put(named("p", priority=-1, preemption="Always"))
    stage.settle()
    binding = stage.binding(WEB)
    assert stage.holder(WEB) == "p"
    assert binding is not None
    assert PP_ID in binding["metadata"]["labels"]
    assert CPP_ID not in binding["metadata"]["labels"]


def test_a_drop_in_priority_wakes_those_above_the_new_value_and_below_the_old_one():
    stage = Stage(*FLEET, named("old", priority=9), WEB, karmada=PREEMPTION)
    stage.settle()
    for name, priority in (("five", 5), ("seven", 7), ("three", 3)):
        stage.put(named(name, priority=priority, preemption="Always"))
    stage.settle()
    assert stage.holder(WEB) == "old"
    stage.edit(named("old"), spec={"priority": 3})
    stage.settle()
    assert stage.holder(WEB) == "seven"


@pytest.mark.parametrize(
    ("earlier", "change", "region"),
    [
        pytest.param("Lazy", {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}}}, "", id="Lazy"),
        pytest.param(
            None, {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}}}, "m2", id="immediate"
        ),
        pytest.param(
            "Lazy",
            {
                "spec": {
                    "placement": {"clusterAffinity": {"clusterNames": ["m2"]}},
                    "activationPreference": None,
                }
            },
            "m2",
            id="Lazy to immediate is applied at once",
        ),
        pytest.param(
            None,
            {
                "spec": {
                    "placement": {"clusterAffinity": {"clusterNames": ["m2"]}},
                    "activationPreference": "Lazy",
                }
            },
            "",
            id="the edit that turns a policy Lazy is deferred",
        ),
    ],
)
def test_when_an_edited_policy_reaches_the_binding(earlier, change, region):
    lazy = {"activationPreference": earlier} if earlier else {}
    stage = Stage(*FLEET, named("p", placement={"clusterAffinity": {"clusterNames": ["m1"]}}, **lazy))
    stage.settle()
    stage.apply(WEB)
    stage.settle()
    assert stage.assignment(WEB) == {"m1": 4}
    stage.edit(named("p"), **change)
    stage.settle()
    assert stage.assignment(WEB) == {region or "m1": 4}
    stage.scale(WEB, 5)
    stage.settle()
    assert stage.assignment(WEB) == {"m2": 5}, "an edit of the template activates it"


def test_a_lazy_policy_claims_an_existing_template_without_a_binding():
    stage = Stage(*FLEET, WEB)
    stage.settle()
    stage.put(named("p", activationPreference="Lazy"))
    stage.settle()
    assert (stage.holder(WEB), stage.binding(WEB)) == ("p", None)
    stage.scale(WEB, 1)
    stage.settle()
    assert sum(stage.assignment(WEB).values()) == 1


def test_the_binding_of_a_released_template_stays_and_is_not_scheduled_any_more():
    stage = Stage(*FLEET, named("p"), WEB)
    stage.settle()
    before = stage.assignment(WEB)
    stage.delete(named("p"))
    stage.settle()
    binding = stage.binding(WEB)
    assert binding is not None
    assert PP_ID not in binding["metadata"]["labels"]
    stage.scale(WEB, 9)
    stage.settle()
    assert stage.assignment(WEB) == before
    assert stage.works(WEB).keys() == before.keys()


def test_a_template_of_the_same_name_gets_a_new_binding():
    stage = Stage(*FLEET, named("p"), WEB)
    stage.settle()
    first = stage.binding(WEB)
    stage.delete(WEB)
    stage.apply(WEB)
    stage.run(10)
    second = stage.binding(WEB)
    assert first is not None
    assert second is not None
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert stage.assignment(WEB) == {"m1": 2, "m2": 2}


def test_what_the_binding_takes_from_policy_and_template():
    suspended = {"dispatchingOnClusters": {"clusterNames": ["m1"]}}
    stage = Stage(*FLEET, named("p", suspension=suspended, propagateDeps=True), WEB)
    stage.settle()
    binding = stage.binding(WEB)
    assert binding is not None
    assert binding["metadata"]["name"] == "web-deployment"
    assert binding["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    spec = binding["spec"]
    assert {"replicas": 4, "propagateDeps": True, "suspension": suspended}.items() <= spec.items()
    assert spec["replicaRequirements"] == {"resourceRequest": {"cpu": "500m"}}
    stage.edit(binding, spec={"suspension": {"scheduling": True}})
    stage.edit(named("p"), spec={"suspension": None})
    stage.settle()
    binding = stage.binding(WEB)
    assert binding is not None
    assert binding["spec"]["suspension"] == {"scheduling": True}, "the policy does not own this field"


@pytest.mark.parametrize(
    ("changed", "generation"),
    [({"status": {"readyReplicas": 1}}, 0), ({"metadata": {"labels": {"tier": "web"}}}, 1)],
    ids=["a status", "a label"],
)
def test_every_change_of_a_template_but_its_status_is_a_change_of_the_binding(changed, generation):
    stage = Stage(*FLEET, named("p"), WEB)
    stage.settle()
    before = stage.binding(WEB)
    stage.edit(WEB, **changed)
    stage.settle()
    after = stage.binding(WEB)
    assert before is not None
    assert after is not None
    assert after["metadata"]["generation"] - before["metadata"]["generation"] == generation


def test_a_cluster_scoped_resource_gets_a_cluster_binding():
    viewer = resource("viewer", "ClusterRole", "rbac.authorization.k8s.io/v1", namespace="", rules=[])
    roles = everywhere("roles", selector("ClusterRole", "rbac.authorization.k8s.io/v1"), placement={})
    stage = Stage(*FLEET, roles, viewer)
    stage.settle()
    assert stage.assignment(viewer) == {"m1": 0, "m2": 0}


@pytest.mark.parametrize("namespace", ["karmada-system", "karmada-es-m1", "kube-system"])
def test_reserved_namespaces_are_skipped(namespace):
    hidden = deployment("web", namespace=namespace)
    stage = Stage(*FLEET, everywhere("c"), hidden)
    stage.settle()
    assert stage.holder(hidden) == ""
