"""An API server in memory, an extender that watches it, and a console before the extender: processes on loopback."""

import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import console_fleet
import console_ledger
from e2e.control_plane import HOST, fetch
from e2e.processes import Process, Processes
from e2e.serving import COMMAND, START_LIMIT_S, serve
from karmada_plane import serve_karmada
from kube_in_memory import KubeInMemory, ReadyResponse
from kube_over_http import KubeOverHTTP

from berthmaster.kube.requests import APIRequest

CLUSTERS: Final = 48
WORKLOADS: Final = 400


class _Reviewer(KubeInMemory):
    """An API server that answers SubjectAccessReviews.

    Attributes:
        may_list: the namespaces in which users may list bindings, by the name of a user or of a group. A dash stands
            for cluster-scoped bindings.
    """

    def __init__(self) -> None:
        super().__init__()
        self.may_list: dict[str, set[str]] = {}

    def send(self, request: APIRequest) -> ReadyResponse:
        if request.path != "/apis/authorization.k8s.io/v1/subjectaccessreviews":
            return super().send(request)
        spec = json.loads(request.body)["spec"]
        asked, names = spec["resourceAttributes"], [spec["user"], *spec["groups"]]
        namespace = "-" if asked["resource"] == "clusterresourcebindings" else asked["namespace"]
        allowed = any(namespace in self.may_list.get(each, set()) for each in names)
        return ReadyResponse([json.dumps({"status": {"allowed": allowed}}).encode()])


class Console:
    """A console with all that it shows.

    Attributes:
        url: the address of the console, without a path.
        kubeconfig: of the API server that the extender watches.
        api: the objects that the extender watches. A change appears on the pages.
        ledger: the URL of the ledger that the extender reads.
    """

    def __init__(self, processes: Processes, folder: Path, *, hostile: bool = True) -> None:
        self._processes = processes
        self._server = KubeOverHTTP()
        self.api = self._server.api = _Reviewer()
        serve_karmada(self.api)
        self.api.served.add("coordination.k8s.io/v1", "Lease", "leases")
        now = datetime.now(UTC)
        for each in console_fleet.fleet(CLUSTERS, WORKLOADS, now=now):
            self.put(each)
        for number, each in enumerate(console_fleet.hostile(now) if hostile else []):
            self.put(each, stored_as=f"hostile-{number}")
        self.ledger, manifests = console_ledger.recorded(folder, now)
        for each in manifests:
            self.put(each)
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(kubeconfig_of(self._server.url)))
        self._extender_port = processes.ports.free()
        self._extender: Process | None = None
        self.start_extender()
        self.url = self.start_console()

    @property
    def extender_url(self) -> str:
        return f"http://{HOST}:{self._extender_port}"

    def put(self, manifest: dict[str, Any], *, stored_as: str = "") -> str:
        """Store an object and return its path. ``stored_as`` replaces a name in the path that is invalid there."""
        metadata = manifest["metadata"]
        path = self.api.served.path({**manifest, "metadata": {**metadata, "name": stored_as or metadata["name"]}})
        self.api.put(path, manifest)
        return path

    def start_extender(self) -> None:
        """Start the extender, always with the same address, and wait until it is ready."""
        serving = serve(
            self._processes, "console-extender", (COMMAND, "extender"), f"--kubeconfig={self.kubeconfig}",
            "--watch=workloads", "--workers=1", "--drain-s=0", f"--ledger={self.ledger}", port=self._extender_port,
        )  # fmt: skip
        self._extender, self._metrics = serving.process, serving.metrics
        # The page Drift does not wait for its first figures.
        self._extender.wait_for("to know the drift", lambda: fetch(f"{self.extender_url}/v1/drift"), START_LIMIT_S)

    def renew(self, moment: datetime) -> None:
        """Let the leader of the controllers renew its lease at a time."""
        path, lease = next((path, each) for path, each in self.api.objects.items() if "/leases/" in path)
        self.api.put(path, {**lease, "spec": {**lease.get("spec", {}), "renewTime": moment.isoformat()}})

    def asked(self) -> Counter[str]:
        """Return how many requests the extender answered, by route, without those for the version of its state."""
        time.sleep(1.1)  # the text of the metrics is rendered at most once a second
        text = self._metrics()
        found: Counter[str] = Counter()
        for route, count in re.findall(r'extender_requests_total\{[^}]*route="(/v1/[^"]+)"[^}]*\} ([\d.e+]+)', text):
            found[route] += int(float(count))
        del found["/v1/version"]
        return found

    def stop_extender(self) -> None:
        """Stop the extender, as if it were lost. Does nothing if it does not run."""
        if self._extender is not None:
            self._extender.kill()
            self._extender = None

    @contextmanager
    def hung_extender(self) -> Iterator[None]:
        """Stop all processes of the extender without ending them: they accept connections and answer nothing."""
        assert self._extender is not None
        os.killpg(self._extender.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._extender.pid, signal.SIGCONT)

    def free_port(self) -> int:
        """Return a port for a console whose address must be known before it starts."""
        return self._processes.ports.free()

    def start_console(self, *options: str, port: int = 0, first: str = "") -> str:
        """Start a console before the extender and wait until it is ready. Return its address.

        Args:
            options: options of the command.
            port: where it listens; 0 for a free port.
            first: a statement of Python that the process runs before the command; may be empty.
        """
        run = f"{first}; from berthmaster_cli.main import main; main()"
        command = [sys.executable, "-c", run] if first else [COMMAND]
        return serve(
            self._processes, "console", [*command, "console"], f"--extender-url={self.extender_url}", "--workers=1",
            "--drain-s=0", *options, port=port or None,
        ).url  # fmt: skip

    def close(self) -> None:
        """Stop the API server. The processes end with the run."""
        self._server.close()


def kubeconfig_of(url: str) -> dict[str, Any]:
    """Return a kubeconfig for an API server without authentication."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "console",
        "contexts": [{"name": "console", "context": {"cluster": "console", "user": "console"}}],
        "clusters": [{"name": "console", "cluster": {"server": url}}],
        "users": [{"name": "console", "user": {}}],
    }
