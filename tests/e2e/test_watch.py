"""State by watch, from a real API server."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e.api import Api
from e2e.control_plane import ControlPlane, fetch
from e2e.extender_service import Extender, start_extender
from e2e.manifests import KUBEADMIRAL, manifest
from e2e.processes import Processes, wait_for

pytestmark = pytest.mark.e2e

LIMIT_S = 15.0


@pytest.fixture(scope="module")
def extender(processes: Processes, control_plane: ControlPlane) -> Iterator[Extender]:
    """An extender that watches KubeAdmiral's clusters."""
    running = start_extender(processes, control_plane, "federatedclusters")
    yield running
    running.process.stop()


def clusters(extender: Extender) -> dict[str, Any]:
    answer = json.loads(fetch(f"{extender.url}/v1/clusters?limit=1000") or "{}")
    return {one["name"]: one for one in answer.get("items", [])}


def tier_of(extender: Extender, name: str) -> str | None:
    """A label of a cluster; None while the cluster is not known to the process that answers."""
    found: str | None = clusters(extender).get(name, {}).get("labels", {}).get("tier")
    return found


def until(what: str, check: Callable[[], bool]) -> None:
    wait_for(what, lambda: check() or None, LIMIT_S)


def test_clusters_come_change_and_go(api: Api, extender: Extender):
    federated = manifest(KUBEADMIRAL, "FederatedCluster", None, {"apiEndpoint": "https://127.0.0.1:1"})
    name = federated["metadata"]["name"]
    federated["metadata"]["labels"] = {"tier": "gold"}
    federated["spec"]["secretRef"] = {"name": "none"}
    api.create(federated)
    until("the cluster to be known", lambda: tier_of(extender, name) == "gold")

    api.patch(federated, {"metadata": {"labels": {"tier": "silver"}}})
    until("its label to be known", lambda: tier_of(extender, name) == "silver")

    api.delete(federated)
    until("it to be forgotten", lambda: name not in clusters(extender))
