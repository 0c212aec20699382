import msgspec
import pytest
from builders import binding, cluster, taint
from kube_scheduler_builders import node

from berthmaster.model.binding import BindingStatus, binding_name
from berthmaster.model.cluster import (
    UNSCHEDULABLE,
    APIEnablement,
    APIResource,
    Condition,
    Node,
    NodeIdentity,
    Taint,
    Toleration,
    cluster_of_node,
    repelling_taints,
)
from berthmaster.model.decode import convert

NOT_READY = taint("not-ready:NoSchedule")
GPU = taint("gpu=true:NoExecute")


@pytest.mark.parametrize(
    ("toleration", "tolerated", "on"),
    [
        pytest.param(Toleration(key="gpu", value="true", effect="NoExecute"), True, GPU, id="all equal"),
        pytest.param(Toleration(key="gpu", operator="Equal", value="true"), True, GPU, id="any effect"),
        pytest.param(Toleration(key="gpu", operator="Equal", value="no"), False, GPU, id="another value"),
        pytest.param(Toleration(key="gpu"), False, GPU, id="an absent value is the empty value"),
        pytest.param(Toleration(key="not-ready"), True, NOT_READY, id="the empty value of a taint without one"),
        pytest.param(Toleration(key="gpu", operator="Exists"), True, GPU, id="any value"),
        pytest.param(Toleration(key="cpu", operator="Exists"), False, GPU, id="another key"),
        pytest.param(Toleration(operator="Exists"), True, GPU, id="any key and value"),
        pytest.param(Toleration(value="true"), True, GPU, id="an empty key matches any key with the same value"),
        pytest.param(Toleration(operator="Exists", effect="NoSchedule"), False, GPU, id="another effect"),
        pytest.param(Toleration(key="gpu", operator="exists"), False, GPU, id="an unknown operator"),
        pytest.param(
            Toleration(operator="Exists", toleration_seconds=0), True, GPU, id="toleration seconds are ignored"
        ),
    ],
)
def test_tolerations(toleration, tolerated, on):
    assert toleration.tolerates(on) is tolerated


@pytest.mark.parametrize(
    ("text", "repels"),
    [("a:NoSchedule", True), ("a:NoExecute", True), ("a:PreferNoSchedule", False), ("a:Unheard", False)],
)
def test_repelling_effects(text, repels):
    assert repelling_taints([taint(text)], ()) == ([taint(text)] if repels else [])


def test_every_taint_needs_a_toleration():
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    assert repelling_taints([GPU, NOT_READY], tolerations) == [NOT_READY]


@pytest.mark.parametrize("text", ["a:NoSchedule", "a=b:NoExecute"])
def test_taints_are_formatted_as_in_kubectl(text):
    assert str(taint(text)) == text


def test_a_value_may_contain_an_equals_sign_or_colon():
    assert taint("a=b=c:NoSchedule") == Taint(key="a", value="b=c", effect="NoSchedule")


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param([], False, id="no condition"),
        pytest.param([("Ready", "True")], True, id="ready"),
        pytest.param([("Ready", "Unknown")], False, id="unknown"),
        pytest.param([("CompleteAPIEnablements", "True"), ("Ready", "False")], False, id="another condition is true"),
    ],
)
def test_ready(conditions, ready):
    member = cluster()
    reported = tuple(Condition(type=kind, status=status) for kind, status in conditions)
    status = msgspec.structs.replace(member.status, conditions=reported)
    assert msgspec.structs.replace(member, status=status).ready is ready


@pytest.mark.parametrize("deleting", [True, False])
def test_deleting(deleting):
    assert cluster(deleting=deleting).deleting is deleting


@pytest.mark.parametrize(
    ("member", "fields"),
    [
        (cluster(provider="acme", region="north", zone="n1"), {"provider": "acme", "region": "north"}),
        (cluster(region="north"), {"region": "north"}),
        (cluster(), {}),
    ],
    ids=["both", "one", "none"],
)
def test_fields_of_a_cluster(member, fields):
    assert member.fields() == fields


def test_enabled_kinds():
    serves = [
        APIEnablement("v1", (APIResource("pods", "Pod"), APIResource("services", "Service"))),
        APIEnablement("empty.io/v1"),
        APIEnablement("apps/v1", (APIResource("deployments", "Deployment"),)),
    ]
    expected = [("v1", "Pod"), ("v1", "Service"), ("apps/v1", "Deployment")]
    assert list(cluster(serves=serves).enabled_kinds()) == expected


TIMES = {"before": "2026-01-01T00:00:00Z", "after": "2026-01-01T02:00:00+01:00"}


@pytest.mark.parametrize(
    ("triggered", "last", "requested"),
    [
        pytest.param("after", "before", True, id="triggered after the last scheduling, with any offset"),
        pytest.param("before", "after", False, id="triggered before"),
        pytest.param("before", "before", False, id="at the same time"),
        pytest.param("after", None, False, id="never scheduled"),
        pytest.param(None, "before", False, id="never triggered"),
    ],
)
def test_reschedule_requested(triggered, last, requested):
    status = convert(BindingStatus, {"lastScheduledTime": TIMES[last]} if last else {})
    moment = convert(BindingStatus, {"lastScheduledTime": TIMES[triggered]}).last_scheduled_time if triggered else None
    assert binding(reschedule_triggered_at=moment, status=status).reschedule_requested is requested


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [("Deployment", "nginx", "nginx-deployment"), ("ClusterRole", "system:Node", "system.node-clusterrole")],
)
def test_names_of_bindings(kind, name, expected):
    assert binding_name(kind, name) == expected


def node_cluster(**fields):
    return cluster_of_node(convert(Node, node("n1", **fields)))


def test_a_node_keeps_name_labels_and_deletion():
    made = node_cluster(tier="gold", deleting=True)
    assert (made.name, made.metadata.labels, made.deleting) == ("n1", {"tier": "gold"}, True)


@pytest.mark.parametrize(
    ("labels", "region", "zones"),
    [
        pytest.param({}, "", (), id="no labels"),
        pytest.param({"topology.kubernetes.io/region": "eu"}, "eu", (), id="the region is a label"),
        pytest.param({"topology.kubernetes.io/zone": "eu-a"}, "", ("eu-a",), id="the zone is a label"),
    ],
)
def test_region_and_zone(labels, region, zones):
    made = node_cluster(**labels)
    assert (made.spec.region, made.spec.zones) == (region, zones)


@pytest.mark.parametrize(
    ("provider_id", "provider"),
    [
        pytest.param("", "", id="none"),
        pytest.param("aws:///us-east-1a/i-0abc", "aws", id="the scheme of the id"),
        pytest.param("liqo://other-cluster", "liqo", id="the scheme of Liqo"),
        pytest.param("no-scheme", "", id="an id without scheme names no provider"),
    ],
)
def test_provider(provider_id, provider):
    assert node_cluster(provider_id=provider_id).spec.provider == provider


@pytest.mark.parametrize(
    ("fields", "taints"),
    [
        pytest.param({}, (), id="none"),
        pytest.param(
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]},
            (taint("k=v:NoExecute"),),
            id="the taints of the node",
        ),
        pytest.param({"unschedulable": True}, (UNSCHEDULABLE,), id="a cordoned node"),
        pytest.param(
            {"unschedulable": True, "taints": [{"key": UNSCHEDULABLE.key, "effect": "NoSchedule"}]},
            (UNSCHEDULABLE,),
            id="a cordoned node that already has the taint",
        ),
    ],
)
def test_taints(fields, taints):
    assert node_cluster(**fields).spec.taints == taints


def test_the_summary_holds_the_allocatable_amounts_only():
    summary = node_cluster(cpu="2", pods="30").status.resource_summary
    assert {name: amount.text for name, amount in summary.allocatable.items()} == {
        "cpu": "2",
        "memory": "8Gi",
        "pods": "30",
    }
    assert summary.allocated == {}


def test_a_node_without_amounts_has_no_summary():
    bare = cluster_of_node(convert(Node, {"metadata": {"name": "n1"}, "spec": None, "status": {}}))
    assert bare.status.resource_summary is None


def test_a_node_has_its_condition_and_serves_pods():
    made = node_cluster()
    assert made.ready
    assert list(made.enabled_kinds()) == [("v1", "Pod")]


def test_a_node_identity_makes_the_same_cluster_without_status():
    whole = node_cluster(tier="gold", provider_id="aws:///i", unschedulable=True)
    short = cluster_of_node(convert(NodeIdentity, node("n1", tier="gold", provider_id="aws:///i", unschedulable=True)))
    assert (short.metadata, short.spec) == (whole.metadata, whole.spec)
