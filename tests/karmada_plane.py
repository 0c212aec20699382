"""A small Karmada control plane for tests: what it serves, and objects in the shapes that Karmada gives them."""

import json
from typing import Any

from decisions import DYNAMIC
from kube_in_memory import KubeInMemory

JSON = dict[str, Any]
PP_ID = "propagationpolicy.karmada.io/permanent-id"
CPP_ID = "clusterpropagationpolicy.karmada.io/permanent-id"
DIVIDED = {"replicaScheduling": DYNAMIC}
KARMADA_KINDS = (
    ("cluster.karmada.io/v1alpha1", "Cluster", "clusters", False),
    ("policy.karmada.io/v1alpha1", "PropagationPolicy", "propagationpolicies", True),
    ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies", False),
    ("work.karmada.io/v1alpha2", "ResourceBinding", "resourcebindings", True),
    ("work.karmada.io/v1alpha2", "ClusterResourceBinding", "clusterresourcebindings", False),
    ("config.karmada.io/v1alpha1", "ResourceInterpreterCustomization", "resourceinterpretercustomizations", False),
    (
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterWebhookConfiguration",
        "resourceinterpreterwebhookconfigurations",
        False,
    ),
)


def serve_karmada(api: KubeInMemory) -> None:
    """Serve the kinds of Kubernetes, of Karmada, and one custom resource."""
    api.served.add("v1", "ConfigMap", "configmaps", "cm")
    api.served.add("v1", "Secret", "secrets")
    api.served.add("apps/v1", "Deployment", "deployments", "deploy")
    api.served.add("apps/v1", "StatefulSet", "statefulsets", "sts")
    api.served.add("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
    for api_version, kind, plural, namespaced in KARMADA_KINDS:
        api.served.add(api_version, kind, plural, namespaced=namespaced)
    api.served.add("example.org/v1", "Widget", "widgets", "wd", namespaced=False)
    api.served.add("example.org/v1", "Basin", "basins")
    api.served.add("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


def store(api: KubeInMemory, *objects: JSON) -> None:
    for each in objects:
        api.put(api.served.path(each), each)


def cluster(name: str, cpu: int = 100, **labels: str) -> JSON:
    """A ready member cluster that serves some kinds of Kubernetes, and custom resources."""
    served = {
        "v1": ("ConfigMap", "Secret", "PersistentVolumeClaim", "ServiceAccount"),
        "apps/v1": ("Deployment", "StatefulSet"), "batch/v1": ("Job",),
        "rbac.authorization.k8s.io/v1": ("ClusterRole",), "example.org/v1": ("Widget", "Basin"),
        "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    }  # fmt: skip
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"syncMode": "Push", "apiEndpoint": f"https://{name}.internal.example:6443"},
        "status": {
            "apiEnablements": [
                {"groupVersion": version, "resources": [{"name": f"{kind.lower()}s", "kind": kind} for kind in kinds]}
                for version, kinds in served.items()
            ],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "resourceSummary": {"allocatable": {"cpu": str(cpu), "memory": "1000Gi", "pods": "1000"}},
        },
    }


def policy(name: str, *selectors: JSON, namespace: str = "shop", placement: JSON | None = None, **spec: Any) -> JSON:
    """A PropagationPolicy, or without a namespace a ClusterPropagationPolicy, as Karmada's webhook completes it."""
    kind, label = ("PropagationPolicy", PP_ID) if namespace else ("ClusterPropagationPolicy", CPP_ID)
    metadata = {"name": name, "labels": {label: f"id-{name}"}}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {**metadata, "namespace": namespace} if namespace else metadata,
        "spec": {
            "resourceSelectors": list(selectors),
            "placement": DIVIDED if placement is None else placement,
            "schedulerName": "default-scheduler",
            "preemption": "Never",
            "conflictResolution": "Abort",
            **spec,
        },
    }


def selector(kind: str = "Deployment", api_version: str = "apps/v1", **fields: Any) -> JSON:
    return {"apiVersion": api_version, "kind": kind, **fields}


def claimed(claimant: JSON) -> JSON:
    """The labels and annotations that Karmada's detector writes on what a policy claims."""
    label, prefix = (
        (PP_ID, "propagationpolicy") if "namespace" in claimant["metadata"] else (CPP_ID, "clusterpropagationpolicy")
    )
    annotations = {f"{prefix}.karmada.io/name": claimant["metadata"]["name"]}
    if "namespace" in claimant["metadata"]:
        annotations[f"{prefix}.karmada.io/namespace"] = claimant["metadata"]["namespace"]
    return {"labels": {label: claimant["metadata"]["labels"][label]}, "annotations": annotations}


def deployment(name: str, replicas: int = 2, *, namespace: str = "shop", by: JSON | None = None, **pod: Any) -> JSON:
    metadata = claimed(by) if by is not None else {"labels": {}, "annotations": {}}
    metadata["labels"]["app"] = name
    metadata["managedFields"] = [{"manager": "kubectl", "operation": "Update"}]
    containers = [{"name": "web", "image": "registry.example/web:1", "resources": {"requests": {"cpu": "500m"}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers, **pod}},
        },
        "status": {"readyReplicas": replicas},
    }


def new_deployment(name: str, replicas: int = 2, *, namespace: str = "shop", by: JSON | None = None) -> JSON:
    """A Deployment as it is created: no API server has added managedFields and no controller a status."""
    made = deployment(name, replicas, namespace=namespace, by=by)
    del made["metadata"]["managedFields"], made["status"]
    return made


def resource(name: str, kind: str, api_version: str = "v1", *, namespace: str = "shop", **fields: Any) -> JSON:
    """A resource of another kind. An empty namespace makes it cluster-scoped."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def binding(template: JSON, by: JSON, **clusters: int) -> JSON:
    namespace = template["metadata"].get("namespace")
    metadata = {"name": f"{template['metadata']['name']}-{template['kind'].lower()}", **claimed(by)}
    placement = by["spec"]["placement"]
    metadata["annotations"]["policy.karmada.io/applied-placement"] = json.dumps(placement)
    named = {key: value for key, value in template["metadata"].items() if key in ("name", "namespace")}
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding" if namespace else "ClusterResourceBinding",
        "metadata": {**metadata, "namespace": namespace} if namespace else metadata,
        "spec": {
            "resource": {"apiVersion": template["apiVersion"], "kind": template["kind"], **named},
            "replicas": template.get("spec", {}).get("replicas", 0),
            "replicaRequirements": {"resourceRequest": {"cpu": "500m"}},
            "clusters": [{"name": name, "replicas": replicas} for name, replicas in clusters.items()],
            "placement": placement,
            "schedulerName": "default-scheduler",
        },
        "status": {
            "aggregatedStatus": [
                {"clusterName": name, "applied": True, "health": "Healthy", "status": {"readyReplicas": replicas}}
                for name, replicas in clusters.items()
            ]
        },
    }


def shop(api: KubeInMemory) -> None:
    """Three clusters, and workloads of all sorts: claimed and scheduled, claimed only, and claimed by none."""
    serve_karmada(api)
    web = policy("web", selector(name="web"), selector("ConfigMap", "v1", name="settings"))
    roles = policy(
        "roles", selector("ClusterRole", "rbac.authorization.k8s.io/v1", name="viewer"), namespace="", placement={}
    )
    databases = policy("db", selector("StatefulSet", labelSelector={"matchLabels": {"tier": "db"}}), namespace="")
    checkout = deployment("web", 4, by=web)
    viewer = resource("viewer", "ClusterRole", "rbac.authorization.k8s.io/v1", namespace="", rules=[])
    settings = resource("settings", "ConfigMap", data={"key": "value"})
    postgres = resource("postgres", "StatefulSet", "apps/v1", spec={"replicas": 3, "template": {"spec": {}}})
    postgres["metadata"]["labels"] = {"tier": "db"}
    store(
        api,
        cluster("member1"), cluster("member2"), cluster("member3"),
        web, roles, databases,
        checkout, deployment("unclaimed"), deployment("web", namespace="other"),
        settings, resource("unrelated", "ConfigMap", data={}), viewer, postgres,
        resource("cache", "StatefulSet", "apps/v1", spec={"replicas": 1}),
        binding(checkout, web, member1=2, member2=2), binding(viewer, roles, member1=0, member2=0, member3=0),
    )  # fmt: skip
