"""``docs/security.md`` lists the rights and credentials that the chart grants."""

import re

import pytest
from charts.cases import CASES
from charts.test_rbac import target_objects

from charts import helm

PAGE = (helm.CHART.parents[1] / "docs" / "security.md").read_text()
# The controllers' rights are in docs/controllers.md, which tests/unit compares with the code.
COMPONENTS = ("webhook", "extender", "console", "certs", "register", "cleanup")
SEVERAL = (
    "single-with-everything",
    "kubeadmiral",
    "extender",
    "extender-live",
    "kube-scheduler",
    "console-behind-a-proxy",
)
CONSOLE = {**CASES["console"], "console": {"enabled": True, "signIn": {"tokenSecretName": "visitors"}}}


def rows(objects, place):
    for role in helm.of_kind(objects, "Role", "ClusterRole"):
        name = role["metadata"]["name"].partition("berthmaster-")[2]
        component = name.partition("-")[0]
        if component not in COMPONENTS or (("-target" in name) != (place == "target")):
            continue
        for rule in role["rules"]:
            names = "by name" if "resourceNames" in rule else "any"
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    what = f"{group or 'core'} | `{resource}` | {names}"
                    yield f"| {component} | {place} | {what} | {', '.join(rule['verbs'])} |"


def table(title):
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def test_the_table_has_every_right_of_the_chart_and_no_other():
    granted = {
        row
        for case in SEVERAL
        for objects, place in ((helm.render(CASES[case]), "host"), (target_objects(CASES[case]), "target"))
        for row in rows(objects, place)
    }
    listed = set()
    for line in table("Rights of the chart's accounts"):
        before, resources, after = re.fullmatch(r"(.*?)((?:`[a-z]+`(?:, )?)+)(.*)", line).groups()
        listed |= {f"{before}{each}{after}" for each in resources.split(", ")}
    assert listed == granted


def mounted(values):
    for name, template in helm.pods(helm.render(values)):
        spec = template["spec"]
        secrets = {each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
        yield name.partition("/berthmaster-")[2], secrets, spec["automountServiceAccountToken"]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(CASES["default"], id="by default"),
        pytest.param(CASES["extender"], id="with the extender"),
        pytest.param(CONSOLE, id="with the console"),
    ],
)
def test_pods_hold_the_credentials_of_the_table_and_no_others(values):
    listed = {}
    for line in table("What each pod holds"):
        _, pod, secrets, account, *_ = (cell.strip() for cell in line.split("|"))
        listed[pod] = ({each.strip("` ") for each in secrets.split(",")} - {"none"}, account == "yes")
    for pod, secrets, account in mounted(values):
        assert (secrets, account) == listed[pod], pod
