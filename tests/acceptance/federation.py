"""A running KubeAdmiral, named by ``KUBEADMIRAL_KUBECONFIG``, whose scheduler asks Berthmaster's webhook plugin.

Member clusters are objects that the suite writes, with the status of a cluster that joined. The cluster controller of
KubeAdmiral must not run: it would connect to them.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import karmada_plane
from acceptance.webhooks import HOST
from e2e.manifests import admiral_policy
from e2e.processes import Processes
from e2e.serving import COMMAND, serve
from kube_store import JSON
from tables import data
from waiting import wait_for

from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.requests import APIRequest, Collection, create, delete, merge_patch
from berthmaster.model.errors import ApiError

Value = TypeVar("Value")
API: Final = "core.kubeadmiral.io/v1alpha1"
LIMIT_S: Final = 60.0
SCHEDULER: Final = "kubeadmiral.io/global-scheduler"
GROUPS: Final = "policy.berthmaster.io/cluster-affinities"
_POLICY: Final = "kubeadmiral.io/propagation-policy-name"
_PLURALS: Final = {
    "FederatedCluster": "federatedclusters", "PropagationPolicy": "propagationpolicies",
    "SchedulingProfile": "schedulingprofiles", "Deployment": "deployments", "Namespace": "namespaces",
    "SchedulerPluginWebhookConfiguration": "schedulerpluginwebhookconfigurations",
}  # fmt: skip


def kubeconfig() -> Path | None:
    """Return the kubeconfig of the KubeAdmiral to test; None if none is named."""
    named = os.environ.get("KUBEADMIRAL_KUBECONFIG")
    return Path(named) if named and HOST else None


class Federation:
    """A namespace and member clusters of a running KubeAdmiral. ``close`` removes everything."""

    def __init__(self, client: APIClient, processes: Processes, unique: str) -> None:
        """Start the extender, and register it as a webhook plugin with a profile."""
        self.namespace = f"bm-acceptance-{unique}"
        self.prefix = f"bma-{unique}-"
        self._client = client
        self._made: list[JSON] = []
        self._profile = f"bma-{unique}"
        access = (f"--kubeconfig={kubeconfig()}", "--watch=federatedclusters")
        extender = serve(processes, "extender", (COMMAND, "extender"), *access, host=HOST)
        self._process = extender.process
        self._make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self._register(f"http://{HOST}:{extender.port}/kubeadmiral/v1alpha1")

    def _register(self, url: str) -> None:
        paths = {f"{step}Path": f"/{step}" for step in ("filter", "score", "select")}
        spec = {"payloadVersions": ["v1alpha1"], "urlPrefix": url, "httpTimeout": "2s", **paths}
        named = {"metadata": {"name": self._profile}}
        self._make({"apiVersion": API, "kind": "SchedulerPluginWebhookConfiguration", **named, "spec": spec})
        plugin = [{"name": self._profile, "type": "Webhook"}]
        plugins: JSON = {step: {"enabled": plugin} for step in ("filter", "score", "select")}
        plugins["select"]["disabled"] = [{"name": "MaxCluster"}]
        self._make({"apiVersion": API, "kind": "SchedulingProfile", **named, "spec": {"plugins": plugins}})

    def cluster(self, short: str, *taints: JSON) -> JSON:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        names = {"prefix": self.prefix, "short": short, "profile": self._profile}
        made = data("federation", now=now, taints=json.dumps(taints), **names)
        manifest = self._make(made["cluster"])
        changed = merge_patch(self._collection(manifest), self._path(manifest), {"status": made["status"]}, "status")
        ask(self._client, changed)
        return manifest

    def policy(self, name: str, **spec: Any) -> JSON:
        chosen = {"schedulingProfile": self._profile, "clusterSelector": {"suite": self._profile}, **spec}
        made = admiral_policy(self.namespace, **chosen)
        made["metadata"]["name"] = name
        return self._make(made)

    def deployment(self, policy: str, replicas: int = 4, **groups: list[str]) -> JSON:
        made = karmada_plane.new_deployment("web", replicas, namespace=self.namespace)
        made["metadata"] |= {"labels": {_POLICY: policy}, "annotations": self.groups(**groups)}
        return self._make(made)

    def groups(self, **groups: list[str]) -> dict[str, str]:
        terms = [
            {"affinityName": name, "clusterNames": [f"{self.prefix}{each}" for each in shorts]}
            for name, shorts in groups.items()
        ]
        return {GROUPS: json.dumps(terms)} if terms else {}

    def edit(self, manifest: JSON, **patch: Any) -> None:
        ask(self._client, merge_patch(self._collection(manifest), self._path(manifest), patch))

    def template(self) -> JSON:
        return dict(self._federated().get("template", {}))

    def placement(self) -> dict[str, int]:
        """Return the replicas of the Deployment by short name of the cluster; empty if it is not scheduled."""
        spec = self._federated()
        return self._placed(spec) if spec else {}

    def _federated(self) -> JSON:
        raw = ask(self._client, APIRequest(Collection.of(API, "federatedobjects").within(self.namespace)))
        specs = [item["spec"] for item in json.loads(raw)["items"]]
        return next((dict(spec) for spec in specs if spec["template"]["kind"] == "Deployment"), {})

    def wait(self, what: str, check: Callable[[], Value]) -> Value:
        def checked() -> Value:
            assert self._process.running, f"the extender ended:\n{self._process.tail()}"
            return check()

        return wait_for(checked, lambda: f"after {LIMIT_S:g} s still not: {what}; placed: {self.placement()}", LIMIT_S)

    def expect(self, placement: dict[str, int]) -> None:
        self.wait(f"the placement {placement}", lambda: self.placement() == placement)

    def close(self) -> None:
        """Delete everything in reverse order, without finalizers that a controller of members would remove."""
        for manifest in reversed(self._made):
            request = delete(self._collection(manifest), self._path(manifest))
            if ask_if_found(self._client, request) is not None and manifest["kind"] == "FederatedCluster":
                with suppress(ApiError):
                    self.edit(manifest, metadata={"finalizers": None})
        self._process.stop()

    def _placed(self, spec: JSON) -> dict[str, int]:
        own = [each for each in spec.get("placements") or () if each["controller"] == SCHEDULER]
        names = [one["cluster"] for each in own for one in each["placement"]]
        replicas = {
            one["cluster"]: patch["value"]
            for each in spec.get("overrides") or ()
            if each["controller"] == SCHEDULER
            for one in each["clusters"]
            for patch in one["patches"]
            if patch["path"] == "/spec/replicas"
        }
        default = spec["template"]["spec"].get("replicas", 0)
        return {name.removeprefix(self.prefix): replicas.get(name, default) for name in names}

    def _make(self, manifest: JSON) -> JSON:
        namespace = manifest["metadata"].get("namespace", "")
        ask(self._client, create(self._collection(manifest), namespace, manifest))
        self._made.append(manifest)
        return manifest

    def _collection(self, manifest: JSON) -> Collection:
        return Collection.of(manifest["apiVersion"], _PLURALS[manifest["kind"]])

    def _path(self, manifest: JSON) -> tuple[str, str]:
        return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
