"""What is read from a control plane: exactly what the answer needs, in pages, and a sentence for each gap."""

from datetime import UTC, datetime

import pytest
from faults import in_turn, only, refuse
from karmada_plane import binding, cluster, deployment, policy, selector, serve_karmada, shop, store
from kube_in_memory import KubeInMemory, ScriptedClient
from tables import cases

from berthmaster.kube import requests
from berthmaster.kube.served_types import discover_types
from berthmaster.manifests import manifests_of
from berthmaster.manifests.document import Document
from berthmaster.manifests.snapshot import FleetSnapshot
from berthmaster.model.errors import ApiError, InputError, ServiceError
from berthmaster.model.gaps import texts
from berthmaster.model.readers import ANY_READER
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, ListingBars, ReadLimits
from berthmaster_cli.live.source import LiveRead, resolved


@pytest.fixture
def api() -> KubeInMemory:
    api = KubeInMemory()
    shop(api)
    return api


def reader(api: KubeInMemory, **limits) -> CollectionReader:
    return CollectionReader(api, "karmada", ReadLimits(**limits), ListingBars(), sleep=lambda _: None)


def fleet(api: KubeInMemory, namespace: str = "", over=(), **limits):
    read = LiveRead(reader(api, **limits), discover_types(api), over)
    read.read_fleet(namespace)
    return read


def workload(api: KubeInMemory, text: str, namespace: str = "shop", over=(), **more):
    read = LiveRead(reader(api), discover_types(api), over)
    read.read_workload(*resolved(read.types, ResourceName.parse(text), namespace), **more)
    return read


def names(read) -> list[str]:
    return sorted(f"{each.kind} {'/'.join(filter(None, (each.namespace, each.name)))}" for each in read.documents)


def lists(api: KubeInMemory) -> set[str]:
    return {request.path for request in api.requests if request.verb == "list"}


def test_a_fleet_is_read_with_the_templates_that_bindings_name_and_policies_select(api):
    assert names(fleet(api)) == [
        "Cluster member1", "Cluster member2", "Cluster member3",
        "ClusterPropagationPolicy db", "ClusterPropagationPolicy roles", "ClusterResourceBinding viewer-clusterrole",
        "ClusterRole viewer", "ConfigMap shop/settings", "Deployment shop/web", "PropagationPolicy shop/web",
        "ResourceBinding shop/web-deployment", "StatefulSet shop/postgres",
    ]  # fmt: skip


def test_templates_without_replicas_and_candidates_of_policies_are_read_as_metadata_first(api):
    read = {each.name: each.raw for each in fleet(api).documents}
    assert ("data" in read["settings"], "rules" in read["viewer"]) == (False, False)
    assert read["postgres"]["spec"]["replicas"] == 3
    asked = [request.path for request in api.requests if "statefulsets" in request.path]
    assert asked == ["/apis/apps/v1/statefulsets", "/apis/apps/v1/namespaces/shop/statefulsets/postgres"]


def test_managed_fields_are_dropped_and_types_are_set(api):
    (web,) = [each for each in fleet(api).documents if each.kind == "Deployment"]
    assert "managedFields" not in web.raw["metadata"]
    assert (web.api_version, web.source) == ("apps/v1", "karmada: Deployment shop/web")


def test_one_namespace_is_read_without_other_namespaces_and_without_cluster_scoped_resources(api):
    read = fleet(api, "shop")
    assert not {"ClusterResourceBinding viewer-clusterrole", "ClusterRole viewer"} & {*names(read)}
    assert "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings" in lists(api)
    assert not any("clusterroles" in path or "clusterresourcebindings" in path for path in lists(api))


def test_policies_of_an_overlay_select_templates_too(api):
    wanted = policy("all", selector())
    read = fleet(api, over=[Document("new.yaml", 1, "", wanted)])
    assert "Deployment shop/unclaimed" in names(read)


def test_lists_are_read_in_pages_and_recorded(api, monkeypatch):
    monkeypatch.setattr(requests, "PAGE_SIZE", 2)
    store(api, cluster("member4"), cluster("member5"))
    read = fleet(api)
    pages = [request for request in api.requests if request.path.endswith("/clusters")]
    assert [dict(request.query).get("continue") for request in pages] == [None, "2", "4"]
    record = next(each for each in read.records if each.resource == "clusters.cluster.karmada.io")
    assert (record.objects, record.resource_version) == (5, str(api.version))


def test_an_expired_list_is_read_again(api):
    api.before = only(refuse(410, "Expired"), part="/clusters$", times=1)
    assert "Cluster member3" in names(fleet(api))


def test_an_overloaded_server_is_asked_again(api):
    api.before = only(in_turn(refuse(429, "TooManyRequests", 1.0), refuse(503)), part="/clusters$")
    assert "Cluster member1" in names(fleet(api))


@cases(
    ("limits", "message"),
    {
        "objects": ({"objects": 5}, "more than 5 objects"),
        "bytes": ({"total_bytes": 100}, "or 100 bytes"),
        "time": ({"timeout_s": 0.0}, "longer than 0 s"),
    },
)
def test_a_limit_that_is_exceeded_is_an_error(api, limits, message):
    with pytest.raises(InputError, match=message):
        fleet(api, **limits)


@cases(
    ("limits", "size"),
    {"with many objects": ({"objects": 80}, 1), "with large objects": ({"total_bytes": 100_000}, 5_000)},
)
def test_one_namespace_does_not_keep_others_from_being_read(api, limits, size):
    for number in range(100):
        labels = {"app": "x", "size": "x" * size}
        each = deployment(f"many-{number:03}", namespace="aa-first")
        store(api, {**each, "metadata": {**each["metadata"], "annotations": labels}})
    found = fleet(api, **limits)
    assert {"Deployment shop/web", "Cluster member3"} <= set(names(found))
    gaps = texts(found.gaps, ANY_READER)
    assert any("aa-first/many-099 is not read: its namespace has too many" in each for each in gaps) or any(
        "more objects are left out" in each for each in gaps
    )
    assert len(gaps) < 40


@cases(
    ("path", "missing", "gap"),
    {
        "templates": ("/deployments", "Deployment", "deployments.apps: their replicas and labels"),
        "bindings": ("/resourcebindings", "ResourceBinding", "resourcebindings.work.karmada.io: their cu"),
        "policies": ("/propagationpolicies", "PropagationPolicy", "workloads that only such policies"),
        "single templates": ("/postgres", "StatefulSet", "list statefulsets.apps: their replicas"),
    },
)
def test_a_missing_right_is_named_with_its_consequence(api, path, missing, gap):
    api.before = only(refuse(403), part=f"{path}$")
    read = fleet(api)
    assert not any(each.startswith(f"{missing} ") for each in names(read))
    assert [gap in each for each in texts(read.gaps, ANY_READER)] == [True]


def test_without_the_right_to_list_clusters_there_is_no_answer(api):
    api.before = only(refuse(403), part="/clusters$")
    with pytest.raises(InputError, match=r"no right to list clusters\.cluster\.karmada\.io, without which"):
        fleet(api)


@cases("may_list", {"allowed": True, "forbidden": False})
def test_a_control_plane_that_is_not_in_use_is_left_out(api, may_list):
    for kind in ("FederatedCluster", "SchedulingProfile"):
        api.served.add("core.kubeadmiral.io/v1alpha1", kind, f"{kind.lower()}s", namespaced=False)
    if not may_list:
        api.before = only(refuse(403), part="/federatedclusters$")
    gaps = ["no right to list federatedclusters.core.kubeadmiral.io: what KubeAdmiral schedules here is left out"]
    assert texts(fleet(api).gaps, ANY_READER) == ([] if may_list else gaps)
    assert not any("schedulingprofiles" in path for path in lists(api))


def test_a_kind_that_is_not_served_is_named(api):
    gone = deployment("web") | {"apiVersion": "example.org/v9", "kind": "Gone"}
    store(api, binding(gone, policy("web"), member1=1))
    (gap,) = fleet(api).gaps
    assert gap.text(ANY_READER).startswith(
        "Gone of example.org/v9 is not served: their replicas and labels are taken from their bindings"
    )


def test_an_api_server_that_is_no_control_plane_is_an_error():
    api = KubeInMemory()
    api.served.add("apps/v1", "Deployment", "deployments")
    with pytest.raises(InputError, match="name the context of the control plane with --context"):
        fleet(api)


def test_a_failed_request_is_an_error(api):
    api.before = only(refuse(500, message="broken"), part="/deployments$")
    with pytest.raises(ServiceError, match="broken"):
        fleet(api)


@pytest.mark.parametrize("text", ["deploy/web", "deployments/web", "Deployment/web", "deployment.apps/web"])
def test_one_workload_is_read_without_the_others(api, text):
    read = workload(api, text)
    assert names(read) == [
        "Cluster member1", "Cluster member2", "Cluster member3",
        "ClusterPropagationPolicy db", "ClusterPropagationPolicy roles", "Deployment shop/web",
        "PropagationPolicy shop/web", "ResourceBinding shop/web-deployment",
    ]  # fmt: skip
    assert lists(api) == {
        "/apis/cluster.karmada.io/v1alpha1/clusters",
        "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations",
        "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations",
        "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies",
        "/apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies",
    }


def test_peers_are_read_if_workload_affinity_matters(api):
    workload(api, "deploy/web", with_peers=True)
    assert "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings" in lists(api)


def test_a_cluster_scoped_workload_has_no_namespace(api):
    assert "ClusterResourceBinding viewer-clusterrole" in names(workload(api, "clusterrole/viewer"))


@cases(
    ("text", "message"),
    {
        "name": ("deploy/nothing", r"karmada: there is no deployments\.apps 'nothing' in the namespace shop"),
        "type": ("depoy/web", "no resource type 'depoy'"),
    },
)
def test_a_workload_that_does_not_exist_is_an_error(api, text, message):
    with pytest.raises(InputError, match=message):
        workload(api, text)


def test_a_workload_that_only_an_overlay_has_is_no_error(api):
    read = workload(api, "deploy/new", over=[Document("new.yaml", 1, "", deployment("new"))])
    assert "PropagationPolicy shop/web" in names(read)


def test_a_server_without_aggregated_discovery_is_an_error():
    listed = {"GET /api": {"kind": "APIVersions", "versions": ["v1"]}}
    with pytest.raises(ApiError, match=r"which Kubernetes has since 1.27: items: is missing"):
        discover_types(ScriptedClient(listed))


def test_the_preferred_version_of_a_kind_is_resolved():
    api = KubeInMemory()
    api.served.add("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa")
    api.served.add("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa")
    serve_karmada(api)
    assert discover_types(api).resolve("hpa").api_version == "autoscaling/v2"


@cases(("webhooks", "complete"), {"no webhooks": (0, True), "a webhook": (1, False)})
def test_interpreters_are_complete_without_webhooks(api, webhooks, complete):
    for number in range(webhooks):
        kind = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration"}
        store(api, {**kind, "metadata": {"name": f"webhook{number}"}, "webhooks": []})
    read = fleet(api)
    snapshot = FleetSnapshot("karmada", datetime.now(UTC), tuple(read.records), tuple(read.gaps))
    record = Document("karmada", 0, "", snapshot.manifest())
    manifests = manifests_of([record, *read.documents], "karmada")
    assert (manifests.interpreters_complete, manifests.ignored) == (complete, [])
