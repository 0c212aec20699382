"""``berthmaster controllers`` beside the control plane: several processes, one leader."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.api import Api
from e2e.control_plane import HOST, ControlPlane, fetch
from e2e.processes import Process, Processes, wait_for
from fresh_metrics import fresh

COMMAND: Final[tuple[str | Path, ...]] = (Path(sys.executable).with_name("berthmaster"), "controllers")
START_LIMIT_S: Final = 30.0
BRIEF_LEASE_S: Final = 4
BRIEF: Final = (f"--leader-elect-lease-s={BRIEF_LEASE_S}", f"--leader-elect-renew-s={BRIEF_LEASE_S * 0.7}")
"""Options of processes whose lease must expire soon. All others keep a long lease, because the machine may be slow."""
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_PART: Final = re.compile("_(count|sum|bucket)$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Controllers:
    """A running process.

    Attributes:
        process: the child.
        probe_url: where it serves probes and metrics.
    """

    process: Process
    probe_url: str

    def ready(self) -> str | None:
        return fetch(f"{self.probe_url}/readyz")

    def alive(self) -> str | None:
        return fetch(f"{self.probe_url}/livez")

    @property
    def leading(self) -> bool:
        return "leading" in (self.ready() or "")

    def measure(self, name: str, **labels: str) -> float:
        """The sum of a metric over the samples with these labels; 0 without samples or without an answer."""
        text = fresh(self.probe_url, lambda: fetch(f"{self.probe_url}/metrics") or "")
        family = _PART.sub("", name)
        assert not text or f"# TYPE {family} " in text, f"there is no metric {family}"
        found = (
            (dict(_LABEL.findall(given or "")), value) for each, given, value in _SAMPLE.findall(text) if each == name
        )
        return sum(float(value) for given, value in found if labels.items() <= given.items())


def start_controllers(
    processes: Processes,
    control_plane: ControlPlane,
    namespace: str,
    *flags: str,
    kubeconfig: Path | None = None,
    command: Sequence[str | Path] = COMMAND,
    wait: bool = True,
) -> Controllers:
    """Start a process with leader election, and wait until it is ready as leader or standby.

    Args:
        processes: where it is put.
        control_plane: what it works on.
        namespace: where its lease is; processes with the same one elect a leader among them.
        flags: more options of the command.
        kubeconfig: its access; by default an administrator's.
        command: what is started.
        wait: whether to wait.

    Raises:
        NotInTimeError: it did not become ready; the message shows its log.
    """
    port = processes.ports.free()
    arguments: list[str | Path] = [
        *command,
        f"--kubeconfig={kubeconfig or control_plane.kubeconfig}",
        f"--probe-bind={HOST}:{port}",
        f"--leader-elect-namespace={namespace}",
        "--leader-elect-lease-s=60",
        "--leader-elect-renew-s=50",
        "--leader-elect-retry-s=0.5",
        "--log-level=debug",
        *flags,
    ]
    running = Controllers(processes.start("controllers", arguments), f"http://{HOST}:{port}")
    if wait:
        running.process.wait_for("to be ready", running.ready, START_LIMIT_S)
    return running


def wait_for_leader(candidates: Sequence[Controllers], timeout_s: float) -> Controllers:
    return wait_for("a leader", lambda: next((each for each in candidates if each.leading), None), timeout_s)


def events_about(api: Api, namespace: str, name: str) -> list[dict[str, Any]]:
    """All events about the objects with a name, the oldest first."""
    found = [each for each in api.list("events.k8s.io/v1", "Event", namespace) if each["regarding"]["name"] == name]
    return sorted(found, key=lambda each: str(each["eventTime"]))
