"""KubeAdmiral's objects for simulations: clusters, a policy and a workload, all as documents."""

KUBEADMIRAL = "core.kubeadmiral.io/v1alpha1"


def member(name: str, cpu: str = "16", **spec) -> dict:
    return {
        "apiVersion": KUBEADMIRAL,
        "kind": "FederatedCluster",
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "conditions": [{"type": kind, "status": "True"} for kind in ("Joined", "Ready")],
            "apiResourceTypes": [
                {"group": "apps", "version": "v1", "kind": "Deployment"},
                {"version": "v1", "kind": "ConfigMap"},
            ],
            "resources": {"allocatable": {"cpu": "16", "memory": "64Gi"}, "available": {"cpu": cpu, "memory": "64Gi"}},
        },
    }


def policy(kind: str = "PropagationPolicy", **spec) -> dict:
    return {
        "apiVersion": KUBEADMIRAL,
        "kind": kind,
        "metadata": {"name": "shop"},
        "spec": {"schedulingMode": "Divide", **spec},
    }


def shop(labels: dict | None = None, kind: str = "Deployment", **annotations: str) -> dict:
    bound = {"kubeadmiral.io/propagation-policy-name": "shop"}
    metadata = {"name": "shop", "labels": bound if labels is None else labels, "annotations": annotations}
    if kind == "ConfigMap":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    pod = {"spec": {"containers": [{"name": "shop"}]}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"replicas": 8, "template": pod}}
