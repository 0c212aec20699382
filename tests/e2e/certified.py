"""A webhook whose certificates `berthmaster certs` maintains: its objects, and the commands."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from e2e.control_plane import HOST, ControlPlane
from e2e.manifests import unique
from e2e.registration import Hook
from e2e.service import COMMAND, Service

COMMAND_LIMIT_S: Final = 60.0
OVERLAP_S: Final = 4.0
KINDS: Final = {"mutate": "MutatingWebhookConfiguration", "validate": "ValidatingWebhookConfiguration"}


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
        command = [COMMAND, *words, *self.flags()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "PRIVATE KEY" not in done.stdout + done.stderr
        return done.stdout

    def _entry(self, hook: Hook) -> dict[str, Any]:
        entry = hook.entry(f"{hook.path.strip('/')}.{self.name}", self._service.url, b"")
        del entry["clientConfig"]["caBundle"]
        return entry
