"""An installation of the whole chart, in one cluster or beside a separate target."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml
from e2e.api import Api
from e2e.chart import RELEASE, Installation
from e2e.control_plane import HOST, ControlPlane
from e2e.hooks import JobRunner
from e2e.manifests import JSON, unique
from e2e.pods import Pods
from e2e.processes import Processes

from charts import helm

COMPONENTS: Final = ("extender", "controllers", "certs", "register")
"""The components that call the target."""
OVERLAP_S: Final = 4.0
"""Longer than the update of a mounted Secret and than the API server needs to load a configuration."""
KARMADA_SYSTEM: Final = "karmada-system"
VALUES: Final[JSON] = {
    "registration": {"clientConfig": "url", "timeoutSeconds": 60},
    "certificates": {"webhookExtraNames": [HOST], "extenderExtraNames": [HOST]},
    "webhook": {"workers": 1, "drainSeconds": 2, "timeoutSeconds": 9, "requestTimeoutSeconds": 8},
    "extender": {"enabled": True, "workers": 1, "replicas": 1, "drainSeconds": 0, "auth": {"insecure": True}},
    "controllers": {
        "enable": ["*", "workload-rebalancer"],
        "featureGates": {"PolicyPreemption": True},
        "leaderElection": {"leaseSeconds": 15, "renewSeconds": 12, "retrySeconds": 1},
    },
    "certs": {"intervalSeconds": 1, "extraArgs": [f"--overlap-s={OVERLAP_S}"]},
}
"""All components enabled, with short times. An uninstall may wait until a lease expires."""


class Installed:
    """A release whose pods and hook Jobs run with the identities from the chart.

    Attributes:
        mode: the chart's.
        host, target: the control planes; the same one in mode single.
        values: what it is installed with.
        release: the release, in a namespace of the host.
        pods: what runs.
        jobs: the hooks.
    """

    def __init__(self, mode: str, host: ControlPlane, target: ControlPlane, processes: Processes, folder: Path) -> None:
        self.mode = mode
        self.host, self.target = host, target
        self.release = Installation(host, host.new_namespace())
        self.values: JSON = {**VALUES, "mode": mode}
        self._users: dict[str, str] = {}
        self._made: list[JSON] = []
        if mode == "karmada":
            self._prepare_target()
        self.pods = Pods(self.release, processes, folder)
        self.jobs = JobRunner(self.release, self.pods, folder)

    def upgrade(self, **changes: Any) -> None:
        self.values = {**self.values, **{name: {**self.values[name], **each} for name, each in changes.items()}}
        whole = ("upgrade", "--install", RELEASE, str(helm.CHART), "--timeout=100s", "--values=-")
        self.release.helm(*whole, values=self.values)

    def rollback(self) -> None:
        self.release.helm("rollback", RELEASE, "--timeout=100s")

    def uninstall(self) -> None:
        self.release.helm("uninstall", RELEASE, "--timeout=100s")
        for each in self._made:
            (self.host if each["kind"] == "Secret" else self.target).api.delete(each)

    def close(self) -> None:
        """Stop all processes and remove the registrations, which would affect other tests."""
        self.jobs.close()
        self.pods.close()
        for each in self.registered():
            if self.target.api.exists(each):
                self.target.api.delete(each)

    def registered(self) -> list[JSON]:
        return [
            {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": RELEASE}}
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        ]

    def bundles(self) -> set[str]:
        stored = (self.target.api.get(each) for each in self.registered())
        return {entry["clientConfig"].get("caBundle", "") for each in stored for entry in each["webhooks"]}

    def identities(self, component: str) -> Iterable[tuple[ControlPlane, str, list[JSON]]]:
        """A component's identity: the cluster, the user name, and the objects with its roles."""
        account = f"system:serviceaccount:{self.release.namespace}:{RELEASE}-{component}"
        yield self.host, account, self.rendered()
        if component in self._users:
            yield self.target, self._users[component], self._target_roles()

    def rendered(self) -> list[JSON]:
        return helm.render(self.values, namespace=self.release.namespace)

    def _prepare_target(self) -> None:
        """The manual steps of docs/install.md: users, kubeconfigs in Secrets, roles."""
        self._users = {component: unique(f"berthmaster-{component}") for component in COMPONENTS}
        secrets = {component: {"name": f"{RELEASE}-{component}-kubeconfig"} for component in COMPONENTS}
        self.values["target"] = {
            "rbac": {"manifest": True}, "users": self._users, "componentKubeconfigSecrets": secrets,
        }  # fmt: skip
        for component, user in self._users.items():
            access = kubeconfig_secret(
                secrets[component]["name"], self.release.namespace, self.target.user(user, [], observed=True)
            )
            self._made.append(access)
            self.host.api.create(access)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KARMADA_SYSTEM}}
        if not self.target.api.exists(namespace):
            self.target.api.create(namespace)
        for each in self._target_roles():
            self.target.api.apply(each)
            self._made.append(each)

    def _target_roles(self) -> list[JSON]:
        carried = helm.named(self.rendered(), "ConfigMap", f"{RELEASE}-target-rbac")
        return [each for each in yaml.safe_load_all(carried["data"]["berthmaster-target-rbac.yaml"]) if each]


def kubeconfig_secret(name: str, namespace: str, kubeconfig: Path) -> JSON:
    """Return a Secret with a kubeconfig, and with the files that it names."""
    content = json.loads(kubeconfig.read_text())
    for part in (content["clusters"][0]["cluster"], content["users"][0]["user"]):
        for key in ("certificate-authority", "client-certificate", "client-key"):
            if key in part:
                part[f"{key}-data"] = base64.b64encode(Path(part.pop(key)).read_bytes()).decode()
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "stringData": {"kubeconfig": json.dumps(content)},
    }


def labelled(api: Api, kinds: Iterable[tuple[str, str]]) -> list[str]:
    return [
        f"{kind}/{each['metadata']['name']}"
        for api_version, kind in kinds
        for each in api.list(api_version, kind)
        if each["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == RELEASE
        or each["metadata"]["name"].startswith(RELEASE)
    ]
