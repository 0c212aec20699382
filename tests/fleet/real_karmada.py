"""A real Karmada on a real API server, from the folder of binaries that ``KARMADA_BINARIES`` names.

The folder holds karmada-aggregated-apiserver, karmada-webhook and karmada-controller-manager, and below it the
CustomResourceDefinitions of the same version. karmada-scheduler is optional: one scenario starts it.
"""

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from e2e.assets import MissingAssetError
from e2e.control_plane import HOST, START_LIMIT_S, ControlPlane, fetch
from e2e.processes import Process, Processes, wait_for
from e2e.registration import KINDS, Hook, configuration
from fleet.member import Member, start_controller_manager
from kube_store import JSON
from tables import data

VARIABLE: Final = "KARMADA_BINARIES"
SYSTEM: Final = "karmada-system"
SCHEDULER: Final = "karmada-scheduler"
GATES: Final = "--feature-gates=FederatedQuotaEnforcement=true"
FAILOVER: Final = "--feature-gates=Failover=true,FederatedQuotaEnforcement=true"
"""The option of Karmada that turns evictions on."""
DETECTION: Final = (
    "--cluster-status-update-frequency=5s", "--cluster-monitor-period=3s", "--cluster-monitor-grace-period=12s",
    "--cluster-failure-threshold=10s", "--cluster-success-threshold=10s",
)  # fmt: skip
_AGGREGATED: Final = "karmada-aggregated-apiserver"
_WEBHOOK: Final = "karmada-webhook"
_MANAGER: Final = "karmada-controller-manager"


@dataclass(frozen=True)
class Setup:
    """How Karmada runs.

    Attributes:
        webhook: more options of its webhook.
        manager: more options of its controller manager.
        controllers: the controllers of Kubernetes beside it.
        webhooks: Karmada's own file of webhook configurations; None for those of ``karmada_webhooks.yaml``.
    """

    webhook: Sequence[str] = (GATES,)
    manager: Sequence[str] = (GATES,)
    controllers: Sequence[str] = ("namespace-controller", "garbage-collector-controller")
    webhooks: Path | None = None


def binaries(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of Karmada's binaries; None if none is named."""
    named = environment.get(VARIABLE)
    if not named:
        return None
    for name in (_AGGREGATED, _WEBHOOK, _MANAGER):
        if not os.access(Path(named) / name, os.X_OK):
            raise MissingAssetError(f"{VARIABLE}={named} holds no executable {name}: unset it to use the model")
    return Path(named)


class RealKarmada:
    """Karmada's processes. ``Fleet`` uses it through the protocol ``Driver``."""

    real = True

    def __init__(self, plane: ControlPlane, folder: Path, setup: Setup = Setup()) -> None:
        """Start them.

        Args:
            plane: the API server, without Karmada's definitions.
            folder: see ``binaries``.
            setup: how they run.
        """
        self._plane, self._folder, self._setup = plane, folder, setup
        self._processes: Processes = plane.processes
        plane.install(folder)
        for name in (SYSTEM, "karmada-cluster"):
            plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._aggregated_port = self._processes.ports.free()
        self._host = start_controller_manager(self._processes, plane, setup.controllers)
        self._aggregated = self._start_aggregated_apiserver()
        self._serve_clusters()
        self._webhook_port = self._processes.ports.free()
        self._webhook = self._start_webhook()
        self._register_webhooks()
        self._manager = self._start_manager()

    def join(self, member: Member) -> None:
        for each in member.joined():
            self._plane.api.create(each)

    def admitted(self, policy: JSON) -> JSON:
        """Return a policy as it is: Karmada's webhook completes it."""
        return policy

    def kill(self, *flags: str) -> None:
        """Kill the controller manager, and start it again with further flags."""
        self._manager.kill()
        self._manager = self._start_manager(*flags)

    def restart(self) -> None:
        """Kill all processes, and start them again. What they watch may have gone back."""
        for each in (self._host, self._aggregated, self._webhook, self._manager):
            each.kill()
        self._host = start_controller_manager(self._processes, self._plane, self._setup.controllers)
        self._aggregated = self._start_aggregated_apiserver()
        self._wait_for_clusters()
        self._webhook = self._start_webhook()
        self._manager = self._start_manager()

    def start_scheduler(self) -> Process | None:
        """Start karmada-scheduler; return None if the folder does not hold it."""
        if not os.access(self._folder / SCHEDULER, os.X_OK):
            return None
        return self.start(SCHEDULER, "--leader-elect=false")

    def start(self, name: str, *flags: str, kubeconfig: Path | None = None) -> Process:
        """Start a component of Karmada, and wait until it serves its metrics.

        Args:
            name: its binary.
            flags: its options, without addresses of metrics and probes.
            kubeconfig: its access; by default an administrator's.
        """
        ports = self._processes.ports
        metrics = f"{HOST}:{ports.free()}"
        process = self._processes.start(name, [
            self._folder / name, f"--kubeconfig={kubeconfig or self._plane.kubeconfig}",
            f"--metrics-bind-address={metrics}", f"--health-probe-bind-address={HOST}:{ports.free()}", *flags,
        ])  # fmt: skip
        process.wait_for("to be ready", lambda: fetch(f"http://{metrics}/metrics") is not None, START_LIMIT_S)
        return process

    def close(self) -> None:
        """Do nothing: its processes end with those of the API server."""

    def _file(self, name: str) -> Path:
        return self._processes.folder / name

    def _start_aggregated_apiserver(self) -> Process:
        hosts = ("localhost", f"{_AGGREGATED}.{SYSTEM}.svc")
        self._plane.authority.issue(_AGGREGATED, hosts=hosts).write(self._file("agg.crt"), self._file("agg.key"))
        access = [f"--{use}kubeconfig={self._plane.kubeconfig}" for use in ("", "authentication-", "authorization-")]
        return self._processes.start(_AGGREGATED, [
            self._folder / _AGGREGATED, *access, f"--etcd-servers={self._plane.etcd_url}",
            f"--bind-address={HOST}", f"--secure-port={self._aggregated_port}",
            f"--tls-cert-file={self._file('agg.crt')}", f"--tls-private-key-file={self._file('agg.key')}",
        ])  # fmt: skip

    def _serve_clusters(self) -> None:
        named = {"namespace": SYSTEM, "name": _AGGREGATED}
        outside = {"type": "ExternalName", "externalName": "localhost"}
        self._plane.api.create({"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": outside})
        self._plane.api.create(
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": "v1alpha1.cluster.karmada.io"},
                "spec": {
                    "group": "cluster.karmada.io",
                    "version": "v1alpha1",
                    "groupPriorityMinimum": 2000,
                    "versionPriority": 10,
                    "service": {**named, "port": self._aggregated_port},
                    "caBundle": b64encode(self._plane.authority.certificate).decode(),
                },
            }
        )
        self._wait_for_clusters()

    def _wait_for_clusters(self) -> None:
        served = "/apis/cluster.karmada.io/v1alpha1/clusters"
        wait_for("the Clusters to be served", lambda: self._plane.text(served), START_LIMIT_S)

    def _start_webhook(self) -> Process:
        folder = self._file(_WEBHOOK)
        folder.mkdir(exist_ok=True)
        self._plane.authority.issue(_WEBHOOK, hosts=(HOST,)).write(folder / "tls.crt", folder / "tls.key")
        address = (f"--bind-address={HOST}", f"--secure-port={self._webhook_port}", f"--cert-dir={folder}")
        return self.start(_WEBHOOK, *address, *self._setup.webhook)

    def _register_webhooks(self) -> None:
        for each in self._webhooks(f"https://{HOST}:{self._webhook_port}"):
            self._plane.api.create(each)

    def _webhooks(self, url: str) -> Iterator[JSON]:
        authority = self._plane.authority.certificate
        if self._setup.webhooks is not None:
            text = self._setup.webhooks.read_text().replace("{{caBundle}}", b64encode(authority).decode())
            yield from yaml.safe_load_all(text.replace(f"https://{_WEBHOOK}.{SYSTEM}.svc:443", url))
            return
        for verb, hooks in data("karmada_webhooks").items():
            entries = [
                Hook(f"/{verb}-{name}", group, resource, operations).entry(
                    f"{name}.karmada.io", url, authority, timeout_s=3
                )
                for group, resource, name, operations in hooks
            ]
            yield configuration(KINDS[verb], f"{verb}.karmada.io", entries)

    def _start_manager(self, *flags: str) -> Process:
        return self.start(_MANAGER, "--controllers=*", "--leader-elect=false", *DETECTION, *self._setup.manager, *flags)
