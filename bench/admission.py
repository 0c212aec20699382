"""Measure how fast the webhook answers reviews over TLS: ``make bench-webhook``.

The benchmark starts ``berthmaster webhook`` on loopback with a certificate of its own. It sends reviews over 1 and 16
kept-alive connections: mutation, then validation, of policies of three sizes. ``wrk`` makes the load if it is
installed; it needs little CPU compared with the server. Else processes of this script make the load, one for each two
connections. They write prepared bytes and look for the end of the answer.

The column "others" is the CPU that other programs used at the same time. The server could not use that part.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

from reviews import admission_review, answer, patched
from served import Server, post, reviewing

from webhook.admission.settings import AdmissionSettings, WebhookMode

PATHS = ("/mutate-propagationpolicy", "/validate-propagationpolicy")
CONNECTIONS = (1, 16)
SIZES = {"small": (1, 1, 2), "medium": (3, 3, 4), "large": (100, 10, 50)}
"""The number of resource selectors, of groups, and of clusters that a group names. A small policy has few fields."""
Measured = tuple[int, float, float, float, int]
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
WRK_SCRIPT = """
local file = io.open("{body}") local body = file:read("*a") file:close()
wrk.method = "POST" wrk.body = body wrk.headers["Content-Type"] = "application/json"
done = function(summary, latency)
  io.write(string.format("%d %d %d %d %d\\n", summary.requests, summary.duration, latency:percentile(50),
    latency:percentile(99), summary.errors.status + summary.errors.read + summary.errors.timeout))
end
"""


def policy(priority: int, size: str = "medium") -> dict[str, Any]:
    """Return a valid policy without warnings, with groups, overflow, tolerations, spreading and failover."""
    selectors, group_count, clusters = SIZES[size]
    groups = [
        {
            "affinityName": f"group-{index}",
            "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]},
            "clusterNames": [f"member{index}-{number}" for number in range(clusters)],
            "overflowAffinities": [{"affinityName": "spill", "clusterNames": [f"spill{index}"]}],
        }
        for index in range(group_count)
    ]
    named = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{each}"} for each in range(selectors)]
    made = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "bench", "namespace": "default", "labels": {"team": "shop"}},
    }
    if size == "small":
        placement = {"clusterAffinity": {"clusterNames": groups[0]["clusterNames"]}}
        return {**made, "spec": {"resourceSelectors": named, "priority": priority, "placement": placement}}
    return {
        **made,
        "spec": {
            "resourceSelectors": named,
            "priority": priority,
            "preemption": "Always",
            "propagateDeps": True,
            "schedulerName": "default-scheduler",
            "conflictResolution": "Abort",
            "failover": {
                "application": {"decisionConditions": {"tolerationSeconds": 120}, "purgeMode": "Gracefully"},
            },
            "placement": {
                "clusterAffinities": groups,
                "clusterTolerations": [
                    {"key": "dedicated", "operator": "Equal", "value": "shop", "effect": "NoSchedule"}
                ],
                "spreadConstraints": [
                    {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 8},
                    {"spreadByField": "region", "maxGroups": 3},
                ],
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
                },
            },
        },
    }


def reviews() -> list[bytes]:
    """Return requests as bytes: a mutation, and the validation of its result."""
    bodies = zip(PATHS, prepared(AdmissionSettings()), strict=True)
    return [post(path, json.dumps(body).encode()) for path, body in bodies]


def prepared(settings: AdmissionSettings, size: str = "medium") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the reviews that an API server would send: before the mutation, and after it."""
    old = policy(9, size)
    old["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = "5c1f"
    old = patched(old, answer(PATHS[0], admission_review(old), settings))
    new = policy(3, size)
    new["metadata"]["labels"] = old["metadata"]["labels"]
    first = admission_review(new, old)
    return first, admission_review(patched(new, answer(PATHS[0], first, settings)), old)


def cpu_seconds(parent: int) -> float:
    """Return the CPU time that the children of a process have used."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    stats = (Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split() for child in children)
    return sum(int(each[11]) + int(each[12]) for each in stats) / CLOCK_TICKS


def machine_cpu_seconds() -> tuple[float, float]:
    """Return the CPU time of the machine, and that of the children of this script that have ended."""
    user, nice, system, _idle, _wait, *interrupts = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    ended = os.times()
    return (user + nice + system + sum(interrupts)) / CLOCK_TICKS, ended.children_user + ended.children_system


def with_wrk(url: str, body: Path, connections: int, seconds: int, folder: Path) -> Measured:
    """Measure with wrk: requests, seconds, p50 and p99 in ms, errors."""
    script = folder / "post.lua"
    script.write_text(WRK_SCRIPT.format(body=body))
    arguments = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), url]
    output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout  # noqa: S603 - fixed arguments
    requests, micros, p50, p99, errors = map(int, output.strip().splitlines()[-1].split())
    return requests, micros / 1e6, p50 / 1e3, p99 / 1e3, errors


def ask(server: Server, request: bytes, connections: int, seconds: int, results: "Queue[Any]") -> None:
    """Make load in one process: its connections take turns."""
    opened = [server.connect() for _ in range(connections)]
    took, errors, until = [], 0, time.perf_counter() + seconds
    sent = {}
    while time.perf_counter() < until:
        for each in opened:
            sent[each] = time.perf_counter()
            each.sendall(request)
        for each in opened:
            answer = received(each)
            took.append(time.perf_counter() - sent[each])
            errors += not answer.startswith(b"HTTP/1.1 200")
    results.put((took, errors))


def received(client: socket.socket) -> bytes:
    """Read one answer. A server may send its head and its body separately."""
    answer = client.recv(65536)
    while b"\r\n\r\n" not in answer:
        answer += client.recv(65536)
    head, _, body = answer.partition(b"\r\n\r\n")
    _, _, length = head.partition(b"Content-Length: ")
    missing = int(length.partition(b"\r")[0]) - len(body)
    while missing > 0:
        piece = client.recv(65536)
        answer += piece
        missing -= len(piece)
    return answer


def without_wrk(server: Server, path: str, body: Path, connections: int, seconds: int) -> Measured:
    """Measure with processes of this script."""
    request = post(path, body.read_bytes())
    results = multiprocessing.Queue()
    split = [2] * (connections // 2) or [1]
    arguments = [(server, request, each, seconds, results) for each in split]
    load = [multiprocessing.Process(target=ask, args=each) for each in arguments]
    for each in load:
        each.start()
    answers = [results.get() for _ in load]
    for each in load:
        each.join()
    took = sorted(each for part, _ in answers for each in part)
    p50, p99 = statistics.median(took) * 1e3, took[int(len(took) * 0.99)] * 1e3
    return len(took), seconds, p50, p99, sum(errors for _, errors in answers)


def figures(server: Server, name: str, path: str, body: Path, connections: int, seconds: int) -> str:
    """Return one line of the table. ``name`` is the size."""
    used, (busy, load) = cpu_seconds(server.pid), machine_cpu_seconds()
    if shutil.which("wrk"):
        url = f"https://127.0.0.1:{server.port}{path}"
        measured = with_wrk(url, body, connections, seconds, body.parent)
    else:
        measured = without_wrk(server, path, body, connections, seconds)
    requests, took, p50, p99, errors = measured
    busy, load = (now - before for now, before in zip(machine_cpu_seconds(), (busy, load), strict=True))
    used = cpu_seconds(server.pid) - used
    others = (busy - load - used) / took / (os.cpu_count() or 1)
    micros = used / requests * 1e6
    shown = (
        f"{name:15} {path:27} {connections:11}",
        f"{requests / took:8.0f} {p50:8.2f} {p99:8.2f}",
        f"{micros:10.0f}",
    )
    return " ".join((*shown, f"{others:7.0%} {errors:7}"))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5, help="for each figure")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mode", default="standalone")
    options = parser.parse_args()
    load = "wrk" if shutil.which("wrk") else "Python processes (install wrk for less of it)"
    print(
        f"{options.mode} mode, {options.workers} workers, {os.cpu_count()} cores shared with the load, TLS 1.3, "
        f"load from {load}"
    )
    titles = (
        f"{'policy':15}",
        f"{'path':27}",
        "connections",
        "   req/s",
        "  p50 ms",
        "  p99 ms",
        "CPU us/req",
        " others",
        " errors",
    )
    print(*titles)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        settings = AdmissionSettings(mode=WebhookMode(options.mode))
        flags = ("--workers", str(options.workers), "--mode", options.mode)
        with reviewing(*flags, "--peer-checks") as running:
            for size in SIZES:
                for path, review in zip(PATHS, prepared(settings, size), strict=True):
                    body = folder / "review.json"
                    body.write_text(json.dumps(review))
                    for connections in CONNECTIONS:
                        print(figures(running, size, path, body, connections, options.seconds), flush=True)


if __name__ == "__main__":
    main()
