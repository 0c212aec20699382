"""Who can reach the pods, and what the pods can reach."""

import pytest
from charts.cases import EXTENDER

from charts import helm

EVERYTHING = {"extender": EXTENDER, "controllers": {"estimator": {"enabled": True}}}
PORTS = {"networkPolicy": {"apiServerPorts": [6443]}}
TRACES = {"ports": [{"port": 4318, "protocol": "TCP"}], "to": [{"namespaceSelector": {}}]}


def policies(values) -> dict[str, dict]:
    return {
        each["metadata"]["name"].removeprefix("berthmaster-"): each["spec"]
        for each in helm.of_kind(helm.render(values), "NetworkPolicy")
    }


def ports(rules) -> list:
    return [port["port"] for rule in rules for port in rule["ports"]]


def test_every_component_has_a_policy_by_default():
    assert set(policies(EVERYTHING)) == {"webhook", "extender", "controllers", "certs", "register"}
    assert policies({"networkPolicy": {"enabled": False}}) == {}


@pytest.mark.parametrize(
    ("component", "expected"),
    [
        pytest.param("webhook", ["https", "probes"], id="the webhook serves the API server"),
        pytest.param("extender", ["https", "probes"], id="the extender serves schedulers"),
        pytest.param("controllers", ["probes"], id="controllers serve probes only"),
        pytest.param("certs", ["probes"], id="certs serves probes only"),
        pytest.param("register", [], id="the Jobs serve nothing"),
    ],
)
def test_only_the_ports_of_a_component_can_be_reached(component, expected):
    policy = policies(EVERYTHING)[component]
    assert "Ingress" in policy["policyTypes"]
    assert ports(policy.get("ingress", [])) == expected
    assert all("from" not in rule for rule in policy.get("ingress", [])), "the chart does not know the peers"


@pytest.mark.parametrize(
    ("values", "component", "expected"),
    [
        pytest.param({}, "webhook", [], id="the webhook connects to nothing"),
        pytest.param({"extender": {**EXTENDER, "watch": []}}, "extender", [], id="nor an extender without a watch"),
        pytest.param({}, "certs", None, id="the ports of the API servers are unknown"),
        pytest.param({"extender": EXTENDER}, "extender", None, id="an extender that watches, ports unknown"),
        pytest.param(PORTS, "webhook", [], id="with known ports the webhook still connects to nothing"),
        pytest.param(PORTS, "certs", [53, 53, 6443], id="certs connects to DNS and API servers"),
        pytest.param({**EVERYTHING, **PORTS}, "controllers", [53, 53, 6443, 10352], id="controllers, with estimators"),
        pytest.param(
            {"networkPolicy": {**PORTS["networkPolicy"], "dnsPorts": [53, 5353]}},
            "certs",
            [53, 53, 5353, 5353, 6443],
            id="the ports of DNS are values",
        ),
        pytest.param(
            {"networkPolicy": {"extraEgress": [TRACES]}},
            "webhook",
            [53, 53, 4318],
            id="traces can leave the webhook, which finds the collector by DNS",
        ),
        pytest.param(
            {"networkPolicy": {**PORTS["networkPolicy"], "extraEgress": [TRACES]}},
            "certs",
            [53, 53, 4318, 6443],
            id="what is added is added for every pod",
        ),
        pytest.param(PORTS, "register", [53, 53, 6443, 8443, 9443], id="register connects to the servers too"),
    ],
)
def test_what_a_component_can_connect_to(values, component, expected):
    policy = policies(values)[component]
    assert ("Egress" in policy["policyTypes"]) == (expected is not None)
    assert (ports(policy["egress"]) if "egress" in policy else None) == expected
