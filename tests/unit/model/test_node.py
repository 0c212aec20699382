"""A node as the cluster it stands for."""

import pytest
from builders import taint
from kube_scheduler_builders import node

from berthmaster.model.decode import convert
from berthmaster.model.node import UNSCHEDULABLE, Node, NodeIdentity, cluster_of_node


def cluster(**fields):
    return cluster_of_node(convert(Node, node("n1", **fields)))


def test_name_labels_and_deletion_are_the_nodes():
    made = cluster(tier="gold", deleting=True)
    assert (made.name, made.metadata.labels, made.deleting) == ("n1", {"tier": "gold"}, True)


@pytest.mark.parametrize(
    ("labels", "region", "zones"),
    [
        pytest.param({}, "", (), id="without labels it is nowhere"),
        pytest.param({"topology.kubernetes.io/region": "eu"}, "eu", (), id="the region is a label"),
        pytest.param({"topology.kubernetes.io/zone": "eu-a"}, "", ("eu-a",), id="the zone is a label"),
    ],
)
def test_region_and_zone(labels, region, zones):
    made = cluster(**labels)
    assert (made.spec.region, made.spec.zones) == (region, zones)


@pytest.mark.parametrize(
    ("provider_id", "provider"),
    [
        pytest.param("", "", id="none"),
        pytest.param("aws:///us-east-1a/i-0abc", "aws", id="the scheme of the id"),
        pytest.param("liqo://other-cluster", "liqo", id="of Liqo, too"),
        pytest.param("no-scheme", "", id="an id without scheme names no provider"),
    ],
)
def test_provider(provider_id, provider):
    assert cluster(provider_id=provider_id).spec.provider == provider


@pytest.mark.parametrize(
    ("fields", "taints"),
    [
        pytest.param({}, (), id="none"),
        pytest.param(
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]},
            (taint("k=v:NoExecute"),),
            id="its own",
        ),
        pytest.param({"unschedulable": True}, (UNSCHEDULABLE,), id="a cordoned node has its taint at once"),
        pytest.param(
            {"unschedulable": True, "taints": [{"key": UNSCHEDULABLE.key, "effect": "NoSchedule"}]},
            (UNSCHEDULABLE,),
            id="and not twice",
        ),
    ],
)
def test_taints(fields, taints):
    assert cluster(**fields).spec.taints == taints


def test_what_it_can_hold_is_its_summary_and_nothing_is_taken():
    summary = cluster(cpu="2", pods="30").status.resource_summary
    assert {name: amount.text for name, amount in summary.allocatable.items()} == {
        "cpu": "2",
        "memory": "8Gi",
        "pods": "30",
    }
    assert summary.allocated == {}


def test_a_node_that_reports_no_amounts_has_no_summary():
    bare = cluster_of_node(convert(Node, {"metadata": {"name": "n1"}, "spec": None, "status": {}}))
    assert bare.status.resource_summary is None


def test_it_is_ready_as_its_condition_says_and_serves_pods():
    made = cluster()
    assert made.ready
    assert list(made.enabled_kinds()) == [("v1", "Pod")]


def test_an_identity_alone_makes_the_same_cluster_without_what_the_node_reports():
    whole = cluster(tier="gold", provider_id="aws:///i", unschedulable=True)
    short = cluster_of_node(convert(NodeIdentity, node("n1", tier="gold", provider_id="aws:///i", unschedulable=True)))
    assert (short.metadata, short.spec) == (whole.metadata, whole.spec)
