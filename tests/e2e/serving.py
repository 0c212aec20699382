"""Processes of ``berthmaster`` that serve probes and metrics, most of them beside the control plane."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.api import Api
from e2e.control_plane import HOST, ControlPlane, fetch
from e2e.processes import Process, Processes, wait_for
from fresh_metrics import fresh

COMMAND: Final = Path(sys.executable).with_name("berthmaster")
START_LIMIT_S: Final = 30.0
BRIEF_LEASE_S: Final = 4
BRIEF: Final = (f"--leader-elect-lease-s={BRIEF_LEASE_S}", f"--leader-elect-renew-s={BRIEF_LEASE_S * 0.7}")
"""Options of processes whose lease must expire soon. All others keep a long lease, because the machine may be slow."""
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_PART: Final = re.compile("_(count|sum|bucket)$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Serving:
    """A running process.

    Attributes:
        process: the child.
        port: where it serves; 0 if it serves only probes and metrics.
        probe_url: where it serves probes and metrics.
    """

    process: Process
    port: int
    probe_url: str

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def leading(self) -> bool:
        return "leading" in (fetch(f"{self.probe_url}/readyz") or "")

    def ready(self) -> bool:
        return fetch(f"{self.probe_url}/readyz") is not None

    def metrics(self) -> str:
        """Return the metrics; empty without an answer."""
        return fresh(self.probe_url, lambda: fetch(f"{self.probe_url}/metrics") or "")

    def measure(self, name: str, **labels: str) -> float:
        """The sum of a metric over the samples with these labels; 0 without samples or without an answer."""
        text = self.metrics()
        family = _PART.sub("", name)
        assert not text or f"# TYPE {family} " in text, f"there is no metric {family}"
        found = (
            (dict(_LABEL.findall(given or "")), value) for each, given, value in _SAMPLE.findall(text) if each == name
        )
        return sum(float(value) for given, value in found if labels.items() <= given.items())


def serve(
    processes: Processes,
    name: str,
    command: Sequence[str | Path],
    *flags: str,
    host: str = HOST,
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
    wait: bool = True,
) -> Serving:
    """Start a process and wait until it is ready.

    Args:
        processes: where it is put.
        name: of its log.
        command: what is started.
        flags: the options of the command, without addresses.
        host: where it serves. Probes are always on loopback.
        port: where it serves; by default a free port. 0 if it serves only probes and metrics.
        environment: more variables.
        wait: whether to wait.

    Raises:
        NotInTimeError: it did not become ready; the message shows its log.
    """
    port, probes = processes.ports.free() if port is None else port, processes.ports.free()
    bind = [f"--bind={host}:{port}"] if port else []
    arguments = [*command, *bind, f"--probe-bind={HOST}:{probes}", *flags]
    running = Serving(processes.start(name, arguments, environment), port, f"http://{HOST}:{probes}")
    if wait:
        running.process.wait_for("to be ready", running.ready, START_LIMIT_S)
    return running


def start_extender(
    processes: Processes, control_plane: ControlPlane, *watched: str, kubeconfig: Path | None = None
) -> Serving:
    """Start an extender that watches these kinds, by default with the rights of an administrator."""
    access = f"--kubeconfig={kubeconfig or control_plane.kubeconfig}"
    return serve(processes, "extender", (COMMAND, "extender"), access, *(f"--watch={kind}" for kind in watched))


def clusters(extender: Serving) -> dict[str, Any]:
    """The clusters that an extender knows, by name."""
    answer = json.loads(fetch(f"{extender.url}/v1/clusters?limit=1000") or "{}")
    return {one["name"]: one for one in answer.get("items", [])}


def start_controllers(
    processes: Processes,
    control_plane: ControlPlane,
    namespace: str,
    *flags: str,
    kubeconfig: Path | None = None,
    command: Sequence[str | Path] = (COMMAND, "controllers"),
    wait: bool = True,
) -> Serving:
    """Start controllers with leader election, and wait until they are ready as leader or standby.

    Args:
        processes: where the process is put.
        control_plane: what it works on.
        namespace: where its lease is; processes with the same one elect a leader among them.
        flags: more options of the command.
        kubeconfig: its access; by default an administrator's.
        command: what is started.
        wait: whether to wait.
    """
    return serve(
        processes, "controllers", command,
        f"--kubeconfig={kubeconfig or control_plane.kubeconfig}", f"--leader-elect-namespace={namespace}",
        "--leader-elect-lease-s=60", "--leader-elect-renew-s=50", "--leader-elect-retry-s=0.5", "--log-level=debug",
        *flags, port=0, wait=wait,
    )  # fmt: skip


def wait_for_leader(candidates: Sequence[Serving], timeout_s: float) -> Serving:
    return wait_for("a leader", lambda: next((each for each in candidates if each.leading), None), timeout_s)


def events_about(api: Api, namespace: str, name: str) -> list[dict[str, Any]]:
    """All events about the objects with a name, the oldest first."""
    found = [each for each in api.list("events.k8s.io/v1", "Event", namespace) if each["regarding"]["name"] == name]
    return sorted(found, key=lambda each: str(each["eventTime"]))
