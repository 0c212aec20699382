"""Nodes and placements."""

import json

import pytest
from builders import placement, policy, selector
from hypothesis import given
from hypothesis import strategies as st
from kube_scheduler_builders import group, node, pod
from retained import retained
from tables import cases

from berthmaster.model.cluster_node import Node, cluster_of_node
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.placement_limits import DEFAULT_LIMITS
from berthmaster.model.selector import parse_selector
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols.kube_scheduler import placements
from extender.protocols.kube_scheduler.nodes import CachedNodes, RequestNodes, members_of
from extender.protocols.kube_scheduler.placements import PlacementFinder, parse_placement, request_of, templates_of
from extender.protocols.kube_scheduler.wire import Pod


def typed(**fields):
    return convert(Pod, pod(**fields))


def owner(kind, name, api_version="apps/v1"):
    return {"apiVersion": api_version, "kind": kind, "name": name}


@cases(
    ("fields", "resources"),
    {
        "a pod without a controller": ({}, ["Pod web-1"]),
        "its controller": ({"owner": owner("StatefulSet", "db")}, ["Pod web-1", "StatefulSet db"]),
        "the Deployment of a ReplicaSet": (
            {"owner": owner("ReplicaSet", "web-7d9f"), "labels": {"pod-template-hash": "7d9f"}},
            ["Pod web-1", "ReplicaSet web-7d9f", "Deployment web"],
        ),
        "no Deployment for a ReplicaSet with another name": (
            {"owner": owner("ReplicaSet", "web"), "labels": {"pod-template-hash": "7d9f"}},
            ["Pod web-1", "ReplicaSet web"],
        ),
        "no Deployment without the label": (
            {"owner": owner("ReplicaSet", "web-7d9f")},
            ["Pod web-1", "ReplicaSet web-7d9f"],
        ),
        "no Deployment for a ReplicaSet of another API": (
            {"owner": owner("ReplicaSet", "web-7d9f", "example.io/v1"), "labels": {"pod-template-hash": "7d9f"}},
            ["Pod web-1", "ReplicaSet web-7d9f"],
        ),
        "the CronJob of a Job": (
            {"owner": owner("Job", "report-29012345", "batch/v1")},
            ["Pod web-1", "Job report-29012345", "CronJob report"],
        ),
        "no CronJob for a Job with another name": (
            {"owner": owner("Job", "report-2901", "batch/v1")},
            ["Pod web-1", "Job report-2901"],
        ),
        "an owner that is not the controller": (
            {"owner": {**owner("Job", "j", "batch/v1"), "controller": False}},
            ["Pod web-1"],
        ),
    },
)
def test_resources_whose_policy_applies_to_the_pod(fields, resources):
    assert [f"{each.kind} {each.name}" for each in templates_of(typed(**fields))] == resources


WEB = {"owner": owner("ReplicaSet", "web-7d9f"), "labels": {"pod-template-hash": "7d9f", "app": "web"}}


def claiming(name, **fields):
    return policy(name, namespace="shop", placement=placement(clusterAffinity={"clusterNames": [name]}), **fields)


@cases(
    ("policies", "source"),
    {
        "no policy": ([], ""),
        "a policy for all Deployments of the namespace": ([claiming("p")], "PropagationPolicy shop/p"),
        "a policy by the labels of the pod": (
            [claiming("p", selectors=[selector(labelSelector={"matchLabels": {"app": "web"}})])],
            "PropagationPolicy shop/p",
        ),
        "a policy for the pod takes precedence": (
            [claiming("p"), claiming("q", selectors=[selector("Pod", "v1")])],
            "PropagationPolicy shop/q",
        ),
        "a namespaced policy takes precedence": (
            [claiming("p", cluster_scoped=True), claiming("q")],
            "PropagationPolicy shop/q",
        ),
        "a cluster-wide policy": ([claiming("p", cluster_scoped=True)], "ClusterPropagationPolicy p"),
        "no policy of another namespace": ([policy("p", namespace="elsewhere")], ""),
        "no policy that is being deleted": ([claiming("p", deleting=True)], ""),
    },
)
def test_policies(policies, source):
    assert PlacementFinder().find(typed(**WEB), policies).source == source


def test_policies_do_not_apply_in_the_namespaces_of_the_control_plane():
    everything = [policy("p", cluster_scoped=True, selectors=[selector("Pod", "v1")])]
    assert PlacementFinder().find(typed(namespace="kube-system"), everything).placement is None
    assert PlacementFinder().find(typed(namespace="shop"), everything).placement is not None


def test_policies_of_custom_resources_are_named_once():
    """Pods of a controller of a controller are found for kinds of Kubernetes only."""
    finder = PlacementFinder()
    rollout = claiming("p", selectors=[selector("Rollout", "argoproj.io/v1alpha1"), selector("CronJob", "batch/v1")])
    for policies, expected in (
        ([claiming("q")], []),
        ([claiming("q"), rollout], ["PropagationPolicy shop/p selects Rollout of argoproj.io/v1alpha1"]),
        ([rollout, claiming("r", selectors=[selector("Ingress", "networking.k8s.io/v1")])], []),
    ):
        assert finder.find(typed(**WEB), policies) is not None
        assert finder.take_doubtful() == expected
    assert finder.take_doubtful() == []


def test_a_change_of_the_policies_takes_effect():
    finder = PlacementFinder()
    assert finder.find(typed(**WEB), [claiming("p")]).source.endswith("/p")
    assert finder.find(typed(**WEB), [claiming("q")]).source.endswith("/q")


def test_equal_input_gives_the_same_placement_object():
    finder = PlacementFinder()
    first, second = (finder.find(convert(Pod, pod(group("a", "n1"), name=name)), []) for name in ("x", "y"))
    assert first.placement is second.placement


def test_the_caches_are_bounded_by_bytes(monkeypatch):
    monkeypatch.setattr(placements, "_CACHE_BYTES", 20_000)
    finder = PlacementFinder()
    for index in range(50):
        finder.find(convert(Pod, pod(group("a", f"n{index}"))), [])
        if index == 20:
            full = retained(finder)
    assert retained(finder) <= full


def test_an_annotation_above_a_limit_is_an_error_that_names_the_field():
    groups = json.dumps({"clusterAffinities": [group(f"g{index}", "n") for index in range(3)]})
    expected = r"metadata.annotations\[policy.berthmaster.io/placement\].clusterAffinities: 3 groups; at most 2 are"
    with pytest.raises(FieldError, match=expected):
        parse_placement(groups, DEFAULT_LIMITS._replace(groups=2))


def test_a_blank_annotation_is_ignored():
    assert PlacementFinder().find(typed(placement="  "), []).placement is None


def test_an_annotation_longer_than_the_limit_of_kubernetes_is_an_error():
    with pytest.raises(FieldError, match="accepted are at most 262144"):
        parse_placement(" " * 300_000)


def test_an_annotation_gets_karmadas_defaults():
    parsed = parse_placement('{"spreadConstraints": [{"minGroups": 2}], "replicaScheduling": {}}')
    assert parsed.spread_constraints[0].spread_by_field == "cluster"
    assert parsed.replica_scheduling.replica_scheduling_type == "Divided"


def test_the_request_of_a_pod_is_one_replica_with_its_resources():
    request = request_of(typed(cpu="250m"), placement())
    assert (request.replicas, request.requests, request.current) == (1, (("cpu", 250),), {})
    assert (request.api_version, request.kind, request.namespace) == ("v1", "Pod", "shop")


TAINT = {"key": "k", "effect": "NoSchedule"}
NAMES = [f"n{index}" for index in range(8)]

affinities = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": st.builds(lambda tier: {"matchLabels": {"tier": tier}}, st.sampled_from("abc")),
        "fieldSelector": st.builds(
            lambda region: {"matchExpressions": [{"key": "region", "operator": "In", "values": [region]}]},
            st.sampled_from(["eu", "us"]),
        ),
        "clusterNames": st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
        "exclude": st.lists(st.sampled_from(NAMES), max_size=2),
    },
)


def named(name, affinity, overflow):
    extra = {"overflowAffinities": [{"affinityName": f"o{i}", **each} for i, each in enumerate(overflow)]}
    return {"affinityName": name, **affinity, **(extra if overflow else {})}


groups = st.lists(st.tuples(affinities, st.lists(affinities, max_size=2)), max_size=4).map(
    lambda found: [named(f"g{index}", *each) for index, each in enumerate(found)]
)
weights = st.lists(st.tuples(affinities, st.integers(1, 9)), max_size=3).map(
    lambda found: [{"targetCluster": affinity, "weight": weight} for affinity, weight in found]
)


@st.composite
def placements_of_nodes(draw):
    return {
        "clusterAffinities": draw(groups),
        "clusterTolerations": draw(st.sampled_from([[], [{"key": "k", "operator": "Exists"}]])),
        "spreadConstraints": draw(st.sampled_from([[], [{"spreadByField": "region"}]])),
        "replicaScheduling": {"weightPreference": {"staticWeightList": draw(weights)}},
    }


@st.composite
def fleets(draw):
    made = []
    for name in NAMES[: draw(st.integers(0, len(NAMES)))]:
        labels = {"tier": draw(st.sampled_from("abc")), "type": draw(st.sampled_from(["member", "plain"]))}
        if draw(st.booleans()):
            labels["topology.kubernetes.io/region"] = draw(st.sampled_from(["eu", "us"]))
        taints, deleting = draw(st.sampled_from([[], [TAINT]])), draw(st.booleans()) and draw(st.booleans())
        cpu = draw(st.sampled_from(["1", "2", "16"]))
        made.append(cluster_of_node(convert(Node, node(name, taints=taints, deleting=deleting, cpu=cpu, **labels))))
    return made


@given(fleets(), placements_of_nodes(), st.sampled_from(["", "type=member"]))
def test_cached_nodes_and_request_nodes_have_the_same_ranks_scores_and_reasons(clusters, wanted, members):
    profile, who = karmada_profile(), members_of(parse_selector(members))
    asked = convert(Pod, pod(placement=wanted))
    request = request_of(asked, PlacementFinder().find(asked, []).placement)
    names = [cluster.name for cluster in clusters]
    known, shown = CachedNodes(Fleet(clusters), profile, who), RequestNodes(clusters, profile, who)
    by_columns, by_definition = known.ranked(request, names), shown.ranked(request)
    assert by_columns.ranks == by_definition.ranks
    assert known.scores(request, by_columns) == shown.scores(request, by_definition)
    for position in range(len(names)):
        assert known.rejection(by_columns, position) == shown.rejection(by_definition, position)
