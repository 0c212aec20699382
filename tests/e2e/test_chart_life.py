"""The life of an installation, by a real helm with its hooks, everything with the rights of its own ServiceAccount."""

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.api import Api, RefusedError
from e2e.chart import RELEASE, Installation, left_of, replaced
from e2e.control_plane import HOST, ControlPlane, fetch
from e2e.hooks import JobRunner
from e2e.manifests import manifest, propagation_policy
from e2e.processes import Process, wait_for
from e2e.service import COMMAND

from charts import helm

pytestmark = pytest.mark.e2e

LIMIT_S = 60.0
CONFIGURATIONS = tuple(
    {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": RELEASE}}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)


class Pods:
    """What would run in the pods: the keeper of certificates and one webhook."""

    def __init__(self, plane: ControlPlane, installation: Installation, folder: Path) -> None:
        self._plane = plane
        self._installation = installation
        self._folder = folder
        self.port = plane.processes.ports.free()
        self._running: list[Process] = []
        self._thread = threading.Thread(target=self._start, name="pods", daemon=True)

    def start(self) -> None:
        """Start them as soon as helm has made what they need."""
        self._thread.start()

    def stop(self) -> None:
        """End them, as the end of their Deployments would."""
        for process in self._running:
            process.stop()

    def _container(self, component: str) -> dict[str, Any]:
        deployment = manifest("apps/v1", "Deployment", self._installation.namespace, {})
        deployment["metadata"]["name"] = f"{RELEASE}-{component}"
        wait_for(f"helm to make {component}", lambda: self._plane.api.exists(deployment), LIMIT_S)
        [container] = self._plane.api.get(deployment)["spec"]["template"]["spec"]["containers"]
        return dict(container)

    def _start(self) -> None:
        probes = self._plane.processes.ports.free()
        access = self._installation.kubeconfig(f"{RELEASE}-certs", self._folder) if self._container("certs") else None
        arguments = replaced(self._container("certs")["args"], {"probe-bind": f"{HOST}:{probes}", "interval-s": "0.5"})
        self._running.append(self._plane.processes.start("certs", [COMMAND, *arguments, f"--kubeconfig={access}"]))
        self._mount()
        probes = self._plane.processes.ports.free()
        changes = {
            "bind": f"{HOST}:{self.port}", "probe-bind": f"{HOST}:{probes}", "drain-s": "0",
            "cert-file": str(self._folder / "tls.crt"), "key-file": str(self._folder / "tls.key"),
        }  # fmt: skip
        webhook = self._plane.processes.start(
            "webhook", [COMMAND, *replaced(self._container("webhook")["args"], changes)]
        )
        self._running.append(webhook)
        webhook.wait_for("to be ready", lambda: fetch(f"http://{HOST}:{probes}/readyz"), LIMIT_S)

    def _mount(self) -> None:
        secret = manifest("v1", "Secret", self._installation.namespace, {})
        secret["metadata"]["name"] = f"{RELEASE}-webhook-tls"
        wait_for("the webhook's certificate", lambda: self._plane.api.exists(secret), LIMIT_S)
        for key, content in self._plane.api.get(secret)["data"].items():
            (self._folder / key).write_bytes(base64.b64decode(content))


@pytest.fixture
def installation(control_plane: ControlPlane, namespace: str) -> Installation:
    return Installation(control_plane, namespace)


@pytest.fixture
def pods(control_plane: ControlPlane, installation: Installation, tmp_path: Path) -> Iterator[Pods]:
    made = Pods(control_plane, installation, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def jobs(control_plane: ControlPlane, installation: Installation, pods: Pods, tmp_path: Path) -> Iterator[JobRunner]:
    runner = JobRunner(
        control_plane.api, installation, tmp_path, {"berthmaster-webhook": f"https://{HOST}:{pods.port}"}
    )
    runner.before["berthmaster-cleanup"] = pods.stop
    yield runner
    runner.close()
    for each in CONFIGURATIONS:  # whatever went wrong, other tests are not to be asked about
        if control_plane.api.exists(each):
            control_plane.api.delete(each)


def upgraded(installation: Installation, values: dict[str, Any]) -> str:
    whole = ("upgrade", "--install", RELEASE, str(helm.CHART), "--timeout=100s", "--values=-")
    return installation.helm(*whole, values=values)


def denied(api: Api) -> bool:
    """Whether the webhook is asked: it denies what no schema forbids."""
    selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
    spec = {"resourceSelectors": [selector], "preemption": "Always", "priority": 1}
    try:
        api.create(manifest("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", None, spec), dry_run=True)
    except RefusedError as refusal:
        return "preemption-without-namespace" in refusal.message
    return False


def bundles(api: Api) -> set[str]:
    return {entry["clientConfig"].get("caBundle", "") for each in CONFIGURATIONS for entry in api.get(each)["webhooks"]}


def test_install_upgrade_switch_off_and_on_uninstall(
    api: Api, installation: Installation, pods: Pods, jobs: JobRunner, namespace: str
):
    values: dict[str, Any] = {
        "mode": "single",
        "registration": {"clientConfig": "url", "timeoutSeconds": 40},
        "certificates": {"webhookExtraNames": [HOST]},
        "controllers": {"enabled": False},
    }
    pods.start()
    upgraded(installation, values)
    assert [(name, code) for name, code, _ in jobs.ran] == [("berthmaster-register", 0)], jobs.ran
    wait_for("the webhook to be asked", lambda: denied(api), LIMIT_S)
    [bundle] = bundles(api)
    assert base64.b64decode(bundle).startswith(b"-----BEGIN CERTIFICATE")

    upgraded(installation, {**values, "webhook": {"timeoutSeconds": 7}})
    assert {entry["timeoutSeconds"] for each in CONFIGURATIONS for entry in api.get(each)["webhooks"]} == {7}
    assert bundles(api) == {bundle}, "an upgrade keeps the bundle"

    upgraded(installation, {**values, "webhook": {"enabled": False}})
    assert jobs.ran[-1][:2] == ("berthmaster-unwanted", 0), jobs.ran
    assert not any(map(api.exists, CONFIGURATIONS))

    installation.helm("rollback", RELEASE, "--timeout=100s")
    assert bundles(api) == {bundle}, "a rollback registers again"

    rendered = helm.render(values, namespace=namespace)
    kinds = {(each["apiVersion"], each["kind"], "namespace" in each["metadata"]) for each in rendered}
    installation.helm("uninstall", RELEASE, "--timeout=100s")
    assert {name for name, code, _ in jobs.ran if code == 0} >= {"berthmaster-unregister", "berthmaster-cleanup"}, (
        jobs.ran
    )
    assert not any(map(api.exists, CONFIGURATIONS))
    assert left_of(api, namespace, kinds) == []
    assert [each["metadata"]["name"] for each in api.list("v1", "Secret", namespace)] == []
    api.create(propagation_policy(namespace))
