"""Builders of WorkloadRebalancers and bindings, as manifests and as values."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kube_in_memory import KubeInMemory
from kube_store import JSON

from berthmaster.controllers.rebalancer.reconciler import REBALANCERS
from berthmaster.kube.requests import Collection
from berthmaster.model.decode import convert
from berthmaster.model.rebalancer import WorkloadRebalancer

CREATED = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NIGHT = REBALANCERS.object(("", "night"))
EARLIER, LATER = CREATED - timedelta(hours=1), CREATED + timedelta(hours=1)


def workload(name: str, namespace: str = "shop", kind: str = "Deployment", api_version: str = "apps/v1") -> JSON:
    """Return a workload as a spec names it. An empty namespace is omitted."""
    reference = {"apiVersion": api_version, "kind": kind, "name": name}
    return {**reference, "namespace": namespace} if namespace else reference


def item(name: str, result: str = "", **more: str) -> JSON:
    reason = {"reason": "ReferencedBindingNotFound"} if result == "Failed" else {}
    return {"workload": workload(name, **more), **({"result": result} if result else {}), **reason}


def text(moment: datetime | None) -> str | None:
    return moment and moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def manifest(
    names: Sequence[str | JSON] = ("web",),
    observed: Sequence[JSON] = (),
    *,
    ttl_s: int | None = None,
    finished: datetime | None = None,
    generation: int = 1,
    observed_generation: int | None = None,
) -> JSON:
    """Return a rebalancer. A plain name means a Deployment."""
    spec: JSON = {"workloads": [workload(name) if isinstance(name, str) else name for name in names]}
    if ttl_s is not None:
        spec["ttlSecondsAfterFinished"] = ttl_s
    status: JSON = {"observedWorkloads": list(observed)} if observed else {}
    if observed:
        status["observedGeneration"] = generation if observed_generation is None else observed_generation
    if finished:
        status["finishTime"] = text(finished)
    return {
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {"name": "night", "uid": "1", "generation": generation, "creationTimestamp": text(CREATED)},
        "spec": spec,
        "status": status,
    }


def rebalancer(*arguments: Any, **more: Any) -> WorkloadRebalancer:
    return convert(WorkloadRebalancer, manifest(*arguments, **more))


def binding(
    name: str,
    namespace: str = "shop",
    *,
    marked: datetime | None = None,
    scheduled: datetime | None = EARLIER,
) -> JSON:
    """Return the binding of a Deployment, or of a ClusterRole without a namespace. Writes must keep ``clusters``."""
    kind, workload_kind = ("ResourceBinding", "Deployment") if namespace else ("ClusterResourceBinding", "ClusterRole")
    metadata = {"name": f"{name}-{workload_kind.lower()}"} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": kind,
        "metadata": metadata,
        "spec": {"clusters": [{"name": "member1"}]} | ({"rescheduleTriggeredAt": text(marked)} if marked else {}),
        "status": {"lastScheduledTime": text(scheduled)} if scheduled else {},
    }


def binding_path(name: str, namespace: str = "shop") -> str:
    plural, kind = ("resourcebindings", "deployment") if namespace else ("clusterresourcebindings", "clusterrole")
    return Collection.of("work.karmada.io/v1alpha2", plural).object((namespace, f"{name}-{kind}"))


def put_binding(api: KubeInMemory, name: str, namespace: str = "shop", **more: datetime | None) -> JSON:
    return api.put(binding_path(name, namespace), binding(name, namespace, **more))
