"""Hook Jobs without controller and kubelet: each is run as a process of the same command, with its account's rights."""

import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from e2e.api import Api, RefusedError
from e2e.chart import Installation
from e2e.service import COMMAND

POLL_S: Final = 0.2
RUN_LIMIT_S: Final = 120
MOUNTED: Final = "--filename=/etc/berthmaster/registration/registration.yaml"


class JobRunner:
    """Runs every Job of a namespace once, as it appears, and tells the API server how it ended.

    Attributes:
        ran: what was run: the Job's name, its exit code, and what it printed.
    """

    def __init__(self, api: Api, installation: Installation, folder: Path, url: str) -> None:
        """A runner.

        Args:
            api: an administrator's client.
            installation: whose Jobs.
            folder: for files.
            url: where the webhook really is, in place of its Service's name.
        """
        self.ran: list[tuple[str, int, str]] = []
        self.before: dict[str, Callable[[], None]] = {}
        self._api = api
        self._installation = installation
        self._folder = folder
        self._url = url
        self._seen: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="jobs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Run no more."""
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
        self.before.get(name, lambda: None)()
        spec = job["spec"]["template"]["spec"]
        [container] = spec["containers"]
        arguments = [self._file(spec) if each == MOUNTED else each for each in container["args"]]
        access = self._installation.kubeconfig(spec["serviceAccountName"], self._folder)
        done = subprocess.run(
            [COMMAND, *arguments, f"--kubeconfig={access}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
        )  # fmt: skip
        self.ran.append((name, done.returncode, done.stdout + done.stderr))
        self._tell(job, succeeded=done.returncode == 0)

    def _file(self, spec: dict[str, Any]) -> str:
        """What is mounted, with a reachable address in it."""
        [name] = [volume["configMap"]["name"] for volume in spec["volumes"] if volume["name"] == "registration"]
        namespace = self._installation.namespace
        held = self._api.get(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
        )
        service = f"https://berthmaster-webhook.{namespace}.svc:443"
        path = self._folder / f"{name}.yaml"
        path.write_text(held["data"]["registration.yaml"].replace(service, self._url))
        return f"--filename={path}"

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
