"""Which placement is a pod's."""

import pytest
from builders import placement, policy, selector
from kube_scheduler_builders import group, pod

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from extender.protocols.kube_scheduler.placements import PlacementFinder, parse_placement, request_of, templates_of
from extender.protocols.kube_scheduler.wire import Pod


def typed(**fields):
    return convert(Pod, pod(**fields))


def owner(kind, name, api_version="apps/v1"):
    return {"apiVersion": api_version, "kind": kind, "name": name}


@pytest.mark.parametrize(
    ("fields", "resources"),
    [
        pytest.param({}, ["Pod web-1"], id="a pod of its own"),
        pytest.param({"owner": owner("StatefulSet", "db")}, ["Pod web-1", "StatefulSet db"], id="its controller"),
        pytest.param(
            {"owner": owner("ReplicaSet", "web-7d9f"), "labels": {"pod-template-hash": "7d9f"}},
            ["Pod web-1", "ReplicaSet web-7d9f", "Deployment web"],
            id="the Deployment of a ReplicaSet",
        ),
        pytest.param(
            {"owner": owner("ReplicaSet", "web"), "labels": {"pod-template-hash": "7d9f"}},
            ["Pod web-1", "ReplicaSet web"],
            id="a ReplicaSet by another name has none",
        ),
        pytest.param(
            {"owner": owner("ReplicaSet", "web-7d9f")}, ["Pod web-1", "ReplicaSet web-7d9f"], id="or without the label"
        ),
        pytest.param(
            {"owner": owner("ReplicaSet", "web-7d9f", "example.io/v1"), "labels": {"pod-template-hash": "7d9f"}},
            ["Pod web-1", "ReplicaSet web-7d9f"],
            id="somebody else's ReplicaSet is not Kubernetes'",
        ),
        pytest.param(
            {"owner": {**owner("Job", "j", "batch/v1"), "controller": False}}, ["Pod web-1"], id="a mere owner is none"
        ),
    ],
)
def test_resources_whose_policy_may_be_the_pods(fields, resources):
    assert [f"{each.kind} {each.name}" for each in templates_of(typed(**fields))] == resources


WEB = {"owner": owner("ReplicaSet", "web-7d9f"), "labels": {"pod-template-hash": "7d9f", "app": "web"}}


def claiming(name, **fields):
    return policy(name, namespace="shop", placement=placement(clusterAffinity={"clusterNames": [name]}), **fields)


@pytest.mark.parametrize(
    ("policies", "source"),
    [
        pytest.param([], "", id="none"),
        pytest.param([claiming("p")], "PropagationPolicy shop/p", id="for all Deployments of the namespace"),
        pytest.param(
            [claiming("p", selectors=[selector(labelSelector={"matchLabels": {"app": "web"}})])],
            "PropagationPolicy shop/p",
            id="by the pod's labels, which stand for its Deployment's",
        ),
        pytest.param(
            [claiming("p"), claiming("q", selectors=[selector("Pod", "v1")])],
            "PropagationPolicy shop/q",
            id="the nearest resource counts: the pod itself",
        ),
        pytest.param(
            [claiming("p", cluster_scoped=True), claiming("q")],
            "PropagationPolicy shop/q",
            id="namespaced before cluster-wide",
        ),
        pytest.param(
            [claiming("p", cluster_scoped=True)], "ClusterPropagationPolicy p", id="cluster-wide if there is no other"
        ),
        pytest.param([policy("p", namespace="elsewhere")], "", id="not of another namespace"),
        pytest.param([claiming("p", deleting=True)], "", id="not one that is being deleted"),
    ],
)
def test_policies(policies, source):
    assert PlacementFinder().find(typed(**WEB), policies).source == source


def test_policies_do_not_reach_the_control_planes_own_pods():
    everything = [policy("p", cluster_scoped=True, selectors=[selector("Pod", "v1")])]
    assert PlacementFinder().find(typed(namespace="kube-system"), everything).placement is None
    assert PlacementFinder().find(typed(namespace="shop"), everything).placement is not None


def test_policies_that_change_are_seen():
    finder = PlacementFinder()
    assert finder.find(typed(**WEB), [claiming("p")]).source.endswith("/p")
    assert finder.find(typed(**WEB), [claiming("q")]).source.endswith("/q")


def test_equal_input_gives_the_same_placement_object_so_that_it_is_taken_apart_once():
    finder = PlacementFinder()
    first, second = (finder.find(convert(Pod, pod(group("a", "n1"), name=name)), []) for name in ("x", "y"))
    assert first.placement is second.placement


def test_what_is_remembered_is_bounded():
    finder = PlacementFinder()
    for index in range(5000):
        finder.find(convert(Pod, pod(group("a", f"n{index}"))), [])
    assert len(finder._annotated) <= 4096
    assert len(finder._effective) <= 4096


def test_a_blank_annotation_is_none():
    assert PlacementFinder().find(typed(placement="  "), []).placement is None


def test_an_annotation_longer_than_kubernetes_allows_is_refused():
    with pytest.raises(FieldError, match="accepted are 262144"):
        parse_placement(" " * 300_000)


def test_an_annotation_has_karmadas_defaults():
    parsed = parse_placement('{"spreadConstraints": [{"minGroups": 2}], "replicaScheduling": {}}')
    assert parsed.spread_constraints[0].spread_by_field == "cluster"
    assert parsed.replica_scheduling.replica_scheduling_type == "Divided"


def test_a_pod_is_one_replica_with_what_kubernetes_counts():
    request = request_of(typed(cpu="250m"), placement())
    assert (request.replicas, request.requests, request.current) == (1, (("cpu", 250),), {})
    assert (request.api_version, request.kind, request.namespace) == ("v1", "Pod", "shop")
