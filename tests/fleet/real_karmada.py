"""A real Karmada on a real API server, from the folder of binaries that ``KARMADA_BINARIES`` names.

The folder holds karmada-aggregated-apiserver, karmada-webhook and karmada-controller-manager, and below it the
CustomResourceDefinitions of the same version. karmada-scheduler is optional: one scenario starts it.
"""

import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
_HOST_CONTROLLERS: Final = ("namespace-controller", "garbage-collector-controller")


def binaries(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of Karmada's binaries; None if none is named."""
    named = environment.get(VARIABLE)
    if not named:
        return None
    for name in (_AGGREGATED, "karmada-webhook", "karmada-controller-manager"):
        if not os.access(Path(named) / name, os.X_OK):
            raise MissingAssetError(f"{VARIABLE}={named} holds no executable {name}: unset it to use the model")
    return Path(named)


class RealKarmada:
    """Karmada's processes. ``Fleet`` uses it through the protocol ``Driver``."""

    real = True

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        """Start them.

        Args:
            plane: the API server, without Karmada's definitions.
            folder: see ``binaries``.
        """
        self._plane, self._folder = plane, folder
        self._processes: Processes = plane.processes
        plane.install(folder)
        for name in (SYSTEM, "karmada-cluster"):
            plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._aggregated_port = self._processes.ports.free()
        self._host = start_controller_manager(self._processes, plane, _HOST_CONTROLLERS)
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
        self._host = start_controller_manager(self._processes, self._plane, _HOST_CONTROLLERS)
        self._aggregated = self._start_aggregated_apiserver()
        self._wait_for_clusters()
        self._webhook = self._start_webhook()
        self._manager = self._start_manager()

    def start_scheduler(self) -> Process | None:
        """Start karmada-scheduler; return None if the folder does not hold it."""
        if not os.access(self._folder / SCHEDULER, os.X_OK):
            return None
        command = [*self._common(SCHEDULER), "--leader-elect=false"]
        return self._ready(self._processes.start(SCHEDULER, command), command)

    def close(self) -> None:
        """Do nothing: its processes end with those of the API server."""

    def _file(self, name: str) -> Path:
        return self._processes.folder / name

    def _common(self, name: str) -> list[str | Path]:
        ports = self._processes.ports
        return [
            self._folder / name, f"--kubeconfig={self._plane.kubeconfig}",
            f"--metrics-bind-address={HOST}:{ports.free()}", f"--health-probe-bind-address={HOST}:{ports.free()}",
        ]  # fmt: skip

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
        folder = self._file("karmada-webhook")
        folder.mkdir(exist_ok=True)
        self._plane.authority.issue("karmada-webhook", hosts=(HOST,)).write(folder / "tls.crt", folder / "tls.key")
        command = [
            *self._common("karmada-webhook"), f"--bind-address={HOST}", f"--secure-port={self._webhook_port}",
            f"--cert-dir={folder}", GATES,
        ]  # fmt: skip
        return self._ready(self._processes.start("karmada-webhook", command), command)

    def _register_webhooks(self) -> None:
        url, authority = f"https://{HOST}:{self._webhook_port}", self._plane.authority.certificate
        for verb, hooks in data("karmada_webhooks").items():
            kind = KINDS[verb]
            entries = [
                Hook(f"/{verb}-{name}", group, resource, operations).entry(
                    f"{name}.karmada.io", url, authority, timeout_s=3
                )
                for group, resource, name, operations in hooks
            ]
            self._plane.api.create(configuration(kind, f"{verb}.karmada.io", entries))

    def _start_manager(self, *flags: str) -> Process:
        command = [
            *self._common("karmada-controller-manager"), "--controllers=*", "--leader-elect=false", GATES, *DETECTION,
            *flags,
        ]  # fmt: skip
        return self._ready(self._processes.start("karmada-controller-manager", command), command)

    def _ready(self, process: Process, command: list[str | Path]) -> Process:
        address = next(str(each).partition("=")[2] for each in command if "metrics" in str(each))
        process.wait_for("to be ready", lambda: fetch(f"http://{address}/metrics") is not None, START_LIMIT_S)
        return process
