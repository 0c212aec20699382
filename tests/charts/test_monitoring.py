"""Alerts and dashboard use metrics that exist."""

import json
import re

import promql_parser
import pytest
from charts.cases import CASES
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from sources import METRICS

from berthmaster_cli.main import COMMANDS
from charts import helm

METRIC = re.compile(r"berthmaster_[a-z0-9_]+")
SUFFIX = re.compile(r"_(bucket|sum|count)$")
# The command that exposes a metric, by the prefix of its name.
OWNERS = {
    "berthmaster_webhook_": "webhook",
    "berthmaster_extender_": "extender",
    "berthmaster_console_": "console",
    "berthmaster_controllers_": "controllers",
    "berthmaster_scheduler_": "controllers",
    "berthmaster_ledger_": "controllers",
    "berthmaster_moves_": "controllers",
    "berthmaster_certificate_": "certs",
}


@pytest.fixture(scope="module")
def objects():
    return helm.render(CASES["monitoring"])


@pytest.fixture(scope="module")
def alerts(objects):
    [group] = helm.named(objects, "PrometheusRule", "berthmaster-alerts")["spec"]["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


@pytest.fixture(scope="module", params=["berthmaster.json", "berthmaster-fleet.json"])
def dashboard(objects, request):
    return json.loads(helm.named(objects, "ConfigMap", "berthmaster-dashboard")["data"][request.param])


def expressions(alerts, dashboard):
    yield from (rule["expr"] for rule in alerts.values())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", []))


def test_every_metric_is_exposed_by_a_command(alerts, dashboard):
    for expression in expressions(alerts, dashboard):
        for name in METRIC.findall(re.sub(r'"[^"]*"', "", expression)):
            [owner] = [command for prefix, command in OWNERS.items() if name.startswith(prefix)]
            if owner in COMMANDS:
                # The client library adds _total to counters by itself.
                known = {SUFFIX.sub("", name), name.removesuffix("_total")}
                assert known & METRICS, name


def test_every_alert_is_of_this_release_and_says_what_to_do(alerts):
    for rule in alerts.values():
        selectors = re.findall(r"\w+\{([^}]*)\}", rule["expr"])
        assert selectors
        assert all('job="berthmaster-metrics",namespace="karmada-system"' in each for each in selectors)
        assert rule["labels"].keys() == {"severity", "team"}
        assert rule["annotations"]["summary"].endswith(".")
        assert len(rule["annotations"]["description"]) > 20
        assert rule["annotations"]["runbook_url"].startswith("https://")


def test_disabled_components_have_no_alerts():
    off = {"enabled": False}
    values = {**CASES["monitoring"], "extender": off, "webhook": off, "console": off}
    [group] = helm.named(helm.render(values), "PrometheusRule", "berthmaster-alerts")["spec"]["groups"]
    assert {rule["alert"] for rule in group["rules"]} == {
        "BerthmasterControllersDown", "BerthmasterNoLeader", "BerthmasterTwoLeaders", "BerthmasterBindingsPending",
        "BerthmasterStormBrakeEngaged", "BerthmasterMovesRolledBack", "BerthmasterReplicasBelowWanted",
        "BerthmasterMovesConfigInvalid", "BerthmasterLedgerFailing", "BerthmasterLedgerLosesRecords",
    }  # fmt: skip


def test_alerts_see_what_the_service_monitor_scrapes(objects, alerts):
    monitor = helm.named(objects, "ServiceMonitor", "berthmaster-metrics")
    service = helm.named(objects, "Service", "berthmaster-metrics")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert monitor["spec"]["podTargetLabels"] == ["app.kubernetes.io/component"]
    for deployment in helm.of_kind(objects, "Deployment"):
        component = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        assert f'app_kubernetes_io_component="{component}"' in alerts[f"Berthmaster{component.title()}Down"]["expr"]
        assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_panels_do_not_overlap_and_have_ids_of_their_own(dashboard):
    taken = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
                assert x < 24
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_every_query_is_of_the_chosen_release(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            assert target["expr"].count("{") == target["expr"].count('{job="$job",namespace="$namespace"')


def test_prometheus_understands_every_expression(alerts, dashboard):
    for expression in expressions(alerts, dashboard):
        promql_parser.parse(expression.replace("$__rate_interval", "5m"))


# The fields of Prometheus Operator's and cert-manager's kinds that the chart uses, by their references.
FIELDS = {
    "ServiceMonitor": {
        "": {"selector", "namespaceSelector", "podTargetLabels", "endpoints"},
        "endpoints": {"port", "path", "interval"},
        "namespaceSelector": {"matchNames"},
        "selector": {"matchLabels"},
    },
    "PrometheusRule": {
        "": {"groups"},
        "groups": {"name", "rules"},
        "groups.rules": {"alert", "expr", "for", "labels", "annotations"},
    },
    "Issuer": {"": {"selfSigned", "ca"}, "ca": {"secretName"}, "selfSigned": set()},
    "Certificate": {
        "": {
            "isCA", "commonName", "secretName", "duration", "renewBefore", "privateKey", "usages", "dnsNames",
            "ipAddresses", "issuerRef",
        },
        "privateKey": {"algorithm", "size", "rotationPolicy"},
        "issuerRef": {"group", "kind", "name"},
    },
}  # fmt: skip


def unknown(value, known, path=""):
    """The path of every field that a kind does not have."""
    if isinstance(value, list):
        for each in value:
            yield from unknown(each, known, path)
    elif isinstance(value, dict) and path in known:
        for key, each in value.items():
            here = f"{path}.{key}".lstrip(".")
            if key not in known[path]:
                yield here
            yield from unknown(each, known, here)


@pytest.mark.parametrize("case", ["monitoring", "cert-manager", "cert-manager-issuer"])
def test_kinds_whose_definitions_are_elsewhere_have_fields_that_those_know(case):
    found = helm.of_kind(helm.render(CASES[case]), *FIELDS)
    assert found
    assert [field for each in found for field in unknown(each["spec"], FIELDS[each["kind"]])] == []


def test_certificates_of_cert_manager_are_stored_where_pods_look():
    objects = helm.render(CASES["cert-manager"])
    certificate = helm.named(objects, "Certificate", "berthmaster-webhook-tls")["spec"]
    [spec] = [template["spec"] for name, template in helm.pods(objects) if name == "Deployment/berthmaster-webhook"]
    assert certificate["secretName"] in {volume.get("secret", {}).get("secretName") for volume in spec["volumes"]}
    assert certificate["issuerRef"]["name"] == helm.named(objects, "Issuer", "berthmaster-ca")["metadata"]["name"]
    assert (certificate["ipAddresses"], "hooks.example.org" in certificate["dnsNames"]) == (["10.0.0.7"], True)


def missing(given, kept, path=""):
    """The path of every value that is in the first document and differs in the second one."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, each in given.items():
            yield from missing(each, kept.get(key), f"{path}.{key}")
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, each in enumerate(given):
            yield from missing(each, kept[number], f"{path}[{number}]")
    elif given != kept:
        yield path


def test_grafana_knows_every_field_of_the_dashboard(dashboard):
    """Grafana's own types leave out what they do not know."""
    plugins.register_default_plugins()
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    assert list(missing(dashboard, kept)) == []
    panel = {**dashboard["panels"][1], "gridPosition": {}}
    wrong = json.loads(JSONEncoder().encode(Dashboard.from_json({**dashboard, "panels": [panel]})))
    assert list(missing([panel], wrong["panels"])) == ["[0].gridPosition"]
