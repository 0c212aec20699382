"""Which parts of bindings and clusters are one value, and that no part changes."""

import msgspec
import pytest

from berthmaster.model.binding import AggregatedStatusItem, Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.sharing import SharedParts, SharingReader
from berthmaster.model.unsupported import decode_checked_binding


def document(name: str, replicas: int = 2, clusters: int = 3) -> bytes:
    targets = [{"name": f"a-cluster-{each}", "replicas": replicas} for each in range(clusters)]
    status = {"replicas": replicas, "readyReplicas": replicas}
    reports = [
        {"clusterName": each["name"], "status": status, "applied": True, "health": "Healthy"} for each in targets
    ]
    condition = {
        "type": "Scheduled",
        "status": "True",
        "reason": "Success",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return encode_json({
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": {"by": "policy-id", "own": name},
            "annotations": {"policy": "web", "placement": "{}"}, "finalizers": ["karmada.io/binding-controller"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"uid-{name}"}],
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
            "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
            "placement": {"clusterAffinity": {"clusterNames": ["a-cluster-1"]}},
            "clusters": targets, "suspension": {"dispatching": True},
            "components": [{"name": "main", "replicas": 1}],
        },
        "status": {"conditions": [condition], "aggregatedStatus": reports},
    })  # fmt: skip


@pytest.mark.parametrize("hold_unknown", [True, False])
def test_a_binding_is_the_same_as_without_sharing(*, hold_unknown: bool):
    reader = SharingReader(hold_unknown=hold_unknown)
    for name in ("web", "api", "web"):
        assert reader.binding(document(name)) == decode_checked_binding(document(name))


def test_bindings_share_what_is_equal():
    reader = SharingReader()
    one, other = reader.binding(document("web")), reader.binding(document("api"))

    def parts(binding: Binding) -> list[object]:
        spec, metadata, first = binding.spec, binding.metadata, binding.status.aggregated_status[0]
        return [
            spec.placement, spec.replica_requirements, spec.components, spec.suspension, spec.resource.namespace,
            spec.clusters[0].name, metadata.annotations, metadata.finalizers, metadata.labels["by"],
            metadata.owner_references[0].kind, binding.status.conditions[0].reason, first.status, first.cluster_name,
        ]  # fmt: skip

    for index, (mine, its) in enumerate(zip(parts(one), parts(other), strict=True)):
        assert mine is its, f"part {index}"


def test_a_report_of_another_cluster_costs_only_its_own_entry():
    reports = SharingReader().binding(document("web", clusters=20)).status.aggregated_status
    assert len({id(each.status) for each in reports}) == 1


def test_equal_json_of_other_types_is_not_shared():
    raw = decode_json(dict, document("web"))
    raw["status"]["aggregatedStatus"][0]["status"] = raw["spec"]["suspension"]
    raw["spec"]["clusters"][0]["components"] = raw["spec"]["components"]
    text = encode_json(raw)
    assert SharingReader().binding(text) == decode_checked_binding(text)


def test_clusters_share_the_kinds_that_they_serve():
    served = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
    raw = {"metadata": {"name": "a"}, "status": {"apiEnablements": served}}
    reader = SharingReader()
    found = [
        reader.cluster(decode_json(Cluster, encode_json({**raw, "metadata": {"name": name}}))) for name in ("a", "b")
    ]
    assert found[0].status.api_enablements is found[1].status.api_enablements
    assert msgspec.structs.replace(found[0], metadata=found[1].metadata) == found[1]


def test_parts_above_the_limit_are_forgotten_together():
    parts = SharedParts(most_bytes=1000)
    for number in range(100):
        parts.part("status", AggregatedStatusItem(f"cluster-{number}"))
        assert len(parts) <= 8
    assert parts.part("status", AggregatedStatusItem("cluster-99")) == AggregatedStatusItem("cluster-99")
