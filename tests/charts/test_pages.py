"""Pages about the chart."""

import re
import shlex

import pytest
import yaml
from charts.cases import CASES
from charts.test_rbac import target_objects
from page_lines import whole_lines

from berthmaster_cli.certs import command
from berthmaster_cli.doctor.facts import Setup
from berthmaster_cli.doctor.judge.adoption import commands
from charts import helm

PAGE = "\n".join((helm.CHART.parents[1] / "docs" / name).read_text() for name in ("install.md", "install-karmada.md"))
BLOCKS = re.findall(r"^```(sh|yaml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FILES = {text.splitlines()[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "yaml"}
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in whole_lines(text).splitlines()]
HELM = [line for line in COMMANDS if re.match(r"helm (install|upgrade) ", line)]


@pytest.mark.parametrize("line", HELM)
def test_a_command_of_helm_renders(line, tmp_path, monkeypatch):
    """Run `helm template` instead of `install` or `upgrade`, without the options that it does not have."""
    monkeypatch.chdir(helm.CHART.parents[1])
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    words = shlex.split(re.sub(r"\$\([^)]*\)", "Y2VydA==", line))
    words = [word for word in words[2:] if word not in {"--install", "--create-namespace", "--reset-then-reuse-values"}]
    words = [str(tmp_path / word) if word in FILES else word for word in words]
    if "--reset-then-reuse-values" in line:  # the release has an image already
        words.append(f"--set=image.repository={helm.IMAGE['repository']}")
    objects = [each for each in yaml.safe_load_all(helm.run("template", *words)) if each]
    assert helm.of_kind(objects, "Deployment")


def test_every_block_of_values_is_used_by_a_command():
    assert {name for name in FILES if any(f"--values {name}" in line for line in HELM)} == set(FILES)


def test_the_objects_in_a_target_are_read_from_config_maps():
    carried = re.findall(r"get configmap (\S+)", "\n".join(COMMANDS))
    assert set(carried) == {"berthmaster-target-rbac", "berthmaster-kube-scheduler"}


@pytest.mark.parametrize(
    "value",
    sorted(set(re.findall(r"`((?:webhook|target|certificates|extender|controllers|monitoring|image)\.[\w.]+)", PAGE))),
)
def test_every_value_that_is_named_exists(value):
    known = yaml.safe_load((helm.CHART / "values.yaml").read_text())
    for key in value.split("."):
        known = known[key]


ADOPT_PAGE = whole_lines((helm.CHART.parents[1] / "docs" / "adopt.md").read_text())
STEPS = range(1, 8)


@pytest.mark.parametrize("number", STEPS)
def test_the_page_has_the_commands_of_the_doctor(number):
    section = re.split(r"^## ", ADOPT_PAGE, flags=re.MULTILINE)[number]
    assert section.startswith(f"{number}. ")
    for line in (*commands(number, Setup())[0], *commands(number, Setup())[1]):
        assert line in section


def options(lines):
    """Return what the upgrades among some commands set."""
    for line in lines:
        words = shlex.split(line)
        if words[:2] == ["helm", "upgrade"]:
            yield from words[words.index("--reset-then-reuse-values") + 1 :]


def rendered(given):
    helm.run("template", "berthmaster", str(helm.CHART), "--namespace=karmada-system", *given)


def test_the_chart_takes_each_step_after_the_others_and_back():
    given = []
    for number in STEPS:
        do, back = commands(number, Setup())
        given += options(do)
        if number >= 3:
            rendered(given)
            rendered([*given, *options(back)])
    assert len(given) > 20


ROTATE = command.commands["rotate"]
OPERATIONS_PAGE = "".join(
    (helm.CHART.parents[1] / "docs" / f"{name}.md").read_text() for name in ("operations", "monitoring", "failures")
)
VALUES = yaml.safe_load((helm.CHART / "values.yaml").read_text())


def alerts():
    [group] = helm.named(helm.render(CASES["monitoring"]), "PrometheusRule", "berthmaster-alerts")["spec"]["groups"]
    return [rule["alert"] for rule in group["rules"]]


def test_every_alert_has_a_row_that_says_what_it_means_and_what_to_do():
    rows = re.findall(r"^\| `(Berthmaster\w+)` \| (.+?) \| (.+?) \|$", OPERATIONS_PAGE, re.MULTILINE)
    assert sorted(name for name, _, _ in rows) == sorted(alerts())
    assert all(len(means) > 20 and len(remedy) > 8 for _, means, remedy in rows)


def test_thresholds_that_are_named_are_values():
    known = VALUES["monitoring"]["prometheusRule"]
    section = OPERATIONS_PAGE.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z][A-Za-z]+)`", section))
    assert named >= {"certificateDays", "webhookErrorRatio", "webhookSeconds", "pendingBindings"}
    assert {"certificateDays", "webhookErrorRatio", "webhookSeconds", "pendingBindings"} <= known.keys()


def test_the_options_for_certificates_are_those_of_the_pods():
    """The page's file and the environment that the chart renders agree."""
    given = yaml.safe_load(re.search(r"```yaml\n# certs.yaml\n(.*?)```", OPERATIONS_PAGE, re.DOTALL)[1])
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
    [row] = re.findall(rf"^\| `berthmaster {command}` \| .*? \| (\d+) \|", OPERATIONS_PAGE, re.MULTILINE)
    deployment = helm.named(helm.render(CASES["extender"]), "Deployment", f"berthmaster-{command}")
    ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert {each["name"]: each["containerPort"] for each in ports} == {"https": int(row), "probes": 9080}


@pytest.mark.parametrize("page", [PAGE, OPERATIONS_PAGE], ids=["install", "operations"])
def test_every_object_that_a_page_names_is_rendered(page):
    made = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in helm.render({})}
    named = set(re.findall(r"(?:job|deployment)/[\w-]+", page))
    assert named
    assert named <= made


def test_the_components_that_kubectl_selects_are_rendered():
    components = set(re.findall(r"app\.kubernetes\.io/component=(\w+)", OPERATIONS_PAGE))
    assert components
    assert components <= {
        each["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in helm.of_kind(helm.render({}), "Deployment")
    }


def test_error_messages_quote_names_of_registered_webhooks():
    named = set(re.findall(r'failed calling webhook "([\w.-]+)"', OPERATIONS_PAGE))
    registered = {hook["name"] for each in helm.registration(helm.render({})) for hook in each["webhooks"]}
    assert named
    assert named <= registered


SECURITY_PAGE = (helm.CHART.parents[1] / "docs" / "security-rights.md").read_text()
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
    section = SECURITY_PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
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


def test_commands_of_the_steps_are_not_broken_by_a_page():
    page = (helm.CHART.parents[1] / "docs" / "adopt.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > 100] == []
