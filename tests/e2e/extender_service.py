"""``berthmaster extender`` beside the control plane: one process that watches it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.control_plane import HOST, ControlPlane, fetch
from e2e.processes import Process, Processes
from fresh_metrics import fresh

COMMAND: Final = Path(sys.executable).with_name("berthmaster")
START_LIMIT_S: Final = 30.0


@dataclass(frozen=True)
class Extender:
    """A running extender.

    Attributes:
        process: the child.
        url: where it serves.
        probe_url: where it serves probes and metrics.
    """

    process: Process
    url: str
    probe_url: str

    def metrics(self) -> str:
        return fresh(self.probe_url, lambda: fetch(f"{self.probe_url}/metrics") or "")


def start_extender(
    processes: Processes,
    control_plane: ControlPlane,
    *watched: str,
    kubeconfig: Path | None = None,
    command: Sequence[str | Path] = (COMMAND, "extender"),
) -> Extender:
    """Start an extender that watches the control plane, and wait until it is ready.

    Args:
        processes: where it is put.
        control_plane: what it watches.
        watched: which kinds.
        kubeconfig: whose rights it has; the administrator's by default.
        command: what is started.

    Raises:
        NotInTimeError: it did not become ready; the message shows its log.
    """
    port, probe_port = processes.ports.free(), processes.ports.free()
    arguments: list[str | Path] = [
        *command,
        f"--bind={HOST}:{port}",
        f"--probe-bind={HOST}:{probe_port}",
        f"--kubeconfig={kubeconfig or control_plane.kubeconfig}",
        *(f"--watch={kind}" for kind in watched),
    ]
    extender = Extender(processes.start("extender", arguments), f"http://{HOST}:{port}", f"http://{HOST}:{probe_port}")
    extender.process.wait_for("to be ready", lambda: fetch(f"{extender.probe_url}/readyz"), START_LIMIT_S)
    return extender


def configuration(scheduler: str, extender: Extender, *, cached: bool, **more: Any) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with this extender, for pods that name this scheduler.

    Args:
        scheduler: the name of its only profile.
        extender: whom to ask.
        cached: ``nodeCacheCapable``.
        more: further fields of the configuration.
    """
    asked = {
        "urlPrefix": f"{extender.url}/kube-scheduler",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 50,
        "nodeCacheCapable": cached,
    }
    return {"profiles": [{"schedulerName": scheduler}], "extenders": [asked], **more}
