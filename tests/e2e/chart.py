"""The chart on a real API server: a real helm installs it, and tests run its containers as processes.

Hooks do not run (``--no-hooks``): no controller would end their Jobs.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from charts.assets import helm_binary
from charts.helm import CHART, IMAGE
from e2e.api import Api
from e2e.control_plane import ControlPlane
from kubernetes import client

RELEASE: Final = "berthmaster"
LIMIT_S: Final = 120
RESTRICTED: Final = {
    f"pod-security.kubernetes.io/{effect}": "restricted" for effect in ("enforce", "warn")
}  # the strictest of Kubernetes' Pod Security Standards


class HelmError(AssertionError):
    """helm failed; the message is helm's."""


class Installation:
    """A release in its own namespace.

    Attributes:
        namespace: where it is.
        api: an administrator's client of the host.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self.api = plane.api
        self.namespace = namespace

    def helm(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        whole = [
            str(helm_binary()),
            f"--kubeconfig={self._plane.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
        ]
        given = json.dumps({"image": IMAGE, **(values or {})})
        done = subprocess.run(whole, input=given, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            raise HelmError(f"helm {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def upgrade(self, values: Mapping[str, Any]) -> None:
        self.helm("upgrade", "--install", RELEASE, str(CHART), "--no-hooks", "--values=-", values=values)

    def uninstall(self) -> None:
        self.helm("uninstall", RELEASE, "--no-hooks", "--ignore-not-found")

    def token(self, account: str) -> str:
        """A token of one of its ServiceAccounts, as a kubelet would mount it."""
        core = client.CoreV1Api(self._plane.api.client)
        asked = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[self._plane.url]))
        answer = core.create_namespaced_service_account_token(account, self.namespace, asked)
        return str(answer.status.token)

    def kubeconfig(self, account: str, folder: Path) -> Path:
        content = json.loads(self._plane.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": self.token(account)}
        path = folder / f"{account}.kubeconfig"
        path.write_text(json.dumps(content))
        return path


def left_of(api: Api, namespace: str, kinds: Iterable[tuple[str, str, bool]]) -> list[str]:
    """The remaining objects of a release. Kinds are (apiVersion, kind, namespaced)."""
    return [
        f"{kind}/{each['metadata']['name']}"
        for api_version, kind, namespaced in kinds
        for each in api.list(api_version, kind, namespace if namespaced else None)
        if each["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == RELEASE
    ]


def replaced(arguments: Iterable[str], changes: Mapping[str, str]) -> list[str]:
    """Arguments of a container with some values replaced for a process on loopback."""
    rest = dict(changes)
    found = []
    for argument in arguments:
        flag = argument.partition("=")[0].lstrip("-")
        found.append(f"--{flag}={rest.pop(flag)}" if flag in rest else argument)
    assert not rest, f"the container has no {', '.join(rest)}"
    return found
