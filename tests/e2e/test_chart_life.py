"""The life of an installation, by a real helm with its hooks, everything with the rights of its own ServiceAccount."""

import base64
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from e2e.api import Api, RefusedError
from e2e.chart import RELEASE, Installation, left_of
from e2e.control_plane import HOST, ControlPlane
from e2e.hooks import JobRunner
from e2e.manifests import manifest, propagation_policy
from e2e.pods import Pods
from e2e.processes import Processes, wait_for

from charts import helm

pytestmark = pytest.mark.e2e

LIMIT_S = 60.0
CONFIGURATIONS = tuple(
    {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": RELEASE}}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)


@pytest.fixture
def installation(control_plane: ControlPlane, namespace: str) -> Installation:
    return Installation(control_plane, namespace)


@pytest.fixture
def pods(processes: Processes, installation: Installation, tmp_path: Path) -> Iterator[Pods]:
    with closing(Pods(installation, processes, tmp_path)) as made:
        yield made


@pytest.fixture
def jobs(control_plane: ControlPlane, installation: Installation, pods: Pods, tmp_path: Path) -> Iterator[JobRunner]:
    runner = JobRunner(installation, pods, tmp_path)
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
        "webhook": {"workers": 1, "drainSeconds": 2},
        "certs": {"intervalSeconds": 1},
    }
    upgraded(installation, values)
    assert [(name, code) for name, code, _ in jobs.ran] == [("berthmaster-register", 0)], jobs.ran
    wait_for("the webhook to be asked", lambda: denied(api), LIMIT_S)
    [bundle] = bundles(api)
    assert base64.b64decode(bundle).startswith(b"-----BEGIN CERTIFICATE")

    upgraded(installation, {**values, "webhook": {**values["webhook"], "timeoutSeconds": 7}})
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
    assert pods.faults == []
    api.create(propagation_policy(namespace))
