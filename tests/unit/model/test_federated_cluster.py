import pytest
from builders import quantities
from kubeadmiral_builders import member

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.federated_cluster import FederatedCluster, as_cluster
from berthmaster.model.quantity import Quantity

STORED = {
    "apiVersion": "core.kubeadmiral.io/v1alpha1",
    "kind": "FederatedCluster",
    "metadata": {"name": "member1", "labels": {"az": "a"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"apiEndpoint": "https://member1", "taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": None}]},
    "status": {
        "joinPerformed": True,
        "conditions": [{"type": "Joined", "status": "True", "lastProbeTime": "2026-01-01T00:00:00Z"}],
        "apiResourceTypes": [
            {
                "group": "apps",
                "version": "v1",
                "kind": "Deployment",
                "pluralName": "deployments",
                "scope": "Namespaced",
            },
            {"version": "v1", "kind": "ConfigMap", "pluralName": "configmaps"},
        ],
        "resources": {"schedulableNodes": 3, "allocatable": {"cpu": "4"}, "available": {"cpu": "1500m"}},
    },
}


def test_what_is_stored_is_the_core_s_cluster():
    cluster = as_cluster(convert(FederatedCluster, STORED))
    assert (cluster.name, cluster.deleting, cluster.ready) == ("member1", True, False)
    assert cluster.metadata.labels == {"az": "a"}
    assert [str(each) for each in cluster.spec.taints] == ["a:NoSchedule"]
    assert list(cluster.enabled_kinds()) == [("apps/v1", "Deployment"), ("v1", "ConfigMap")]


@pytest.mark.parametrize(
    ("available", "used"),
    [
        pytest.param({"cpu": "1500m"}, "2500m", id="what is not available"),
        pytest.param({}, "4", id="all, if nothing is said to be available"),
        pytest.param({"cpu": "-1"}, "5", id="more than there is, of an overcommitted cluster"),
        pytest.param({"cpu": 4}, "0", id="nothing"),
    ],
)
def test_what_is_used(available, used):
    summary = member(allocatable={"cpu": 4}, available=available).status.resource_summary
    assert summary.allocatable == quantities({"cpu": 4})
    assert summary.allocated == {"cpu": Quantity.parse(used)}


def test_a_cluster_that_reports_nothing():
    cluster = as_cluster(convert(FederatedCluster, {"metadata": {"name": "new"}, "spec": None, "status": {}}))
    assert cluster.status.conditions == ()
    assert cluster.status.resource_summary.allocatable == {}


def test_a_quantity_that_is_none_is_named():
    with pytest.raises(FieldError) as raised:
        convert(FederatedCluster, {"metadata": {"name": "x"}, "status": {"resources": {"available": {"cpu": "much"}}}})
    assert raised.value.path == "status.resources.available[cpu]"
