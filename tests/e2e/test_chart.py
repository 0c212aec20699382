"""The chart against a real API server: every object, every upgrade, and the webhook as it is registered."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from charts.assets import MissingHelmError, helm_binary
from charts.cases import CASES
from e2e.api import Api, RefusedError
from e2e.chart import RELEASE, RESTRICTED, Installation, left_of
from e2e.control_plane import ControlPlane

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
def restricted(control_plane: ControlPlane) -> str:
    """A namespace under the strictest Pod Security Standard, from its first moment: admission may miss later labels."""
    return control_plane.new_namespace(**RESTRICTED)


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
