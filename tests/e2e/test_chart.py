"""The chart against a real API server: every object, every upgrade, and the webhook as it is registered."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.assets import MissingHelmError, helm_binary
from charts.cases import CASES
from e2e.api import Api, RefusedError
from e2e.certificates import Authority
from e2e.chart import RELEASE, RESTRICTED, Installation, left_of, replaced
from e2e.control_plane import HOST, ControlPlane, fetch
from e2e.manifests import manifest, policies_of_every_kind, propagation_policy
from e2e.processes import Process, Processes, wait_for
from e2e.service import COMMAND

from charts import helm

pytestmark = pytest.mark.e2e

EFFECT_LIMIT_S = 30.0
START_LIMIT_S = 30.0
# Their definitions are not at hand; tests/charts looks at what is in them.
FOREIGN_GROUPS = ("monitoring.coreos.com", "cert-manager.io")


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        helm_binary()
    except MissingHelmError as problem:
        if os.environ.get("BERTHMASTER_E2E") == "required" or os.environ.get("CI") == "true":
            pytest.fail(f"the chart's tests are required here, but: {problem}", pytrace=False)
        pytest.skip(str(problem))


@pytest.fixture
def restricted(api: Api, namespace: str) -> str:
    """A namespace under the strictest Pod Security Standard."""
    api.patch(
        manifest("v1", "Namespace", None, {}) | {"metadata": {"name": namespace}}, {"metadata": {"labels": RESTRICTED}}
    )
    return namespace


def foreign(each: dict[str, Any]) -> bool:
    return each["apiVersion"].partition("/")[0] in FOREIGN_GROUPS


def rendered(case: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Every object of a case, those within others too: what Jobs apply in the target, and roles for it."""
    for each in helm.render(CASES[case], namespace=namespace):
        yield each
        held = {**each.get("data", {}), **each.get("stringData", {})} if each["kind"] in {"ConfigMap", "Secret"} else {}
        for name, text in held.items():
            if name in {"registration.yaml", "berthmaster-target-rbac.yaml"}:
                documents = (one for one in yaml.safe_load_all(text) if one)
                yield from (
                    one for one in documents if "unwanted" not in each["metadata"]["name"] or one.get("webhooks")
                )


HOST_NETWORK = 'would violate PodSecurity "restricted:latest": host namespaces (hostNetwork=true)'
WARNED = {("host-network", "Deployment/berthmaster-webhook"): (HOST_NETWORK,)}
"""The warnings that values ask for."""


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_takes_every_object_without_a_warning(api: Api, restricted: str, case: str):
    """A warning names a field that does not exist, or what the strictest Pod Security Standard forbids."""
    for each in rendered(case, restricted):
        if foreign(each):
            continue
        if each["kind"] in {"Role", "RoleBinding"}:
            each["metadata"]["namespace"] = restricted  # the target's karmada-system is not there
        reply = api.create(each, dry_run=True)
        name = f"{each['kind']}/{each['metadata']['name']}"
        assert reply.warnings == WARNED.get((case, name), ()), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"privileged": True}, "privileged", id="a privileged container"),
        pytest.param(
            {"readOnly": True}, 'unknown field "spec.template.spec.containers[0].securityContext.readOnly"', id="a typo"
        ),
    ],
)
def test_the_check_finds(api: Api, restricted: str, change: dict[str, Any], message: str):
    deployment = helm.named(helm.render({}, namespace=restricted), "Deployment", "berthmaster-webhook")
    deployment["spec"]["template"]["spec"]["containers"][0]["securityContext"].update(change)
    try:
        warnings = " ".join(api.create(deployment, dry_run=True).warnings)
    except RefusedError as refusal:
        warnings = refusal.message
    assert message in warnings


@pytest.fixture
def installation(control_plane: ControlPlane, namespace: str) -> Iterator[Installation]:
    """A release to be, removed after the test."""
    made = Installation(control_plane, namespace)
    yield made
    made.uninstall()


def test_every_switch_can_be_turned_by_an_upgrade_and_an_uninstall_leaves_nothing(api: Api, installation: Installation):
    installation.upgrade({})
    kinds = set()
    for case, values in CASES.items():
        objects = helm.render(values, namespace=installation.namespace)
        if any(map(foreign, objects)):
            continue
        installation.upgrade(values)
        kinds |= {(each["apiVersion"], each["kind"], "namespace" in each["metadata"]) for each in objects}
        assert helm.named(objects, "Service", "berthmaster-metrics"), case
    installation.helm("rollback", RELEASE, "--no-hooks")
    assert left_of(api, installation.namespace, kinds)
    installation.uninstall()
    assert left_of(api, installation.namespace, kinds) == []


class Registered:
    """The webhook as the chart starts it, registered as the chart registers it."""

    def __init__(self, plane: ControlPlane, folder: Path, values: dict[str, Any]) -> None:
        self._plane = plane
        objects = helm.render(values, namespace="berthmaster-e2e")
        self.port = plane.processes.ports.free()
        authority = Authority("chart")
        pair = authority.issue("berthmaster-webhook", hosts=(HOST,))
        pair.write(folder / "tls.crt", folder / "tls.key")
        self.process = self._start(objects, folder)
        self.configurations = [self._reachable(each, authority) for each in helm.registration(objects)]

    def _start(self, objects: list[dict[str, Any]], folder: Path) -> Process:
        deployment = helm.named(objects, "Deployment", "berthmaster-webhook")
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        probes = self._plane.processes.ports.free()
        changes = {
            "bind": f"{HOST}:{self.port}", "probe-bind": f"{HOST}:{probes}", "drain-s": "0",
            "cert-file": str(folder / "tls.crt"), "key-file": str(folder / "tls.key"),
        }  # fmt: skip
        process = self._plane.processes.start("webhook", [COMMAND, *replaced(container["args"], changes)])
        process.wait_for("to be ready", lambda: fetch(f"http://{HOST}:{probes}/readyz"), START_LIMIT_S)
        return process

    def _reachable(self, configuration: dict[str, Any], authority: Authority) -> dict[str, Any]:
        """With the loopback address in place of the Service's, and the CA that `register` would put in."""
        for entry in configuration["webhooks"]:
            path = entry["clientConfig"]["url"].partition(":443/")[2]
            entry["clientConfig"] = {
                "url": f"https://{HOST}:{self.port}/{path}",
                "caBundle": base64.b64encode(authority.certificate).decode(),
            }
        return configuration


@pytest.fixture
def registered(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Registered]:
    """A webhook that is asked about every policy, with failurePolicy Fail."""
    values = {"webhook": {"reviews": {"karmada": True, "kubeAdmiral": True}}}
    webhook = Registered(control_plane, tmp_path, values)
    for each in webhook.configurations:
        control_plane.api.apply(each)
    yield webhook
    for each in webhook.configurations:
        control_plane.api.delete(each)
    webhook.process.stop()
    wait_for("policies to be taken again", lambda: accepted(control_plane.api), EFFECT_LIMIT_S)


def accepted(api: Api) -> bool:
    try:
        api.create(propagation_policy("default"), dry_run=True)
    except RefusedError:
        return False
    return True


def denied(api: Api) -> bool:
    """Whether the webhook is asked already: it denies what no schema forbids."""
    selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
    wrong = manifest(
        "policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", None,
        {"resourceSelectors": [selector], "preemption": "Always", "priority": 1},
    )  # fmt: skip
    try:
        api.create(wrong, dry_run=True)
    except RefusedError as refusal:
        return "preemption-without-namespace" in refusal.message
    return False


def test_the_rendered_webhook_reviews_policies_and_can_block_nothing_else(
    api: Api, namespace: str, registered: Registered
):
    wait_for("the webhook to be asked", lambda: denied(api), EFFECT_LIMIT_S)
    for policy in policies_of_every_kind(namespace).values():
        api.create(policy)
        api.delete(policy)

    registered.process.stop()
    wait_for("policies to be refused", lambda: not accepted(api), EFFECT_LIMIT_S)
    # With failurePolicy Fail and no webhook, every object that a repair needs can still be written.
    repair = helm.render({}, namespace=namespace)
    for each in repair:
        api.create(each, dry_run=True)
    for each in registered.configurations:
        api.apply(each)  # what `register` does
    left = propagation_policy(namespace)
    with pytest.raises(RefusedError) as refusal:
        api.create(left)
    assert "failed calling webhook" in refusal.value.message


@pytest.mark.parametrize("watch", [["nodes", "policies"], ["federatedclusters", "policies"]], ids=" and ".join)
def test_the_extender_needs_no_more_than_its_role(
    installation: Installation, processes: Processes, tmp_path: Path, watch: list[str]
):
    values = {
        "mode": "single", "webhook": {"enabled": False}, "controllers": {"enabled": False},
        "extender": {"enabled": True, "watch": watch, "auth": {"insecure": True}},
    }  # fmt: skip
    installation.upgrade(values)
    Authority("chart").issue("extender", hosts=(HOST,)).write(tmp_path / "tls.crt", tmp_path / "tls.key")
    access = installation.kubeconfig("berthmaster-extender", tmp_path)
    deployment = helm.named(helm.render(values, namespace=installation.namespace), "Deployment", "berthmaster-extender")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    probes = processes.ports.free()
    changes = {
        "bind": f"{HOST}:{processes.ports.free()}", "probe-bind": f"{HOST}:{probes}", "drain-s": "0",
        "cert-file": str(tmp_path / "tls.crt"), "key-file": str(tmp_path / "tls.key"),
    }  # fmt: skip
    arguments = [*replaced(container["args"], changes), f"--kubeconfig={access}"]
    process = processes.start("extender", [COMMAND, *arguments])
    ready = process.wait_for("to be ready", lambda: fetch(f"http://{HOST}:{probes}/readyz"), START_LIMIT_S)
    process.stop()
    assert ready.strip() == "ok", "nothing is stale for want of a right"

    mine = Api(access, tmp_path / "discovery.json")
    for forbidden in (("v1", "Secret"), ("v1", "ConfigMap"), ("apps/v1", "Deployment")):
        with pytest.raises(RefusedError) as refusal:
            mine.list(*forbidden, installation.namespace)
        assert refusal.value.status == 403
