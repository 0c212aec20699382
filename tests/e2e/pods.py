"""Deployments without controller and kubelet: their containers run as processes with the pods' arguments and files.

Arguments, environment, mounted Secrets and the ServiceAccount are those of the stored Deployment. Changed are only
addresses (loopback, a free port) and paths of mounts; a pod's token comes as a kubeconfig.
"""

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from e2e.api import RefusedError
from e2e.chart import Installation
from e2e.control_plane import HOST, fetch
from e2e.forwarder import Forwarder
from e2e.mounts import Mounts
from e2e.processes import Process, Processes
from e2e.serving import COMMAND

EXEC_LIMIT_S: Final = 60
POLL_S: Final = 0.3
STOP_LIMIT_S: Final = 40.0


class Pod:
    """One replica of a Deployment.

    Attributes:
        name: the Deployment's.
        template: what it was made from.
        process: once everything that it mounts is there.
        leaving: whether it has been asked to stop.
    """

    def __init__(self, name: str, template: Mapping[str, Any], mounts: Mounts) -> None:
        self.name = name
        self.template = template
        self.mounts = mounts
        self.process: Process | None = None
        self.leaving = False
        self.port = 0
        self.probe_url = ""

    @property
    def spec(self) -> dict[str, Any]:
        return dict(self.template["spec"])

    @property
    def container(self) -> dict[str, Any]:
        [container] = self.spec["containers"]
        return dict(container)

    @property
    def ended(self) -> bool:
        return self.process is not None and not self.process.running

    def ready(self) -> bool:
        return bool(self.probe_url) and fetch(f"{self.probe_url}/readyz") is not None

    def leave(self) -> None:
        if not self.leaving and self.process is not None:
            self.process.ask_to_stop()
        self.leaving = True


class Pods:
    """Plays controller and kubelet for the Deployments of a namespace; Services are addresses on loopback.

    Attributes:
        fronts: the address of each component that serves, by the Service's name.
        all: every pod that there ever was.
        faults: what ended unasked, or not as it should.
    """

    def __init__(self, installation: Installation, processes: Processes, folder: Path) -> None:
        self._installation = installation
        self._processes = processes
        self._folder = folder
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="pods", daemon=True)
        services = (f"berthmaster-{component}" for component in ("webhook", "extender", "console"))
        self.fronts = {name: Forwarder(processes.ports.free()) for name in services}
        self.all: list[Pod] = []
        self.faults: list[str] = []
        self._here: list[Pod] = []
        self._reported: dict[str, int] = {}
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join(STOP_LIMIT_S)
        for pod in self._here:
            if pod.process:
                pod.process.stop()
        for front in self.fronts.values():
            front.close()

    @property
    def here(self) -> list[str]:
        return [each.name for each in list(self._here)]

    def of(self, component: str) -> list[Pod]:
        return [each for each in list(self._here) if each.name == f"berthmaster-{component}" and not each.leaving]

    def settled(self) -> bool:
        """Whether all that is wanted now, not when they were last looked after, is ready, and nothing else is there."""
        wanted, here = self._wanted(), list(self._here)
        assert wanted, "there are no Deployments"
        for name, spec in wanted.items():
            current = [each for each in here if each.name == name and each.template == spec["template"]]
            assert len(current) == spec["replicas"], f"{name}: {len(current)} of {spec['replicas']} pods are up to date"
        assert len(here) == sum(spec["replicas"] for spec in wanted.values()), "former pods are still there"
        unready = [each.name for each in here if each.leaving or not each.ready()]
        assert not unready, f"not ready, or leaving: {', '.join(unready)}"
        return True

    def command(self, pod: Pod) -> tuple[list[str | Path], dict[str, str]]:
        arguments = [pod.mounts.local(self.reachable(each)) for each in pod.container["args"]]
        given = (pod.mounts.local(f"{each['name']}={each['value']}") for each in pod.container.get("env", []))
        return [COMMAND, *arguments, *self._access(pod)], dict(each.split("=", 1) for each in given)

    def exec(self, component: str, *words: str) -> str:
        """Return the output of ``kubectl exec deployment/berthmaster-COMPONENT -- berthmaster WORDS``."""
        pod = self.of(component)[0]
        whole = [COMMAND, *words, *self._access(pod)]
        done = subprocess.run(
            whole, env={**os.environ, **self.command(pod)[1]},
            capture_output=True, text=True, timeout=EXEC_LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{whole}: {done.stdout}{done.stderr}"
        return done.stdout

    def reachable(self, text: str) -> str:
        """Return a text with the addresses of Services as a process on loopback reaches them."""
        for name, front in self.fronts.items():
            text = text.replace(
                f"https://{name}.{self._installation.namespace}.svc:443", f"https://{HOST}:{front.port}"
            )
        return text

    def _access(self, pod: Pod) -> list[str]:
        if not pod.spec["automountServiceAccountToken"]:
            return []
        return [f"--kubeconfig={self._installation.kubeconfig(pod.spec['serviceAccountName'], self._folder)}"]

    def _loop(self) -> None:
        while not self._end.wait(POLL_S):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - a thread's outermost edge: the test tells
                self.faults.append(f"pods: {error!r}")
                return

    def _look(self) -> None:
        wanted = self._wanted()
        for name, spec in wanted.items():
            self._roll(name, spec["template"], spec["replicas"])
        for pod in self._here:
            if pod.name not in wanted:
                pod.leave()
            self._tend(pod)
        for name, spec in wanted.items():
            self._report(name, spec["replicas"])
        self._here = [each for each in self._here if not (each.leaving and (each.ended or each.process is None))]

    def _wanted(self) -> dict[str, dict[str, Any]]:
        listed = self._installation.api.list("apps/v1", "Deployment", self._installation.namespace)
        return {each["metadata"]["name"]: each["spec"] for each in listed}

    def _roll(self, name: str, template: Mapping[str, Any], replicas: int) -> None:
        """New ones first; the old ones go as soon as those are ready."""
        current = [each for each in self.of(name.removeprefix("berthmaster-")) if each.template == template]
        for _ in range(replicas - len(current)):
            folder = self._folder / f"{name}-{len(self.all)}"
            mounts = Mounts(self._installation.api, self._installation.namespace, template["spec"], folder)
            pod = Pod(name, json.loads(json.dumps(template)), mounts)
            self._here.append(pod)
            self.all.append(pod)
        if len(current) == replicas and all(each.ready() for each in current):
            for old in [each for each in self._here if each.name == name and each not in current]:
                old.leave()

    def _report(self, name: str, wanted: int) -> None:
        """Write how many pods are ready to the status of a Deployment, if that changed."""
        ready = min(wanted, sum(each.name == name and not each.leaving and each.ready() for each in self._here))
        if self._reported.get(name) != ready:
            metadata = {"name": name, "namespace": self._installation.namespace}
            status = {"status": {"replicas": wanted, "readyReplicas": ready}}
            with suppress(RefusedError):  # deleted meanwhile
                self._installation.api.patch(
                    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}, status, subresource="status"
                )
                self._reported[name] = ready

    def _tend(self, pod: Pod) -> None:
        mounted = pod.mounts.sync()
        if mounted and pod.process is None and not pod.leaving:
            self._start(pod)
        if not pod.ended or pod.process is None:
            return
        if front := self.fronts.get(pod.name):
            front.remove(pod.port)
        if code := pod.process.wait(STOP_LIMIT_S):
            self.faults.append(f"{pod.name} ended with {code}: {pod.process.tail()}")
        elif not pod.leaving:
            self.faults.append(f"{pod.name} ended by itself: {pod.process.tail()}")
        pod.leaving = True

    def _start(self, pod: Pod) -> None:
        ports = self._processes.ports
        pod.port, probes = ports.free(), ports.free()
        arguments, environment = self.command(pod)
        moved = {"--bind": f"{HOST}:{pod.port}", "--probe-bind": f"{HOST}:{probes}"}
        flags = [str(each).partition("=")[0] for each in arguments]
        local = [
            f"{flag}={moved[flag]}" if flag in moved else each for flag, each in zip(flags, arguments, strict=True)
        ]
        pod.process = self._processes.start(pod.name, local, environment)
        pod.probe_url = f"http://{HOST}:{probes}"
        if front := self.fronts.get(pod.name):
            front.add(pod.port, pod.ready)
