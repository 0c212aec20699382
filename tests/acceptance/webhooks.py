"""Berthmaster's webhook for one namespace of a running Karmada."""

import os
import time
from collections.abc import Iterable
from typing import Final

from e2e.certificates import Authority
from e2e.processes import Processes
from e2e.registration import API_VERSION, KINDS, Hook, configuration
from e2e.serving import COMMAND, serve

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import Collection, create, delete

HOST: Final = os.environ.get("ACCEPTANCE_HOST", "")
"""The address of this machine for the API server; empty if it cannot reach this machine."""
SETTLE_S: Final = 3.0
"""How long the API server may take until it calls a new webhook."""


class NamespaceWebhook:
    """A process of the webhook in companion mode, and its registration for the policies of one namespace."""

    def __init__(self, client: APIClient, processes: Processes, namespace: str, gates: Iterable[str] = ()) -> None:
        self._client = client
        self._name = f"{namespace}.berthmaster.io"
        authority = Authority("acceptance")
        files = processes.folder / "webhook.crt", processes.folder / "webhook.key"
        authority.issue("webhook", hosts=(HOST,)).write(*files)
        webhook = serve(
            processes, "webhook", (COMMAND, "webhook"), f"--cert-file={files[0]}", f"--key-file={files[1]}",
            "--drain-s=0", f"--feature-gates={','.join(gates)}", host=HOST,
        )  # fmt: skip
        self._process = webhook.process
        for verb, kind in KINDS.items():
            hook = Hook(f"/{verb}-propagationpolicy", "policy.karmada.io", "propagationpolicies", ("CREATE", "UPDATE"))
            name = f"{verb}.{self._name}"
            entry = hook.entry(name, f"https://{HOST}:{webhook.port}", authority.certificate)
            entry["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
            ask(client, create(_collection(kind), "", configuration(kind, name, [entry])))
        time.sleep(SETTLE_S)

    def close(self) -> None:
        for verb, kind in KINDS.items():
            ask(self._client, delete(_collection(kind), ("", f"{verb}.{self._name}")))
        self._process.stop()


def _collection(kind: str) -> Collection:
    return Collection.of(API_VERSION, f"{kind.lower()}s")
