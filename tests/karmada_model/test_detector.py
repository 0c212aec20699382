"""The modelled detector keeps to each rule of karmada-semantics.md, section 2."""

from typing import Any

import pytest
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, resource, selector
from kube_store import JSON

WEB = deployment("web", 4)
FLEET = (cluster("m1"), cluster("m2"))


def named(name: str, **spec: Any) -> JSON:
    return policy(name, selector(name="web"), **{"schedulerName": "berthmaster", **spec})


def everywhere(name: str, *selectors: JSON, **spec: Any) -> JSON:
    return policy(name, *(selectors or (selector(),)), namespace="", **{"schedulerName": "berthmaster", **spec})


@pytest.mark.parametrize(
    ("earlier", "change", "region"),
    [
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


def test_a_template_of_the_same_name_gets_a_new_binding():
    stage = Stage(*FLEET, named("p"), WEB)
    stage.settle()
    first = stage.binding(WEB)
    stage.delete(WEB)
    stage.apply(WEB)
    stage.run(10)
    second = stage.binding(WEB)
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert stage.assignment(WEB) == {"m1": 2, "m2": 2}


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
