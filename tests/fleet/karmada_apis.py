"""What Karmada offers beside policies: FederatedHPA, MultiClusterService and scheduler estimators."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from estimator_server import EstimatorServer, external
from fleet.fleet import Fleet
from fleet.member import ROOM, SPACE, Member
from kube_store import JSON

AUTOSCALER: Final = (
    "--horizontal-pod-autoscaler-sync-period=2s", "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
)  # fmt: skip
"""Options of Karmada by which a FederatedHPA scales at once."""
SERVICES: Final = "--feature-gates=MultiClusterService=true,FederatedQuotaEnforcement=true"
"""The option of Karmada that turns MultiClusterService on."""
NETWORKING: Final = "networking.karmada.io/v1alpha1"
SERVICE: Final = "MultiClusterService"
ENDPOINTS: Final = "karmada.io/mcs-endpointslice-dispatch-controller"
"""The finalizer of a Work of endpoints. Karmada removes it only while MultiClusterService is on."""


class Autoscaler:
    """A FederatedHPA of a Deployment, and the metrics API that it asks.

    Custom resources play the metrics API: a metrics server would need kubelets.
    """

    def __init__(self, fleet: Fleet, app: str, least: int, most: int, percent: int) -> None:
        """Create both.

        Args:
            fleet: where.
            app: the name of the Deployment.
            least: the fewest replicas.
            most: the most replicas.
            percent: how much of the CPU that a pod requests it should use.
        """
        self._fleet, self._app = fleet, app
        fleet.api.apply(_metrics_api())
        fleet.until("the metrics API", lambda: fleet.host.text("/apis/metrics.k8s.io/v1beta1"))
        target = {"type": "Utilization", "averageUtilization": percent}
        fleet.api.create(
            {
                "apiVersion": "autoscaling.karmada.io/v1alpha1",
                "kind": "FederatedHPA",
                "metadata": {"name": app, "namespace": SPACE},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
                    "minReplicas": least,
                    "maxReplicas": most,
                    "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
                },
            }
        )

    def report(self, cpu: str) -> None:
        """Let each pod of the Deployment use this CPU now."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for member in self._fleet.members.values():
            for pod in member.plane.api.list("v1", "Pod", SPACE):
                if pod["metadata"]["labels"].get("app") == self._app:
                    self._fleet.api.apply(_usage(pod["metadata"]["name"], self._app, cpu, now))


def _usage(pod: str, app: str, cpu: str, at: str) -> JSON:
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": pod, "namespace": SPACE, "labels": {"app": app}},
        "timestamp": at,
        "window": "1s",
        "containers": [{"name": "main", "usage": {"cpu": cpu}}],
    }


def _metrics_api() -> JSON:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test plays the metrics API"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "pods", "kind": "PodMetrics"},
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def offer(fleet: Fleet, app: str, consumer: str) -> None:
    named = {"name": app, "namespace": SPACE}
    service = {"selector": {"app": app}, "ports": [{"port": 80}]}
    fleet.api.create({"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": service})
    fleet.api.create(
        {
            "apiVersion": NETWORKING,
            "kind": SERVICE,
            "metadata": named,
            "spec": {"types": ["CrossCluster"], "consumerClusters": [{"name": consumer}]},
        }
    )


def withdraw(fleet: Fleet, app: str) -> None:
    """Delete what ``offer`` has created, while the controllers run that remove the Works of its endpoints."""
    offered = {"apiVersion": NETWORKING, "kind": SERVICE, "metadata": {"name": app, "namespace": SPACE}}
    if fleet.api.exists(offered):
        fleet.api.delete(offered)

    def removed() -> bool:
        works = fleet.api.list("work.karmada.io/v1alpha1", "Work")
        return not any(ENDPOINTS in each["metadata"].get("finalizers", ()) for each in works)

    fleet.until("its endpoints are removed", removed)


def endpoints(fleet: Fleet, app: str, consumer: str) -> int:
    slices = fleet.members[consumer].plane.api.list("discovery.k8s.io/v1", "EndpointSlice", SPACE)
    return sum(
        each["conditions"].get("ready", False)
        for found in slices
        if found["metadata"]["labels"].get("kubernetes.io/service-name") == app
        for each in found.get("endpoints") or ()
    )


@contextmanager
def estimators(fleet: Fleet) -> Generator[tuple[str, ...], None, None]:
    """Let each member have an estimator that sees its pods, and yield the options by which Berthmaster asks them."""
    with ExitStack() as opened:
        for name, member in fleet.members.items():
            server = EstimatorServer(name, partial(_estimated, member))
            opened.callback(server.close)
            named = {"name": f"karmada-scheduler-estimator-{name}", "namespace": "default"}
            service = {"apiVersion": "v1", "kind": "Service", "metadata": named} | external(server.port, "localhost")
            fleet.api.create(service)
            opened.callback(fleet.api.delete, service)
        yield ("--enable-scheduler-estimator", "--scheduler-estimator-service-namespace=default")


def _estimated(member: Member, request: Any) -> int:
    """Return how many pods still fit in a member by their number, or how many of a workload wait for too long."""
    pods = member.plane.api.list("v1", "Pod", SPACE)
    if "resource" not in request.DESCRIPTOR.fields_by_name:
        return int(ROOM["pods"]) - len(pods)
    before = datetime.now(UTC) - timedelta(microseconds=request.unschedulableThreshold / 1000)
    return sum(
        each["type"] == "PodScheduled"
        and each.get("reason") == "Unschedulable"
        and datetime.fromisoformat(each["lastTransitionTime"]) < before
        for pod in pods
        if pod["metadata"]["labels"].get("app") == request.resource.name
        for each in pod.get("status", {}).get("conditions") or ()
    )
