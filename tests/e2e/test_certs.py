"""The certificates of an installation. One real API server is host and target."""

import base64
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from e2e.api import Api, RefusedError
from e2e.certified import SYNC_S, Installation, Kubelet
from e2e.control_plane import ControlPlane
from e2e.load import Load
from e2e.manifests import KUBEADMIRAL, manifest, propagation_policy, unique
from e2e.processes import Processes, wait_for
from e2e.registration import count
from e2e.service import KARMADA_HOOKS, Service, served_serial

from certs.authority import new_authority

pytestmark = pytest.mark.e2e

HOOKS = tuple(hook for hook in KARMADA_HOOKS if hook.resource == "propagationpolicies")
ENOUGH = 50  # requests between two events
SETTLED_S = 60.0


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


@pytest.fixture
def kubelet(api: Api, installation: Installation, service: Service) -> Iterator[Kubelet]:
    """A kubelet that mounts the serving Secret. The test starts it."""
    with closing(Kubelet(api, installation.namespace, installation.serving, service)) as one:
        yield one


def register(installation: Installation) -> str:
    return installation.run("register", "apply", "-f", str(installation.file), "--timeout-s=30")


def failed_calls(plane: ControlPlane, installation: Installation) -> int:
    names = [hook["name"] for manifest in installation.manifests() for hook in manifest["webhooks"]]
    total, label = "apiserver_admission_webhook_rejection_count", 'error_type="calling_webhook_error"'
    return sum(count(plane, total, name, label) for name in names)


def test_install_renew_rotate_and_remove(
    control_plane: ControlPlane, api: Api, service: Service, installation: Installation, kubelet: Kubelet,
    namespace: str,
):  # fmt: skip
    assert "LeafMissing" in installation.run("certs", "bootstrap")
    assert "nothing to do" in installation.run("certs", "bootstrap")
    kubelet.start()
    replica = service.start()
    assert "applied" in register(installation)
    first_leaf, ((first_authority,),) = installation.leaf(), installation.trusted()
    assert all(item["verdict"] == "ok" for item in installation.items())

    policy = propagation_policy(namespace, placement={"spreadConstraints": [{"maxGroups": 2}]})
    wait_for("the webhook to be called", lambda: called(control_plane, api, installation, policy), 30)
    keepers = [installation.keep(), installation.keep()]
    with Load(api, lambda: policy) as load:
        load.more(ENOUGH)
        assert "RenewalRequested" in installation.run("certs", "rotate")
        renewed = installation.leaf()
        assert renewed.serial_number != first_leaf.serial_number
        wait_for("the new leaf", lambda: served_serial(replica.port) == renewed.serial_number, SYNC_S + 15)
        load.more(ENOUGH)

        assert "RotationRequested" in installation.run("certs", "rotate", "--ca")
        wait_for("both to be trusted", lambda: list(map(len, installation.trusted())) == [2], 15)
        wait_for("the new one alone to be", lambda: alone(installation, first_authority), SETTLED_S)
        load.more(ENOUGH)
    assert not load.failures, load.report()
    assert failed_calls(control_plane, installation) == 0
    ((second_authority,),) = installation.trusted()
    installation.leaf().verify_directly_issued_by(second_authority)
    expiry = 'berthmaster_certificate_expiry_timestamp_seconds{certificate="authority/berthmaster-ca"}'
    assert expiry in keepers[0].metrics()

    before = installation.bundles()
    register(installation)
    for each in installation.manifests():
        api.apply(each, manager="helm")  # as a client without knowledge of bundles does
    assert installation.bundles() == before != {""}

    for keeper in keepers:
        assert keeper.process.stop() == 0, keeper.process.tail()
    remove = ("register", "remove", "-f", str(installation.file), "--certificates")
    assert "removed" in installation.run(*remove)
    assert "gone already" in installation.run(*remove)
    assert not any(map(api.exists, installation.manifests()))
    assert not any(api.exists(installation.secret(name)) for name in (installation.authority, installation.serving))
    service.retire(replica)
    wait_for("policies to be created without the webhook", lambda: created(api, namespace), 15)


def alone(installation: Installation, predecessor: x509.Certificate) -> bool:
    """Return whether all configurations trust one authority, and not the predecessor."""
    trusted = installation.trusted()
    return list(map(len, trusted)) == [1] and trusted != [{predecessor}]


def called(plane: ControlPlane, api: Api, installation: Installation, policy: dict) -> bool:
    api.create(policy, dry_run=True)
    names = [hook["name"] for manifest in installation.manifests() for hook in manifest["webhooks"]]
    return all(count(plane, "apiserver_admission_webhook_request_total", name) for name in names)


def created(api: Api, namespace: str) -> bool:
    try:
        api.create(propagation_policy(namespace))
    except RefusedError as refusal:
        raise AssertionError(str(refusal)) from None
    return True


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
