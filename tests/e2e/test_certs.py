"""The certificates of an installation. One real API server is host and target."""

import base64
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from e2e.api import Api
from e2e.certified import Installation
from e2e.control_plane import ControlPlane
from e2e.manifests import KUBEADMIRAL, manifest, unique
from e2e.processes import Processes
from e2e.service import KARMADA_HOOKS, Service

from certs.bundle import new_authority

pytestmark = pytest.mark.e2e

HOOKS = tuple(hook for hook in KARMADA_HOOKS if hook.resource == "propagationpolicies")


@pytest.fixture
def service(processes: Processes, tmp_path: Path) -> Iterator[Service]:
    """The webhook's address. No replica runs yet."""
    with closing(Service(processes, tmp_path, "companion")) as one:
        yield one


@pytest.fixture
def installation(control_plane: ControlPlane, service: Service, tmp_path: Path) -> Iterator[Installation]:
    """One installation. Its registered objects are deleted after the test."""
    one = Installation(control_plane, service, HOOKS, tmp_path)
    yield one
    for each in one.manifests():
        if control_plane.api.exists(each):
            control_plane.api.delete(each)


def register(installation: Installation) -> str:
    return installation.run("register", "apply", "-f", str(installation.file), "--timeout-s=30")


def test_an_unreachable_webhook_is_not_registered(api: Api, service: Service, installation: Installation):
    words = ("register", "apply", "-f", str(installation.file), "--timeout-s=1")
    installation.run(*words, code=2)
    assert not any(map(api.exists, installation.manifests()))
    service.start()  # with a certificate of another authority
    installation.run(*words, code=2)
    assert not any(map(api.exists, installation.manifests()))


def test_certs_owns_the_bundle_field_only(api: Api, installation: Installation):
    mutating, _ = installation.manifests()
    api.apply(mutating, manager="helm")
    installation.run("certs", "bootstrap")
    (bundle, *empty) = sorted(bundles_of(api, mutating), reverse=True)
    assert bundle
    assert not empty
    assert owned(api.get(mutating), "berthmaster-certs") == {"f:clientConfig": {"f:caBundle": {}}}

    edited = api.get(mutating)
    for hook in edited["webhooks"]:
        hook["clientConfig"]["caBundle"] = base64.b64encode(somebodys_bundle()).decode()
        hook["timeoutSeconds"] = 7
    api.replace(edited)
    assert "BundleOutdated" in installation.run("certs", "bootstrap")
    assert bundles_of(api, mutating) == {bundle}
    assert {hook["timeoutSeconds"] for hook in api.get(mutating)["webhooks"]} == {7}


def test_a_scheduler_plugin_gets_its_bundle(api: Api, installation: Installation):
    name = unique("plugin")
    spec = {"payloadVersions": ["v1alpha1"], "urlPrefix": "https://extender.svc:9443", "filterPath": "/filter"}
    plugin = {**manifest(KUBEADMIRAL, "SchedulerPluginWebhookConfiguration", None, spec), "metadata": {"name": name}}
    api.create(plugin)
    assert "BundleMissing" in installation.run("certs", "bootstrap", f"--scheduler-plugin={name}")
    stored = api.get(plugin)["spec"]
    pem = base64.b64decode(stored.pop("tlsConfig")["caData"])
    assert x509.load_pem_x509_certificates(pem)[0].subject.rfc4514_string().startswith("CN=berthmaster authority")
    assert spec.items() <= stored.items()
    api.delete(plugin)


def bundles_of(api: Api, target: dict) -> set[str]:
    return {hook["clientConfig"].get("caBundle", "") for hook in api.get(target)["webhooks"]}


def owned(content: dict, manager: str) -> dict:
    """Return the fields of the first webhook that a manager owns."""
    fields = next(each["fieldsV1"] for each in content["metadata"]["managedFields"] if each["manager"] == manager)
    (entry,) = fields["f:webhooks"].values()
    return entry


def somebodys_bundle() -> bytes:
    return new_authority("another", timedelta(days=1), datetime.now(UTC)).certificate_pem
