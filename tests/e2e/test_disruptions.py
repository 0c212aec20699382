"""Evictions, which the API server itself decides by the PodDisruptionBudgets of the chart."""

from typing import Any

import pytest
from e2e.api import Api
from e2e.chart import RELEASE, Installation
from e2e.control_plane import ControlPlane
from e2e.manifests import pod
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from charts import helm

pytestmark = pytest.mark.e2e


def evicted(api: Api, target: dict[str, Any]) -> int:
    """Ask to evict a pod as ``kubectl drain`` does. Return the status."""
    metadata = client.V1ObjectMeta(name=target["metadata"]["name"], namespace=target["metadata"]["namespace"])
    try:
        client.CoreV1Api(api.client).create_namespaced_pod_eviction(
            metadata.name, metadata.namespace, client.V1Eviction(metadata=metadata)
        )
    except ApiException as error:
        return int(error.status)
    return 201


@pytest.mark.parametrize("ready", [False, True], ids=["not ready", "ready"])
@pytest.mark.parametrize("component", ["webhook", "controllers", "certs"])
def test_a_node_can_be_drained_of_pods_that_are_not_ready(
    api: Api,
    control_plane: ControlPlane,
    namespace: str,
    component: str,
    ready: bool,  # noqa: FBT001 - a column of a table
) -> None:
    """A budget without a healthy pod allows no disruption. A pod that is not ready must be able to go all the same."""
    installation = Installation(control_plane, namespace)
    installation.upgrade({})
    try:
        selector = helm.named(helm.render({}, namespace=namespace), "PodDisruptionBudget", f"{RELEASE}-{component}")[
            "spec"
        ]["selector"]["matchLabels"]
        target = pod(namespace, "no-scheduler")
        target["metadata"]["labels"] = selector
        target["spec"]["nodeName"] = "n"
        api.create(target)
        state = "True" if ready else "False"
        api.patch(
            target,
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": state}]}},
            subresource="status",
        )
        assert evicted(api, target) == (429 if ready else 201)
    finally:
        installation.uninstall()
