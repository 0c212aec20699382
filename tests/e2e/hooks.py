"""Hook Jobs without controller and kubelet: each runs as a process of the same command with its account's rights."""

import os
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from e2e.api import RefusedError
from e2e.chart import Installation
from e2e.mounts import Mounts
from e2e.pods import Pods
from e2e.serving import COMMAND

POLL_S: Final = 0.2
RUN_LIMIT_S: Final = 120


class JobRunner:
    """Run every Job of a namespace once when it appears, and report its result to the API server.

    Attributes:
        ran: what was run: the Job's name, its exit code, and what it printed.
    """

    def __init__(self, installation: Installation, pods: Pods, folder: Path) -> None:
        """A runner.

        Args:
            installation: whose Jobs.
            pods: what the Jobs call.
            folder: for files.
        """
        self.ran: list[tuple[str, int, str]] = []
        self._api = installation.api
        self._installation = installation
        self._pods = pods
        self._folder = folder
        self._seen: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="jobs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join(RUN_LIMIT_S)

    def _loop(self) -> None:
        while not self._end.wait(POLL_S):
            for job in self._api.list("batch/v1", "Job", self._installation.namespace):
                if job["metadata"]["uid"] not in self._seen:
                    self._seen.add(job["metadata"]["uid"])
                    self._run({"apiVersion": "batch/v1", "kind": "Job", **job})

    def _run(self, job: dict[str, Any]) -> None:
        name = job["metadata"]["name"]
        spec = job["spec"]["template"]["spec"]
        [container] = spec["containers"]
        folder = self._folder / f"job-{len(self.ran)}"
        mounts = Mounts(self._api, self._installation.namespace, spec, folder, self._reachable)
        assert mounts.sync(), f"{name}: something that it mounts is not there"
        arguments = [mounts.local(each) for each in container["args"]]
        environment = {each["name"]: each["value"] for each in container.get("env", [])}
        access = self._installation.kubeconfig(spec["serviceAccountName"], self._folder)
        done = subprocess.run(
            [COMMAND, *arguments, f"--kubeconfig={access}"], env={**os.environ, **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
        )  # fmt: skip
        self.ran.append((name, done.returncode, done.stdout + done.stderr))
        self._tell(job, succeeded=done.returncode == 0)

    def _reachable(self, content: bytes) -> bytes:
        """A mounted file with addresses that a process on loopback reaches."""
        return self._pods.reachable(content.decode()).encode()

    def _tell(self, job: dict[str, Any], *, succeeded: bool) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        words = ("SuccessCriteriaMet", "Complete") if succeeded else ("FailureTarget", "Failed")
        conditions = [{"type": word, "status": "True", "reason": "Run", "message": "", "lastTransitionTime": now,
                       "lastProbeTime": now} for word in words]  # fmt: skip
        status = {"startTime": now, "conditions": conditions}
        status |= {"succeeded": 1, "completionTime": now} if succeeded else {"failed": 1}
        try:
            self._api.patch(job, {"status": status}, subresource="status")
        except RefusedError as refusal:
            if refusal.status != 404:  # helm has given it up
                raise
