import msgspec
import pytest
from builders import binding, cluster

from berthmaster.model.binding import BindingStatus, binding_name
from berthmaster.model.cluster import APIEnablement, APIResource, Condition
from berthmaster.model.decode import convert


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param([], False, id="nothing is said"),
        pytest.param([("Ready", "True")], True, id="it is ready"),
        pytest.param([("Ready", "Unknown")], False, id="nobody knows"),
        pytest.param([("CompleteAPIEnablements", "True"), ("Ready", "False")], False, id="another condition is true"),
    ],
)
def test_a_cluster_is_ready_when_it_says_so(conditions, ready):
    member = cluster()
    said = tuple(Condition(type=kind, status=status) for kind, status in conditions)
    status = msgspec.structs.replace(member.status, conditions=said)
    assert msgspec.structs.replace(member, status=status).ready is ready


@pytest.mark.parametrize("deleting", [True, False])
def test_a_cluster_is_deleting_from_its_deletion_timestamp_on(deleting):
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
def test_what_field_selectors_see(member, fields):
    assert member.fields() == fields


def test_every_kind_that_a_cluster_serves():
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
        pytest.param("after", "before", True, id="triggered after the last scheduling, whatever the offset"),
        pytest.param("before", "after", False, id="triggered before"),
        pytest.param("before", "before", False, id="at the same time"),
        pytest.param("after", None, False, id="never scheduled"),
        pytest.param(None, "before", False, id="never triggered"),
    ],
)
def test_when_a_rescheduling_is_requested(triggered, last, requested):
    status = convert(BindingStatus, {"lastScheduledTime": TIMES[last]} if last else {})
    moment = convert(BindingStatus, {"lastScheduledTime": TIMES[triggered]}).last_scheduled_time if triggered else None
    assert binding(reschedule_triggered_at=moment, status=status).reschedule_requested is requested


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [("Deployment", "nginx", "nginx-deployment"), ("ClusterRole", "system:Node", "system.node-clusterrole")],
)
def test_names_of_bindings(kind, name, expected):
    assert binding_name(kind, name) == expected
