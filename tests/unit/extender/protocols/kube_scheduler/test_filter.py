"""Filter: the nodes that remain, and the reasons of the others."""

import json

import pytest
from builders import placement, policy, selector
from kube_scheduler_builders import Service, group, node, pod
from tables import cases

from berthmaster.model.selector import parse_selector
from extender.protocols.kube_scheduler import KubeSchedulerOptions

GOLD, SILVER = group("primary", tier="gold"), group("backup", tier="silver")
FLEET = [node("g1", tier="gold"), node("g2", tier="gold"), node("s1", tier="silver"), node("b1", tier="bronze")]
NAMES = [each["metadata"]["name"] for each in FLEET]


@pytest.fixture(params=["names", "nodes"])
def ask(request):
    """Filter names or nodes, and return the names that remain. The known fleet is ``FLEET``."""

    def asked(wanted, names, options=None, policies=(), fleet=FLEET):
        service = Service(fleet, policies, options)
        nodes = [each for each in fleet if each["metadata"]["name"] in names]
        if request.param == "names":
            answer = service.filter(wanted, names)
            assert answer["Nodes"] is None
            return answer["NodeNames"], answer
        answer = service.filter_nodes(wanted, nodes)
        assert answer["NodeNames"] is None
        assert all(item in nodes for item in answer["Nodes"]["items"]), "nodes are returned unchanged"
        return [item["metadata"]["name"] for item in answer["Nodes"]["items"]], answer

    return asked


@cases(
    ("wanted", "names", "kept"),
    {
        "a pod without a placement passes everywhere": (pod(), NAMES, NAMES),
        "the first group with nodes": (pod(GOLD, SILVER), NAMES, ["g1", "g2"]),
        "one node of the first group is enough": (pod(GOLD, SILVER), ["g2", "s1"], ["g2"]),
        "the next group if no node of the first is offered": (pod(GOLD, SILVER), ["s1", "b1"], ["s1"]),
        "groups apply in order": (pod(SILVER, GOLD), NAMES, ["s1"]),
        "no group matches the node": (pod(GOLD, SILVER), ["b1"], []),
        "an empty placement": (pod(placement={}), NAMES, NAMES),
        "an empty list of groups": (pod(placement={"clusterAffinities": []}), NAMES, NAMES),
        "a single affinity": (pod(placement={"clusterAffinity": {"exclude": ["g1"]}}), NAMES, ["g2", "s1", "b1"]),
        "the first overflow tier of a group": (
            pod({**group("primary", "g1"), "overflowAffinities": [group("near", "g2"), group("far", "s1")]}),
            ["b1", "s1", "g2"],
            ["g2"],
        ),
        "minGroups does not apply to one pod": (
            pod(
                placement={
                    "clusterAffinities": [GOLD],
                    "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 5}],
                    "replicaScheduling": {"replicaSchedulingType": "Divided"},
                }
            ),
            ["g1"],
            ["g1"],
        ),
        "a node without the region of a spread constraint is rejected": (
            pod(placement={"spreadConstraints": [{"spreadByField": "region"}]}),
            NAMES,
            [],
        ),
    },
)
def test_keeps(ask, wanted, names, kept):
    assert ask(wanted, names)[0] == kept


@cases(
    ("wanted", "unresolvable"),
    {
        "no reasons for nodes that remain": (pod(), {}),
        "an eviction helps neither in a later group nor in no group": (
            pod(GOLD, SILVER),
            {
                "s1": "node(s) of cluster group backup, after primary, for annotation",
                "b1": "node(s) rejected: is in none of the cluster groups primary, backup, for annotation",
            },
        ),
        "with a single group": (
            pod(GOLD),
            dict.fromkeys(["s1", "b1"], "node(s) rejected: is not in the cluster group primary, for annotation"),
        ),
        "with an affinity without a name": (
            pod(placement={"clusterAffinity": {"clusterNames": ["g1", "g2", "s1"]}}),
            {"b1": "node(s) rejected: does not match the cluster affinity, for annotation"},
        ),
    },
)
def test_reasons(ask, wanted, unresolvable):
    _, answer = ask(wanted, NAMES)
    assert (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == ({}, unresolvable)
    assert answer["Error"] == ""


@cases(
    "differ",
    {
        "labels": lambda index: node(f"n{index}", tier=f"t{index}"),
        "taints": lambda index: node(f"n{index}", tier="gold", taints=[{"key": f"k{index}", "effect": "NoSchedule"}]),
    },
)
def test_the_values_of_nodes_make_no_more_reasons(ask, differ):
    """kube-scheduler cuts an event at 1,024 characters, and one with a reason for each node says nothing."""
    nodes = [differ(index) for index in range(60)]
    _, answer = ask(pod(GOLD), [each["metadata"]["name"] for each in nodes], fleet=nodes)
    assert len(answer["FailedAndUnresolvableNodes"]) == 60
    assert len(set(answer["FailedAndUnresolvableNodes"].values())) == 1


TAINTED = {"key": "virtual-node.liqo.io/not-allowed", "value": "true", "effect": "NoExecute"}
TOLERATING = {"key": TAINTED["key"], "operator": "Exists"}


@cases(
    ("wanted", "kept"),
    {
        "neither tolerates the taint": (pod(GOLD), []),
        "the pod tolerates the taint": (pod(GOLD, tolerations=[TOLERATING]), ["v1"]),
        "the placement tolerates the taint": (
            pod(placement={"clusterAffinities": [GOLD], "clusterTolerations": [TOLERATING]}),
            ["v1"],
        ),
    },
)
def test_taints(ask, wanted, kept):
    names, answer = ask(wanted, ["v1"], fleet=[node("v1", tier="gold", taints=[TAINTED])])
    assert names == kept
    if not kept:
        assert "has an untolerated taint" in answer["FailedAndUnresolvableNodes"]["v1"]


def test_a_node_that_is_being_deleted_is_rejected(ask):
    names, answer = ask(pod(GOLD), ["g1"], fleet=[node("g1", tier="gold", deleting=True)])
    assert names == []
    assert answer["FailedAndUnresolvableNodes"]["g1"] == "node(s) rejected: is being deleted, for annotation"


MEMBERS = KubeSchedulerOptions(members=parse_selector("type=virtual-node"))
MIXED = [node("v1", type="virtual-node"), node("plain")]


@cases(
    ("wanted", "kept"),
    {
        "a pod without a placement passes on ordinary nodes too": (pod(), ["v1", "plain"]),
        "a placement rejects ordinary nodes": (pod(placement={}), ["v1"]),
    },
)
def test_ordinary_nodes(ask, wanted, kept):
    names, answer = ask(wanted, ["v1", "plain"], options=MEMBERS, fleet=MIXED)
    assert names == kept
    if "plain" not in kept:
        assert answer["FailedAndUnresolvableNodes"] == {"plain": "node(s) not member clusters, for annotation"}


def test_a_selector_of_members_that_matches_no_node_is_reported(caplog):
    """Each product labels its nodes in its own way, and every pod with a placement waits if the label is wrong."""
    service = Service(FLEET, options=MEMBERS)
    for _ in range(3):
        assert not service.filter(pod(GOLD), NAMES)["NodeNames"]
    assert [call[2] for call in service.metrics.calls_of("decided")] == ["no-members"] * 3
    assert caplog.text.count("--kube-scheduler-members matches none of the 4 nodes of a request") == 1
    service.clock.pass_by(60)
    service.filter(pod(GOLD), NAMES)
    assert caplog.text.count("--kube-scheduler-members matches none") == 2
    service.filter(pod(), NAMES)
    assert service.metrics.calls_of("decided")[-1][2] == "passed"


PLACED = policy(
    "web", namespace="shop", selectors=[selector(name="web")], placement=placement(clusterAffinities=[GOLD, SILVER])
)
OWNED = {
    "owner": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9f"},
    "labels": {"pod-template-hash": "7d9f"},
}


def test_the_policy_of_the_deployment_applies_to_a_pod(ask):
    names, answer = ask(pod(**OWNED), NAMES, policies=[PLACED])
    assert names == ["g1", "g2"]
    assert answer["FailedAndUnresolvableNodes"]["s1"].endswith("for PropagationPolicy shop/web")


def test_the_annotation_takes_precedence_over_a_policy(ask):
    assert ask(pod(SILVER, **OWNED), NAMES, policies=[PLACED])[0] == ["s1"]


@cases(
    ("text", "message"),
    {
        "invalid JSON": ("{", "not valid JSON"),
        "not an object": ("[]", "where a mapping is accepted"),
        "null": ("null", "null is not accepted; accepted is an object"),
        "a misspelt field": ('{"clusterAffinites": []}', "did you mean clusterAffinities?"),
        "a value of the wrong type": ('{"clusterAffinity": {"clusterNames": "a"}}', "clusterNames"),
        "an invalid selector": (json.dumps({"clusterAffinities": [group("a", **{"bad key": "v"})]}), "not a label key"),
    },
)
def test_an_invalid_annotation_is_an_error_without_nodes(text, message):
    answer = Service(FLEET).filter(pod(placement=text), NAMES)
    assert answer["Error"].startswith("berthmaster: metadata.annotations[policy.berthmaster.io/placement]")
    assert message in answer["Error"]
    assert answer["NodeNames"] is answer["Nodes"] is None


def test_decisions_and_rejections_are_counted():
    service = Service(FLEET)
    service.filter(pod(GOLD, SILVER), NAMES)
    assert service.metrics.calls_of("decided") == [("kube-scheduler", "filter", "placed")]
    assert sorted(service.metrics.calls_of("rejected")) == [("ClusterAffinity", 1), ("GroupOrder", 1)]


@cases(
    ("fleet", "wanted", "names", "kept", "failed", "error"),
    {
        "beside known nodes": (
            FLEET, pod(GOLD), ["g1", "new"], ["g1"], {"new": "node(s) not known yet, for annotation"}, "",
        ),
        "without another node": (FLEET, pod(GOLD), ["new", "b1"], None, None, "1 of the nodes are not known yet (new)"),
        "without a fleet": (None, pod(GOLD), ["g1"], None, None, "no nodes are known yet"),
        "without a placement": (None, pod(), ["g1"], ["g1"], {}, ""),
    },
)  # fmt: skip
def test_names_that_are_not_in_the_fleet(fleet, wanted, names, kept, failed, error):
    answer = Service(fleet).filter(wanted, names)
    assert (answer["NodeNames"], answer["FailedNodes"]) == (kept, failed)
    assert error in answer["Error"]
    assert bool(error) is bool(answer["Error"])


def test_without_a_source_the_error_says_what_is_missing():
    service = Service(None)
    service.state.has_source = False
    assert "need --watch nodes" in service.filter(pod(GOLD), ["g1"])["Error"]


def test_whole_nodes_need_no_fleet():
    answer = Service(None).filter_nodes(pod(GOLD, SILVER), FLEET)
    assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["g1", "g2"]
