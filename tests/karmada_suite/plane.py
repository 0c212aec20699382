"""What Karmada's own end-to-end suite works on: Karmada with all its feature gates, and members that run pods.

The folder of binaries is that of the fleet (``fleet.real_karmada``). Besides, it holds:

- ``karmada-scheduler`` and ``karmada-scheduler-estimator``,
- the suite, compiled, as ``base.test``, and ``ginkgo`` of the same version,
- Karmada's ``artifacts/deploy/webhook-configuration.yaml`` as ``webhook-configuration.yaml.in``: it is no YAML yet,
- optionally ``karmada-agent``: the last member then is in Pull mode,
"""

import base64
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from e2e.assets import MissingAssetError, binary
from e2e.control_plane import ControlPlane
from e2e.processes import Process, Processes, wait_for
from estimator_server import external
from fleet.member import Member
from fleet.real_karmada import DETECTION, SCHEDULER, SYSTEM, RealKarmada, Setup, binaries
from kube_store import JSON

SUITE: Final = "base.test"
GINKGO: Final = "ginkgo"
WEBHOOKS: Final = "webhook-configuration.yaml.in"
AGENT: Final = "karmada-agent"
ESTIMATOR: Final = "karmada-scheduler-estimator"
MEMBERS: Final = ("member1", "member2", "member3")
"""The suite names them so."""
GATES: Final = "--feature-gates=AllAlpha=true,AllBeta=true"
LIMIT_S: Final = 180.0


def suite_binaries() -> Path:
    """Return the folder of binaries.

    Raises:
        MissingAssetError: there is none, or a file is missing; the message says which.
    """
    folder = binaries()
    if folder is None:
        raise MissingAssetError("KARMADA_BINARIES names no folder with Karmada, its compiled suite and ginkgo")
    for name in (SCHEDULER, ESTIMATOR, SUITE, GINKGO, WEBHOOKS):
        if not (folder / name).exists():
            raise MissingAssetError(f"KARMADA_BINARIES={folder} holds no {name}")
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"):
        binary(name)
    return folder


class WholeMember(Member):
    """A member with all controllers that the suite waits for."""

    controllers: Sequence[str] = (
        *Member.controllers, "serviceaccount-token-controller", "serviceaccount-controller",
        "resourcequota-controller", "disruption-controller", "clusterrole-aggregation-controller",
        "horizontal-pod-autoscaler-controller", "cronjob-controller",
    )  # fmt: skip
    missing_images = ("fake/nginx:1.19.0",)
    jobs_finish = True


def spare(name: str, folder: Path, address: str) -> WholeMember:
    """Start a cluster whose API server is also known at an address of its own."""
    hosts = (*ControlPlane.hosts, address)
    plane = type("SparePlane", (ControlPlane,), {"hosts": hosts})
    return type("Spare", (WholeMember,), {"control_plane": plane})(name, folder)


class SuitePlane:
    """The running plane.

    Attributes:
        folder: where logs and files are put.
        processes: the processes of the host.
        host: Karmada's API server.
        karmada: Karmada, without a scheduler.
        kubeconfig: what the suite gets, with the contexts of the host and of Karmada.
        pull: the names of members in Pull mode, each with a kubeconfig.
    """

    def __init__(self, folder: Path, binaries: Path, manager: Sequence[str]) -> None:
        """Start it, and wait until all members are ready.

        Args:
            folder: a new folder.
            binaries: see ``suite_binaries``.
            manager: more options of Karmada's controller manager.
        """
        self.folder, self._binaries = folder, binaries
        (folder / "host").mkdir(parents=True)
        self.processes = Processes(folder / "host")
        self._members: list[Member] = []
        self.pull: dict[str, Path] = {}
        try:
            self.host = ControlPlane(self.processes)
            self.karmada = RealKarmada(self.host, binaries, _setup(binaries, manager))
            with ThreadPoolExecutor(2) as starters:
                for member in starters.map(self._start, MEMBERS):
                    self._join(member)
            for name in MEMBERS:
                wait_for(f"{name} to be ready", lambda name=name: self._is_ready(name), LIMIT_S)
            self.kubeconfig = folder / "karmada.config"
            self.kubeconfig.write_text(json.dumps(access(self.host, "karmada-apiserver", "karmada-host")))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for each in [*(member.processes for member in self._members), self.processes]:
            each.stop_all()

    def _start(self, name: str) -> Member:
        member = WholeMember(name, self.folder / name)
        self._members.append(member)
        return member

    def _join(self, member: Member) -> None:
        if member.name == MEMBERS[-1] and os.access(self._binaries / AGENT, os.X_OK):
            self._start_agent(member)
        else:
            self.karmada.join(member)
        self._start_estimator(member)

    def _start_agent(self, member: Member) -> Process:
        file = self.folder / f"{member.name}.config"
        file.write_text(json.dumps(access(member.plane, member.name)))
        self.pull[member.name] = file
        frequency = [each for each in DETECTION if "monitor" not in each]
        return self.karmada.start(
            AGENT, f"--karmada-kubeconfig={self.host.kubeconfig}", f"--cluster-name={member.name}",
            f"--cluster-api-endpoint={member.plane.url}", "--leader-elect=false", *frequency,
            "--feature-gates=CustomizedClusterResourceModeling=true,MultiClusterService=true",
            kubeconfig=member.plane.kubeconfig,
        )  # fmt: skip

    def _start_estimator(self, member: Member) -> None:
        port = self.processes.ports.free()
        flags = (f"--cluster-name={member.name}", f"--server-port={port}", GATES)
        estimator = self.karmada.start(ESTIMATOR, *flags, kubeconfig=member.plane.kubeconfig)
        estimator.wait_for("to listen", lambda: estimator.logged("Listening port"), LIMIT_S)
        named = {"namespace": SYSTEM, "name": f"{ESTIMATOR}-{member.name}"}
        self.host.api.create({"apiVersion": "v1", "kind": "Service", "metadata": named} | external(port, "localhost"))

    def _is_ready(self, name: str) -> bool:
        cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}
        if not self.host.api.exists(cluster):
            return False
        conditions = self.host.api.get(cluster).get("status", {}).get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _setup(binaries: Path, manager: Sequence[str]) -> Setup:
    return Setup(
        webhook=(GATES, "--allow-no-execute-taint-policy=true"),
        manager=(
            "--controllers=hpaScaleTargetMarker,deploymentReplicasSyncer", GATES,
            "--enable-no-execute-taint-eviction=true", *manager,
        ),
        controllers=(
            "namespace-controller", "garbage-collector-controller", "serviceaccount-token-controller",
            "ttl-after-finished-controller", "clusterrole-aggregation-controller",
        ),
        webhooks=binaries / WEBHOOKS,
    )  # fmt: skip


def access(plane: ControlPlane, *contexts: str, server: str = "") -> JSON:
    """Return a kubeconfig of an administrator that names no files, with these contexts."""

    def content(name: str) -> str:
        return base64.b64encode((plane.processes.folder / name).read_bytes()).decode()

    cluster = {"server": server or plane.url, "certificate-authority-data": content("ca.crt")}
    user = {"client-certificate-data": content("admin.crt"), "client-key-data": content("admin.key")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": each, "cluster": cluster} for each in contexts],
        "users": [{"name": each, "user": user} for each in contexts],
        "contexts": [{"name": each, "context": {"cluster": each, "user": each}} for each in contexts],
        "current-context": contexts[0],
    }
