"""Every reference in a rendered object resolves."""

import pytest
from charts.cases import CASES

from charts import helm

# Secrets that the chart does not create: users or Karmada do, and `certs` creates those with these suffixes.
MADE_BY_CERTS = ("-ca", "-webhook-tls", "-extender-tls", "-console-tls")
ACCOUNTS_GIVEN = {"platform-controllers", "platform-certs"}
GIVEN = {
    "karmada-kubeconfig", "kubeadmiral-kubeconfig-secret", "berthmaster-tokens", "kubeadmiral-client-ca", "my-tls",
    "kube-scheduler-client-ca", "estimator-client-tls", "apiserver-client-ca", "berthmaster-controllers-kubeconfig",
    "berthmaster-certs-kubeconfig", "our-ledger", "visitors", "visitors-ca", "console-session",
    "console-oidc", "login-ca", "proxy-secret",
}  # fmt: skip


def names(objects, kind):
    return {each["metadata"]["name"] for each in helm.of_kind(objects, kind)}


def mounted(spec, kind, key):
    return {volume[kind][key] for volume in spec["volumes"] if kind in volume}


def test_every_reference_of_a_pod_exists(objects):
    for where, template in helm.pods(objects):
        spec = template["spec"]
        assert spec["serviceAccountName"] in names(objects, "ServiceAccount") | ACCOUNTS_GIVEN, where
        assert mounted(spec, "configMap", "name") <= names(objects, "ConfigMap") | {"platform-trust", "our-moves"}, (
            where
        )
        foreign = mounted(spec, "secret", "secretName") - names(objects, "Secret") - GIVEN
        assert all(name.endswith(MADE_BY_CERTS) for name in foreign), where


def test_every_binding_binds_a_role_to_a_subject(objects):
    for binding in helm.of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
        assert binding["roleRef"]["name"] in names(objects, binding["roleRef"]["kind"])
        for subject in binding["subjects"]:
            assert subject["name"] in names(objects, "ServiceAccount") | ACCOUNTS_GIVEN
            assert subject["namespace"] == helm.NAMESPACE


def test_every_service_account_is_used(objects):
    used = {template["spec"]["serviceAccountName"] for _, template in helm.pods(objects)}
    assert names(objects, "ServiceAccount") == used - ACCOUNTS_GIVEN


def test_every_selector_matches_pods_of_the_release(objects):
    labels = [template["metadata"]["labels"] for _, template in helm.pods(objects)]
    selectors = {
        "Service": lambda spec: spec["selector"],
        "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
        "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
        "Deployment": lambda spec: spec["selector"]["matchLabels"],
    }
    for each in helm.of_kind(objects, *selectors):
        wanted = selectors[each["kind"]](each["spec"]).items()
        assert any(wanted <= found.items() for found in labels), each["metadata"]["name"]


def test_every_target_port_is_a_port_of_a_pod(objects):
    for service in helm.of_kind(objects, "Service"):
        for port in service["spec"]["ports"]:
            assert any(
                port["targetPort"] == found["name"]
                for _, template in helm.pods(objects)
                if service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
                for found in template["spec"]["containers"][0].get("ports", [])
            ), service["metadata"]["name"]


def test_an_autoscaled_deployment_sets_no_replicas(objects):
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in helm.of_kind(objects, "HorizontalPodAutoscaler")}
    for deployment in helm.of_kind(objects, "Deployment"):
        assert ("replicas" in deployment["spec"]) != (deployment["metadata"]["name"] in scaled)


@pytest.mark.parametrize(
    ("release", "override", "name"),
    [
        ("berthmaster", {}, "berthmaster"),
        ("edge", {}, "edge-berthmaster"),
        ("edge", {"fullnameOverride": "bm"}, "bm"),
        ("e" * 53, {}, "e" * 48),
    ],
)
def test_names_follow_the_release_and_fit(release, override, name):
    objects = helm.render({**CASES["single-with-everything"], **override}, release=release, namespace="fleet")
    assert names(objects, "Deployment") == {
        f"{name}-{each}" for each in ("webhook", "extender", "controllers", "certs")
    }
    services = names(objects, "Service")
    assert max(map(len, services)) <= 63
