"""Berthmaster's webhook for one namespace of a running Karmada."""

import base64
import os
import time
from collections.abc import Iterable
from typing import Final

from e2e.certificates import Authority
from e2e.control_plane import fetch
from e2e.controllers_process import COMMAND, START_LIMIT_S
from e2e.processes import Processes
from kube_store import JSON

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import Collection, create, delete

HOST: Final = os.environ.get("ACCEPTANCE_HOST", "")
"""The address of this machine for the API server; empty if it cannot reach this machine."""
SETTLE_S: Final = 3.0
"""How long the API server may take until it calls a new webhook."""
_LOOPBACK: Final = "127.0.0.1"
_REGISTRATION: Final = "admissionregistration.k8s.io/v1"
_KINDS: Final = {
    "mutate": ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    "validate": ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
}


class NamespaceWebhook:
    """A process of the webhook in companion mode, and its registration for the policies of one namespace."""

    def __init__(self, client: APIClient, processes: Processes, namespace: str, gates: Iterable[str] = ()) -> None:
        self._client = client
        self._name = f"{namespace}.berthmaster.io"
        authority = Authority("acceptance")
        files = processes.folder / "webhook.crt", processes.folder / "webhook.key"
        authority.issue("webhook", hosts=(HOST,)).write(*files)
        port, plain_port = processes.ports.free(), processes.ports.free()
        command = [
            COMMAND[0], "webhook", f"--bind={HOST}:{port}", f"--probe-bind={_LOOPBACK}:{plain_port}",
            f"--cert-file={files[0]}", f"--key-file={files[1]}", "--drain-s=0",
            f"--feature-gates={','.join(gates)}",
        ]  # fmt: skip
        self._process = processes.start("webhook", command)
        ready = f"http://{_LOOPBACK}:{plain_port}/readyz"
        self._process.wait_for("to be ready", lambda: fetch(ready) is not None, START_LIMIT_S)
        for verb, (kind, plural) in _KINDS.items():
            url = f"https://{HOST}:{port}/{verb}-propagationpolicy"
            content = _configuration(kind, f"{verb}.{self._name}", url, authority.certificate, namespace)
            ask(client, create(Collection.of(_REGISTRATION, plural), "", content))
        time.sleep(SETTLE_S)

    def close(self) -> None:
        for verb, (_, plural) in _KINDS.items():
            ask(self._client, delete(Collection.of(_REGISTRATION, plural), ("", f"{verb}.{self._name}")))
        self._process.stop()


def _configuration(kind: str, name: str, url: str, authority: bytes, namespace: str) -> JSON:
    rule = {"apiGroups": ["policy.karmada.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"]}
    return {
        "apiVersion": _REGISTRATION,
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": name,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
                "failurePolicy": "Fail",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{**rule, "resources": ["propagationpolicies"], "scope": "Namespaced"}],
                "sideEffects": "None",
                "timeoutSeconds": 10,
            }
        ],
    }
