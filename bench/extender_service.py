"""Time the extender's service over real sockets: ``make bench-extender``.

A server is started with its default two workers on a generated fleet, and asked over plain keep-alive connections. A
client of raw sockets counts what comes back, so that little of the figures is the client's own.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import kube_scheduler
import msgspec
from workloads import Workload, generated

from extender.protocols.native.wire import ScheduleRequest
from fleet.model.decode import builtins, decode_json, encode_json

_READY_WITHIN_S = 60.0
_CLUSTER = "cluster.karmada.io/v1alpha1"


class Figures(NamedTuple):
    """Milliseconds per request of one connection, and requests a second of many."""

    p50: float
    p99: float
    rate: float


class Server(NamedTuple):
    """A running service."""

    port: int
    probe_port: int
    pid: int


@contextmanager
def serving(clusters: Sequence[Any], *flags: str) -> Iterator[Server]:
    """Serve a fleet until the end of the block."""
    port, probe_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        listed = {"apiVersion": _CLUSTER, "kind": "ClusterList", "items": [builtins(each) for each in clusters]}
        Path(folder, "clusters.json").write_bytes(msgspec.json.encode(listed))
        command = [
            sys.executable, "-m", "cli.main", "extender", "-f", folder, "--bind", f"127.0.0.1:{port}", "--probe-bind",
            f"127.0.0.1:{probe_port}", "--drain-s", "0", "--log-level", "warning", *flags,
        ]  # fmt: skip
        process = subprocess.Popen(command)  # noqa: S603 - this very program
        try:
            await_ready(probe_port, process)
            yield Server(port, probe_port, process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def free_port() -> int:
    """A port that is free right now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_ready(probe_port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the service says that it is ready."""
    until = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{probe_port}/readyz", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the service did not become ready")


class Client:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """Send a request, wait for its answer, and give back the body."""
        self._socket.sendall(request)
        answer = self._socket.recv(262144)
        head_end = answer.find(b"\r\n\r\n")
        while head_end < 0:
            answer += self._more()
            head_end = answer.find(b"\r\n\r\n")
        at = answer.lower().index(b"content-length: ") + 16
        length = int(answer[at : answer.index(b"\r", at)])
        while len(answer) < head_end + 4 + length:
            answer += self._more()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer[:400])
        return answer[head_end + 4 :]

    def _more(self) -> bytes:
        more = self._socket.recv(262144)
        if not more:
            raise ConnectionError("the server closed the connection")
        return more


def post(path: str, body: bytes, content_type: str = "application/json") -> bytes:
    """A request as it goes over the wire."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


def measure(server: Server, requests: Sequence[bytes], *, count: int, connections: int, seconds: float) -> Figures:
    """Ask one connection ``count`` times, then many for some seconds."""
    client = Client(server.port)
    for request in requests:
        client.ask(request)
    times = []
    for index in range(count):
        start = time.perf_counter()
        client.ask(requests[index % len(requests)])
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    return Figures(times[count // 2], times[int(count * 0.99)], _rate(server, requests, connections, seconds))


def _rate(server: Server, requests: Sequence[bytes], connections: int, seconds: float) -> float:
    """Requests a second over a pool of connections, asked by a process of its own."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(msgspec.json.encode([request.decode() for request in requests]))
        file.flush()
        command = [sys.executable, __file__, "--pool", f"{server.port},{connections},{seconds}", "--input", file.name]
        return float(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603 - this very program


def pool(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> float:
    """Requests a second over a pool of connections, each of which waits for an answer before it asks again."""
    until = time.monotonic() + seconds
    counts = [0] * connections

    def ask(number: int) -> None:
        client = Client(port)
        while time.monotonic() < until:
            client.ask(requests[(counts[number] + number) % len(requests)])
            counts[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(connections)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - start)


def batch_rate(server: Server, workload: Workload, lines: int) -> float:
    """Decisions a second through one batch."""
    body = b"".join(
        msgspec.json.encode({"id": index, "binding": builtins(workload.bindings[index % len(workload.bindings)])})
        + b"\n"
        for index in range(lines)
    )
    client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    start = time.perf_counter()
    sender = threading.Thread(
        target=client.sendall, args=(post("/v1/schedule/batch", body, "application/x-ndjson"),), daemon=True
    )
    sender.start()
    answers, tail = 0, b""
    while not tail.endswith(b"0\r\n\r\n"):
        received = client.recv(1 << 20)
        if not received:
            raise ConnectionError("the server closed the connection")
        answers += received.count(b'"decision":{')
        tail = (tail + received)[-5:]
    elapsed = time.perf_counter() - start
    if answers < lines * 0.999:  # a name may be split between two reads
        raise RuntimeError(f"{answers} of {lines} lines were answered")
    return lines / elapsed


def decode_share(workload: Workload) -> tuple[float, float]:
    """Milliseconds to decode a request that carries all clusters, and its size in megabytes."""
    body = encode_json(ScheduleRequest(workload.bindings[0], workload.clusters))
    start = time.perf_counter()
    for _ in range(5):
        decode_json(ScheduleRequest, body)
    return (time.perf_counter() - start) / 5 * 1e3, len(body) / 1e6


def native_requests(workload: Workload) -> list[bytes]:
    """``POST /v1/schedule`` with each binding of a workload."""
    return [post("/v1/schedule", encode_json(ScheduleRequest(binding))) for binding in workload.bindings]


def kubeadmiral_requests(verb: str) -> list[bytes]:
    """``filter`` or ``score`` of one cluster, for an object with two groups."""
    groups = [
        {"affinityName": "primary", "labelSelector": {"matchLabels": {"env": "prod"}}},
        {"affinityName": "backup", "labelSelector": {"matchLabels": {"env": "stage"}}},
    ]
    unit = {
        "apiVersion": "apps/v1", "kind": "Deployment", "resource": "deployments", "namespace": "shop", "name": "web",
        "annotations": {"policy.berthmaster.io/cluster-affinities": json.dumps(groups)}, "schedulingMode": "Divide",
        "desiredReplicas": 6, "resourceRequest": {"cpu": "0", "memory": "0"}, "currentClusters": [],
    }  # fmt: skip
    amounts = {"cpu": "64", "memory": "256Gi"}
    served = {"group": "apps", "version": "v1", "scope": "Namespaced"}
    kinds = [{**served, "kind": f"Kind{index}", "pluralName": f"kind{index}s"} for index in range(60)]

    def cluster(index: int) -> dict[str, Any]:
        return {
            "metadata": {"name": f"member{index}", "labels": {"env": ("prod", "stage", "dev")[index % 3]}},
            "spec": {"apiEndpoint": "https://10.0.0.1:6443", "taints": []},
            "status": {
                "conditions": [{"type": kind, "status": "True"} for kind in ("Joined", "Ready")],
                "resources": {"schedulableNodes": 3, "allocatable": amounts, "available": amounts},
                "apiResourceTypes": kinds,
            },
        }

    path = f"/kubeadmiral/v1alpha1/{verb}"
    return [post(path, msgspec.json.encode({"schedulingUnit": unit, "cluster": cluster(i)})) for i in range(32)]


def kube_scheduler_requests(verb: str, names: Sequence[str]) -> list[bytes]:
    """``filter`` or ``prioritize`` of nodes by name, for a pod with a placement of two groups."""
    body = msgspec.json.encode({"Pod": kube_scheduler.pod(), "Nodes": None, "NodeNames": names})
    return [post(f"/kube-scheduler/{verb}", body)]


@click.command()
@click.option("--size", default=1000, show_default=True, help="Clusters in the fleet: one of the generated sizes.")
@click.option("--count", default=3000, show_default=True, type=click.IntRange(10), help="Requests that are timed.")
@click.option("--connections", default=4, show_default=True, type=click.IntRange(1), help="Connections of the pool.")
@click.option("--seconds", default=5.0, show_default=True, help="How long the pool is kept busy.")
@click.option("--lines", default=20_000, show_default=True, help="Lines of the batch.")
@click.option("--pool", "pool_of", hidden=True)
@click.option("--input", "path", hidden=True)
def main(
    size: int, count: int, connections: int, seconds: float, lines: int, pool_of: str | None, path: str | None
) -> None:
    """Print what requests cost."""
    if pool_of is not None and path is not None:
        port, threads, duration = pool_of.split(",")
        texts = json.loads(Path(path).read_bytes())
        print(pool(int(port), [text.encode() for text in texts], int(threads), float(duration)))
        return
    workload = next(each for each in generated(7) if len(each.clusters) == size)
    print(f"{size} clusters, {os.cpu_count()} cores, 2 workers, plain HTTP, {connections} connections in the pool\n")
    print(f"{'':>36} {'p50 ms':>8} {'p99 ms':>8} {'a second':>10}")
    with serving(workload.clusters) as server:
        names = [cluster.name for cluster in workload.clusters[:10]]
        asked = {
            "POST /v1/schedule": native_requests(workload),
            "KubeAdmiral filter, one cluster": kubeadmiral_requests("filter"),
            "KubeAdmiral score, one cluster": kubeadmiral_requests("score"),
            "kube-scheduler filter, 10 names": kube_scheduler_requests("filter", names),
            "kube-scheduler prioritize, 10 names": kube_scheduler_requests("prioritize", names),
        }
        for what, requests in asked.items():
            figures = measure(server, requests, count=count, connections=connections, seconds=seconds)
            print(f"{what:>36} {figures.p50:8.3f} {figures.p99:8.3f} {figures.rate:10,.0f}", flush=True)
        batch_rate(server, workload, 2000)
        print(f"{'POST /v1/schedule/batch, a line':>36} {'':>8} {'':>8} {batch_rate(server, workload, lines):10,.0f}")
        whole = post("/v1/schedule", encode_json(ScheduleRequest(workload.bindings[0], workload.clusters)))
        carried = measure(server, [whole], count=30, connections=1, seconds=2.0)
        decode_ms, megabytes = decode_share(workload)
        print(f"{'the same with its own clusters':>36} {carried.p50:8.1f} {carried.p99:8.1f} {carried.rate:10,.0f}")
        print(
            f"\na request with {size} clusters has {megabytes:.1f} MB; decoding them is {decode_ms / carried.p50:.0%}"
        )


if __name__ == "__main__":
    main()
