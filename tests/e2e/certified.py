"""A webhook whose certificates `berthmaster certs` maintains: the commands, and a kubelet that mounts the Secrets."""

import base64
import json
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509
from e2e.api import Api, RefusedError
from e2e.control_plane import HOST, ControlPlane, fetch
from e2e.manifests import unique
from e2e.processes import Process
from e2e.registration import Hook
from e2e.service import COMMAND, Service
from fresh_metrics import fresh

COMMAND_LIMIT_S: Final = 60.0
SYNC_S: Final = 0.5  # the delay of a mounted Secret
OVERLAP_S: Final = 4.0  # longer than the delay of a mounted Secret and of a changed configuration
KINDS: Final = {"mutate": "MutatingWebhookConfiguration", "validate": "ValidatingWebhookConfiguration"}


class Kubelet:
    """Write a Secret into files late, key and certificate at different moments: the worst case."""

    def __init__(self, api: Api, namespace: str, name: str, service: Service) -> None:
        self._api = api
        self._secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
        self._service = service
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    def start(self) -> None:
        self.sync()
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join(10)

    def sync(self) -> None:
        data = self._api.get(self._secret)["data"]
        for file, field in ((self._service.key_file, "tls.key"), (self._service.certificate_file, "tls.crt")):
            content = base64.b64decode(data[field])
            if file.read_bytes() != content:
                part = file.with_suffix(".part")
                part.write_bytes(content)
                part.replace(file)

    def _run(self) -> None:
        while not self._end.wait(SYNC_S):
            try:
                self.sync()
            except RefusedError:
                continue  # a mounted Secret survives its deletion


class Installation:
    """One installation: the names of its objects, and the commands that use them.

    Attributes:
        namespace: where its Secrets are.
        name: of its configurations; ends the names of its webhooks.
        authority, serving: its Secrets.
    """

    def __init__(self, plane: ControlPlane, service: Service, hooks: Sequence[Hook], folder: Path) -> None:
        self._plane = plane
        self._service = service
        self._hooks = tuple(hooks)
        self.namespace = plane.new_namespace()
        self.name = unique("certified") + ".berthmaster.io"
        self.authority, self.serving = "berthmaster-ca", "berthmaster-webhook-tls"
        self.file = folder / "webhooks.yaml"
        self.file.write_text(yaml.safe_dump_all(self.manifests()))

    def manifests(self) -> list[dict[str, Any]]:
        """The webhook configurations without a CA bundle."""
        return [
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": self.name},
                "webhooks": [self._entry(hook) for hook in self._hooks if hook.verb == verb],
            }
            for verb, kind in KINDS.items()
        ]

    def secret(self, name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.namespace}}

    def flags(self) -> list[str]:
        """Return the options of every command."""
        return [
            f"--kubeconfig={self._plane.kubeconfig}",
            f"--namespace={self.namespace}",
            f"--authority-secret={self.authority}",
            f"--serving={self.serving}={HOST},webhook.{self.namespace}.svc",
            f"--mutating={self.name}",
            f"--validating={self.name}",
            f"--overlap-s={OVERLAP_S}",
        ]

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command and return its output."""
        command = [COMMAND, *words, *self.flags()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "PRIVATE KEY" not in done.stdout + done.stderr
        return done.stdout

    def items(self, code: int = 0) -> list[dict[str, Any]]:
        """The output of `inspect`."""
        return list(json.loads(self.run("certs", "inspect", "-o", "json", code=code))["items"])

    def keep(self) -> "Running":
        """Start a replica of `certs run`."""
        port = self._plane.processes.ports.free()
        command = [COMMAND, "certs", "run", *self.flags(), f"--probe-bind={HOST}:{port}", "--interval-s=0.3"]
        running = Running(self._plane.processes.start("certs", command), port)
        running.process.wait_for("to be ready", lambda: fetch(f"http://{HOST}:{port}/readyz"), 30)
        return running

    def bundles(self) -> set[str]:
        """Every caBundle of the configurations."""
        found = (self._plane.api.get(manifest) for manifest in self.manifests())
        return {hook["clientConfig"].get("caBundle", "") for one in found for hook in one["webhooks"]}

    def trusted(self) -> list[set[x509.Certificate]]:
        """The authorities that the configurations trust: one set if all agree."""
        decoded = (base64.b64decode(bundle) for bundle in self.bundles())
        return [set(x509.load_pem_x509_certificates(pem)) for pem in decoded]

    def leaf(self) -> x509.Certificate:
        """Return the stored leaf."""
        data = self._plane.api.get(self.secret(self.serving))["data"]
        return x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"]))

    def _entry(self, hook: Hook) -> dict[str, Any]:
        entry = hook.entry(f"{hook.path.strip('/')}.{self.name}", self._service.url, b"")
        del entry["clientConfig"]["caBundle"]
        return entry


class Running:
    """A replica of `certs run`."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self._port = port

    def metrics(self) -> str:
        text = fresh(self._port, lambda: fetch(f"http://{HOST}:{self._port}/metrics") or "")
        assert text, "no metrics"
        return text
