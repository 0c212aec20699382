"""``docs/operations.md`` has every alert, and its commands name objects that the chart creates."""

import re

import pytest
import yaml
from charts.cases import CASES

from berthmaster_cli.certs import command
from charts import helm

ROTATE = command.commands["rotate"]
PAGE = (helm.CHART.parents[1] / "docs" / "operations.md").read_text()
VALUES = yaml.safe_load((helm.CHART / "values.yaml").read_text())


def alerts():
    [group] = helm.named(helm.render(CASES["monitoring"]), "PrometheusRule", "berthmaster-alerts")["spec"]["groups"]
    return [rule["alert"] for rule in group["rules"]]


def test_every_alert_has_a_row_that_says_what_it_means_and_what_to_do():
    rows = re.findall(r"^\| `(Berthmaster\w+)` \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
    assert sorted(name for name, _, _ in rows) == sorted(alerts())
    assert all(len(means) > 20 and len(remedy) > 8 for _, means, remedy in rows)


def test_thresholds_that_are_named_are_values():
    known = VALUES["monitoring"]["prometheusRule"]
    section = PAGE.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z][A-Za-z]+)`", section))
    assert named >= {"certificateDays", "webhookErrorRatio", "webhookSeconds", "pendingBindings"}
    assert {"certificateDays", "webhookErrorRatio", "webhookSeconds", "pendingBindings"} <= known.keys()


def test_the_options_for_certificates_are_those_of_the_pods():
    """The page's file and the environment that the chart renders agree."""
    given = yaml.safe_load(re.search(r"```yaml\n# certs.yaml\n(.*?)```", PAGE, re.DOTALL)[1])
    assert {f"--{key}" for key in given} <= {name for each in ROTATE.params for name in each.opts}
    deployment = helm.named(helm.render({}), "Deployment", "berthmaster-certs")
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    prefix = "BERTHMASTER_CERTS_"
    rendered = {each["name"].removeprefix(prefix).replace("_", "-").lower(): each["value"] for each in environment}
    [(secret, names)] = given["serving"].items()
    assert rendered["serving"] == f"{secret}={names}"
    assert (rendered["namespace"], rendered["authority-secret"]) == (given["namespace"], given["authority-secret"])
    assert given["mutating"] == [rendered["mutating"]]
    assert given["validating"] == [rendered["validating"]]


@pytest.mark.parametrize("command", ["webhook", "extender"])
def test_ports_are_those_of_the_pods(command):
    [row] = re.findall(rf"^\| `berthmaster {command}` \| .*? \| (\d+) \|", PAGE, re.MULTILINE)
    deployment = helm.named(helm.render(CASES["extender"]), "Deployment", f"berthmaster-{command}")
    ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert {each["name"]: each["containerPort"] for each in ports} == {"https": int(row), "probes": 9080}


def test_kubectl_commands_name_rendered_objects():
    objects = helm.render({})
    made = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in objects}
    assert set(re.findall(r"(?:job|deployment)/[\w-]+", PAGE)) <= made
    components = set(re.findall(r"app\.kubernetes\.io/component=(\w+)", PAGE))
    assert components
    assert components <= {
        each["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in helm.of_kind(objects, "Deployment")
    }


def test_error_messages_quote_names_of_registered_webhooks():
    named = set(re.findall(r'failed calling webhook "([\w.-]+)"', PAGE))
    registered = {hook["name"] for each in helm.registration(helm.render({})) for hook in each["webhooks"]}
    assert named
    assert named <= registered
