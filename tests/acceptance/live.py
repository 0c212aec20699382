"""A running Karmada, named by ``KARMADA_KUBECONFIG``. Member clusters are objects whose agents the suite plays."""

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from acceptance.planes import LIMIT_S, Value, quota
from acceptance.webhooks import HOST, NamespaceWebhook
from e2e.processes import Process, Processes
from e2e.serving import COMMAND, START_LIMIT_S, serve
from karmada_model.members import Delays
from karmada_model.model import KarmadaModel, Settings
from karmada_model.objects import Ident, ServedObjects, ident
from kube_store import JSON

from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.http_client import load_client
from berthmaster.kube.requests import APIRequest, Collection, create, delete, get, merge_patch, micro_time, replace
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import SystemClock

PLURALS: Final = {
    "Cluster": "clusters", "Work": "works", "ResourceBinding": "resourcebindings",
    "ClusterResourceBinding": "clusterresourcebindings", "PropagationPolicy": "propagationpolicies",
    "ClusterPropagationPolicy": "clusterpropagationpolicies", "WorkloadRebalancer": "workloadrebalancers",
    "Deployment": "deployments", "ConfigMap": "configmaps", "Secret": "secrets", "Namespace": "namespaces",
    "ClusterRole": "clusterroles", "Lease": "leases", "FederatedResourceQuota": "federatedresourcequotas",
    "Service": "services",
}  # fmt: skip
OWN_GATES: Final = os.environ.get("ACCEPTANCE_FEATURE_GATES", "").split(",")
"""The feature gates of Berthmaster."""
OWN_PREEMPTION: Final = "PolicyPreemption=true"
POLL_S: Final = 0.25
RENEW_S: Final = 5.0
LEASES: Final = Collection.of("coordination.k8s.io/v1", "leases")
LEASE_NAMESPACE: Final = "karmada-cluster"
"""Where Karmada looks for the leases of clusters in Pull mode."""
DELAYS: Final = Delays(apply_s=0.2, start_s=3.0, report_s=0.5, delete_s=0.2, detect_s=2.0)
_PLAYED: Final = {
    ("work.karmada.io/v1alpha1", "Work"): "works", ("cluster.karmada.io/v1alpha1", "Cluster"): "clusters"
}  # fmt: skip


class KarmadaPlane:
    """A running Karmada. It implements ``Plane``.

    Args:
        client: an administrator's access.
        scheduler: the name of Berthmaster's scheduler, whose process runs.
        process: that process; its end fails the scenario.
        processes: where further processes are put.
        unique: a part of all names.
        prefix: how the names of the scenario's clusters start; empty for a unique one.
    """

    kind = "karmada"

    def __init__(
        self,
        client: APIClient,
        scheduler: str,
        process: Process,
        processes: Processes,
        unique: str,
        prefix: str = "",
    ) -> None:
        self.scheduler = scheduler
        self.gates = frozenset(filter(None, os.environ.get("KARMADA_FEATURE_GATES", "").split(",")))
        self.preempts = OWN_PREEMPTION in OWN_GATES
        self.namespace = f"bm-acceptance-{unique}"
        self.prefix = prefix or f"bma-{unique}-"
        self._client = client
        self._process = process
        self._processes = processes
        self._webhook: NamespaceWebhook | None = None
        objects = ServedObjects(client, _PLAYED)
        self._model = KarmadaModel(
            objects,
            SystemClock(),
            Settings(delays=DELAYS, prefix=self.prefix, reports_resources=True),
            only=("members",),
        )
        self.members = self._model.members
        self._renewed_s: float | None = None
        self._clusters: dict[str, None] = {}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    def apply(self, manifest: JSON) -> None:
        which = ident(manifest)
        self._renew_leases()  # a scenario that makes many objects must not lose its clusters
        ask(self._client, create(_collection(which), which.namespace, manifest))
        if manifest["kind"] == "Cluster":
            self._clusters[which.name] = None
            self._renewed_s = None
            self.change(which, lambda content: content.update(status=manifest["status"]), status=True)

    def edit(self, manifest: JSON, **patch: Any) -> None:
        which = ident(manifest)
        self._renew_leases()
        ask(self._client, merge_patch(_collection(which), which[2:], patch))

    def change(self, which: Ident, mutate: Callable[[JSON], object], *, status: bool = False) -> None:
        while True:
            content = json.loads(ask(self._client, get(_collection(which), which[2:])))
            mutate(content)
            try:
                ask(self._client, replace(_collection(which), which[2:], content, "status" if status else ""))
            except ApiError as error:
                if not error.conflict:
                    raise
            else:
                return

    def delete(self, manifest: JSON) -> None:
        which = ident(manifest)
        try:
            ask(self._client, delete(_collection(which), which[2:]))
        except ApiError as error:
            if not error.not_found:
                raise

    def get(self, which: Ident) -> JSON | None:
        raw = ask_if_found(self._client, get(_collection(which), which[2:]))
        return None if raw is None else dict(json.loads(raw))

    def all(self, kind: str) -> list[JSON]:
        versions = {"Work": "work.karmada.io/v1alpha1", "Cluster": "cluster.karmada.io/v1alpha1"}
        collection = Collection.of(versions.get(kind, "work.karmada.io/v1alpha2"), PLURALS[kind])
        return list(json.loads(ask(self._client, APIRequest(collection.path)))["items"])

    def wait(self, what: str, check: Callable[[], Value], limit_s: float = LIMIT_S) -> Value:
        end_s = time.monotonic() + limit_s
        while True:
            self._play()
            if found := check():
                return found
            assert time.monotonic() < end_s, f"after {limit_s:g} s still not: {what}"
            time.sleep(POLL_S)

    def rest(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self._play()
            time.sleep(min(POLL_S, seconds))

    def limit_cpu(self, cpus: int) -> None:
        limit = quota(self.namespace, cpus)
        if self.get(ident(limit)) is None:
            self.apply(limit)
        else:
            self.edit(limit, spec=limit["spec"])

    def use_webhook(self) -> None:
        if not HOST:
            pytest.skip("needs ACCEPTANCE_HOST, the address of this machine for the API server")
        self._webhook = NamespaceWebhook(self._client, self._processes, self.namespace, OWN_GATES)

    def _play(self) -> None:
        """Do what the agents of the members do now."""
        assert self._process.running, f"Berthmaster ended:\n{self._process.tail()}"
        self._model.settle()
        self._renew_leases()

    def _renew_leases(self) -> None:
        if self._renewed_s is None or time.monotonic() > self._renewed_s + RENEW_S:
            self._renewed_s = time.monotonic()
            for name in self._clusters:
                if self.members.member(name).up:
                    self._renew(name)
                    self.members.set_ready(name, "True")

    def _renew(self, name: str) -> None:
        key = (LEASE_NAMESPACE, name)
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_time(datetime.now(UTC))}
        lease: JSON = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
            "spec": spec,
        }
        if ask_if_found(self._client, get(LEASES, key)) is None:
            ask(self._client, create(LEASES, LEASE_NAMESPACE, lease))
        else:
            ask(self._client, merge_patch(LEASES, key, {"spec": spec}))

    def close(self) -> None:
        if self._webhook is not None:
            self._webhook.close()
        self.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        for name in self._clusters:
            self.delete(
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
                }
            )


def kubeconfig() -> Path | None:
    """Return the kubeconfig of the Karmada to test; None if none is named."""
    named = os.environ.get("KARMADA_KUBECONFIG")
    return Path(named) if named else None


def access() -> list[str]:
    """Return the options of a command for the Karmada to test."""
    context = os.environ.get("KARMADA_CONTEXT")
    return [f"--kubeconfig={kubeconfig()}", *([f"--context={context}"] if context else [])]


def connect() -> APIClient:
    return load_client(kubeconfig(), os.environ.get("KARMADA_CONTEXT"))


def start_controllers(processes: Processes, scheduler: str, *flags: str) -> Process:
    """Start Berthmaster's controllers on the Karmada to test, and wait until they lead.

    Args:
        processes: where the process is put.
        scheduler: the name of the scheduler, and of the lease.
        flags: further options of the command.
    """
    running = serve(
        processes, "controllers", (COMMAND, "controllers"), *access(), f"--scheduler-name={scheduler}",
        "--leader-elect-namespace=default", f"--leader-elect-name={scheduler}", *flags, port=0,
    )  # fmt: skip
    running.process.wait_for("to lead", lambda: running.leading, START_LIMIT_S)
    return running.process


def _collection(which: Ident) -> Collection:
    return Collection.of(which.api_version, PLURALS[which.kind])
