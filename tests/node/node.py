"""A node of Kubernetes in the network namespace of this process: containerd, kubelet, kube-proxy, a bridge and DNS.

`make e2e-node` starts the tests in namespaces of their own for network, mounts and processes, so that all of this ends
with the tests. Nothing of it is reachable from outside.
"""

import io
import json
import os
import shutil
import socket
import struct
import subprocess
import tarfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from e2e.api import RefusedError
from e2e.assets import MissingAssetError, binary
from e2e.control_plane import HOST, ControlPlane
from e2e.processes import Process, Processes
from tables import data

NAME: Final = "node"
ADDRESS: Final = "192.0.2.10"
PODS: Final = "10.244.0.0/24"
DOMAIN: Final = "cluster.local"
IMAGE: Final = "localhost/berthmaster"
PAUSE: Final = "localhost/pause:1"
ARCHIVE: Final = Path(__file__).parents[2] / "dist" / "berthmaster-image.tar"
PROGRAMS: Final = ("containerd", "ctr", "runc", "ip", "nft", "conntrack")
CNI: Final = Path("/usr/lib/cni")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_START_LIMIT_S: Final = 120.0
_COMMAND_LIMIT_S: Final = 180


def needed_programs() -> None:
    """Check what the machine must have."""
    if os.geteuid() or os.environ.get("BERTHMASTER_NODE") != "namespaces":
        raise MissingAssetError("a node needs root and namespaces of its own: run `make e2e-node` as root on Debian 12")
    if missing := [each for each in PROGRAMS if not shutil.which(each)] + ([] if CNI.exists() else [str(CNI)]):
        packages = "containerd runc containernetworking-plugins iproute2 nftables conntrack"
        raise MissingAssetError(f"{', '.join(missing)} is missing: apt-get install {packages}")
    if not ARCHIVE.exists():
        raise MissingAssetError(f"there is no {ARCHIVE}: run `make image`")
    for each in ("kubelet", "kube-proxy", "kube-controller-manager", "kube-scheduler", "kubectl"):
        binary(each)


class Host(ControlPlane):
    """A control plane whose Service `kubernetes` leads to it, with ServiceAccounts."""

    hosts = (HOST, ADDRESS, "10.0.0.1", "kubernetes.default.svc")
    service_accounts = True

    def __init__(self, processes: Processes) -> None:
        folder = processes.folder
        super().__init__(
            processes,
            flags=(
                "--bind-address=0.0.0.0",
                f"--advertise-address={ADDRESS}",
                "--endpoint-reconciler-type=lease",
                "--allow-privileged=false",
                f"--kubelet-client-certificate={folder / 'admin.crt'}",
                f"--kubelet-client-key={folder / 'admin.key'}",
                "--kubelet-preferred-address-types=InternalIP",
            ),
        )
        manager = [
            binary("kube-controller-manager"), f"--kubeconfig={self.kubeconfig}", "--leader-elect=false",
            f"--service-account-private-key-file={folder / 'service-accounts.key'}",
            f"--root-ca-file={folder / 'ca.crt'}", f"--bind-address={HOST}", f"--secure-port={processes.ports.free()}",
            f"--cert-dir={folder}", "--concurrent-deployment-syncs=5",
        ]  # fmt: skip
        processes.start("kube-controller-manager", manager)
        self.start_scheduler({})


class Node:
    """The node of a host. It is ready after the constructor."""

    def __init__(self, host: Host, processes: Processes) -> None:
        self._host, self._processes = host, processes
        self._folder = processes.folder / "node"
        self._folder.mkdir()
        self.socket = self._folder / "containerd.sock"
        self.names = Names(host)
        self._options = self._configuration()
        self._containerd = self.start_containerd()
        self.ctr("images", "import", str(self._pause_archive()))
        self._start_proxy()
        self._start_kubelet()

    def ctr(self, *words: str) -> str:
        return run(["ctr", f"--address={self.socket}", "--namespace=k8s.io", *words])

    def _configuration(self) -> dict[str, Any]:
        """Return the options of the processes, after the files that they name are written."""
        found: dict[str, Any] = data(
            "node",
            folder=self._folder, plane=self._processes.folder, name=NAME, address=ADDRESS, pods=PODS, domain=DOMAIN,
            pause=PAUSE, cni=CNI,
        )  # fmt: skip
        (self._folder / "net.d").mkdir()
        for name, content in found["files"].items():
            (self._folder / name).write_text(content)
        return found

    def start_containerd(self) -> Process:
        file = self._folder / "containerd.toml"
        process = self._processes.start("containerd", ["containerd", f"--config={file}"])
        process.wait_for("to answer", lambda: not run(["ctr", f"--address={self.socket}", "version"], ok=False), 60)
        self._containerd = process
        return process

    def restart_containerd(self) -> None:
        """Kill containerd and start it again. Containers keep running."""
        self._containerd.kill()
        self.start_containerd()

    def _start_proxy(self) -> None:
        self._processes.start("kube-proxy", [binary("kube-proxy"), *self._options["kube-proxy"]])

    def _start_kubelet(self) -> None:
        kubelet = self._processes.start("kubelet", [binary("kubelet"), *self._options["kubelet"]])
        kubelet.wait_for("the node to be ready", self._is_ready, _START_LIMIT_S)

    def _is_ready(self) -> bool:
        with suppress(RefusedError):
            node = self._host.api.get({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}})
            return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
        return False

    def _pause_archive(self) -> Path:
        """An archive with the layers of our image and a process that waits: the first container of each pod."""
        file = self._folder / "pause.tar"
        with tarfile.open(ARCHIVE) as ours, tarfile.open(file, "w") as pause:
            [manifest] = json.load(ours.extractfile("manifest.json"))
            config = json.load(ours.extractfile(manifest["Config"]))
            config["config"] = {"Entrypoint": ["/usr/bin/python3", "-ISc", "import signal; signal.pause()"]}
            manifest |= {"RepoTags": [PAUSE], "Config": "pause.json"}
            for name in manifest["Layers"]:
                pause.addfile(ours.getmember(name), ours.extractfile(name))
            for name, value in (("pause.json", config), ("manifest.json", [manifest])):
                content = json.dumps(value).encode()
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                pause.addfile(entry, io.BytesIO(content))
        return file

    def memory(self, pod: dict[str, Any]) -> dict[str, int]:
        """The anonymous memory of each container of a pod in bytes, as its cgroup counts it."""
        found = {}
        for status in pod["status"]["containerStatuses"]:
            [cgroup] = self.cgroups("memory", status["containerID"])
            numbers = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
            found[status["name"]] = int(numbers["total_rss"])
        return found

    def processes_of(self, container: str) -> list[int]:
        """The ids of a container's processes, the first one first. Empty if the container has ended."""
        found: list[int] = []
        for cgroup in self.cgroups("pids", container):
            with suppress(FileNotFoundError):
                found += map(int, (cgroup / "cgroup.procs").read_text().split())
        return found

    @staticmethod
    def cgroups(controller: str, container: str) -> list[Path]:
        return list((_CGROUPS / controller / "kubepods").rglob(container.rpartition("/")[2]))


def ports_of(process: int) -> set[int]:
    """The TCP ports that a process listens on, in its network namespace."""
    held = set[str]()
    for each in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            held.add(str(each.readlink()))
    tables = [Path(f"/proc/{process}/net/{each}").read_text().splitlines()[1:] for each in ("tcp", "tcp6")]
    sockets = [line.split() for table in tables for line in table]
    return {int(at[1].rpartition(":")[2], 16) for at in sockets if at[3] == "0A" and f"socket:[{at[9]}]" in held}


class Names:
    """DNS: the names of Services, as the API server lists them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.file = host.processes.folder / "resolv.conf"
        self.file.write_text(f"nameserver {ADDRESS}\n")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((ADDRESS, 53))
        threading.Thread(target=self._serve, name="dns", daemon=True).start()

    def _serve(self) -> None:
        while True:
            question, client = self._socket.recvfrom(512)
            with suppress(OSError, RefusedError):
                self._socket.sendto(self._answer(question), client)

    def _answer(self, question: bytes) -> bytes:
        labels, at = [], 12
        while length := question[at]:
            labels.append(question[at + 1 : at + 1 + length].decode().lower())
            at += 1 + length
        end, kind = at + 5, struct.unpack(">H", question[at + 1 : at + 3])[0]
        address = self._address(".".join(labels))
        answers = 1 if address and kind == 1 else 0
        flags = 0x8580 if address else 0x8583  # an authoritative answer; 3 means that the name does not exist
        head = question[:2] + struct.pack(">HHHHH", flags, 1, answers, 0, 0) + question[12:end]
        data = socket.inet_aton(address) if address else b""
        return head + (b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + data if answers else b"")

    def _address(self, name: str) -> str:
        for service in self._host.api.list("v1", "Service"):
            about = service["metadata"]
            if name.removesuffix(f".{DOMAIN}") == f"{about['name']}.{about['namespace']}.svc":
                return str(service["spec"]["clusterIP"])
        return ""


def make_network() -> None:
    """Give the network namespace an address, a default route and a loopback device."""
    for line in (
        "link set lo up",
        "link add outside type bridge",
        "link add one type veth peer name two",
        "link set two master outside",
        f"address add {ADDRESS}/24 dev outside",
        "link set one up",
        "link set two up",
        "link set outside up",
        "route add default via 192.0.2.1 dev outside",
    ):
        run(["ip", *line.split()])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def remove_cgroups() -> None:
    """Remove the empty cgroups that kubelet left."""
    for root in _CGROUPS.glob("*/kubepods"):
        for folder in [*sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True), root]:
            with suppress(OSError):
                folder.rmdir()


def run(command: Sequence[str], *, ok: bool = True, environment: dict[str, str] | None = None) -> str:
    """Run a command and return its output. Without ``ok``, return its error, empty if there was none."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_COMMAND_LIMIT_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if not ok:
        return done.stderr if done.returncode else ""
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}{done.stdout}"
    return done.stdout
