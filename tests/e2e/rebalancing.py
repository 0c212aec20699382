"""Bindings in a namespace, and WorkloadRebalancers of their workloads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from access_rules import role_rule
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.manifests import JSON, deployments, manifest, unique, workload_rebalancer
from e2e.processes import wait_for

from berthmaster.controllers.rbac import rules_of

LIMIT_S: Final = 15.0
WORK: Final = "work.karmada.io/v1alpha2"
LAST_WEEK: Final = (datetime.now(UTC) - timedelta(days=7)).strftime("%Y-%m-%dT%H:%M:%SZ")


def access(control_plane: ControlPlane, namespace: str) -> Path:
    """Return the kubeconfig of a user with exactly the documented rights. The lease is in the namespace."""
    rules = [
        (role_rule(rule, "berthmaster-controllers"), namespace if rule.scope == "lease" else None)
        for rule in rules_of(["workload-rebalancer"])
    ]
    return control_plane.user(unique("rebalancer"), rules)


class Scene:
    """A namespace with bindings, and rebalancers of their workloads."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self._made: list[JSON] = []

    def workload(self, name: str) -> JSON:
        return deployments(name=name, namespace=self.namespace)

    def bind(self, name: str, scheduled: str = LAST_WEEK) -> JSON:
        made = manifest(WORK, "ResourceBinding", self.namespace, {"resource": self.workload(name)})
        made["metadata"]["name"] = f"{name}-deployment"
        return self._bound(made, scheduled)

    def _bound(self, made: JSON, scheduled: str) -> JSON:
        made["spec"]["clusters"] = [{"name": "member1"}]
        self.api.create(made)
        self.api.patch(made, {"status": {"lastScheduledTime": scheduled}}, subresource="status")
        return made

    def rebalance(self, *names: str, **spec: Any) -> JSON:
        return self.create(workload_rebalancer(*map(self.workload, names), **spec))

    def create(self, rebalancer: JSON) -> JSON:
        """Create a rebalancer. Return the stored object."""
        self._made.append(rebalancer)
        return self.api.create(rebalancer).object

    def clear(self) -> None:
        """Delete the remaining rebalancers, which are cluster-scoped."""
        for each in self._made:
            if self.api.exists(each):
                self.api.delete(each)

    def change(self, rebalancer: JSON, *names: str, **spec: Any) -> JSON:
        named = {"workloads": [self.workload(name) for name in names]} if names else {}
        return self.api.patch(rebalancer, {"spec": {**named, **spec}}).object

    def results(self, rebalancer: JSON) -> dict[str, str]:
        observed = self.api.get(rebalancer).get("status", {}).get("observedWorkloads", [])
        return {each["workload"]["name"]: each.get("result", "") for each in observed}

    def finished(self, rebalancer: JSON) -> JSON:
        """Wait until the latest spec is done. Return the status."""
        generation = self.api.get(rebalancer)["metadata"]["generation"]

        def status() -> JSON | None:
            found = self.api.get(rebalancer).get("status", {})
            return found if found.get("observedGeneration") == generation and "finishTime" in found else None

        return wait_for("the rebalancer to be finished", status, LIMIT_S)

    def mark_of(self, binding: JSON) -> str | None:
        found: str | None = self.api.get(binding)["spec"].get("rescheduleTriggeredAt")
        return found

    def gone(self, rebalancer: JSON, timeout_s: float = LIMIT_S) -> None:
        wait_for("the rebalancer to be deleted", lambda: not self.api.exists(rebalancer), timeout_s)
