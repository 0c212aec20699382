"""Values: each has a schema, a comment and an effect; invalid values are rejected with a message."""

import json
import re

import pytest
import yaml
from charts.cases import CASES
from charts.values_table import readme, table

from berthmaster.model.validation import LIMIT_NAMES, MAX_LIMIT
from berthmaster.version import __version__
from charts import helm

SCHEMA = json.loads((helm.CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((helm.CHART / "values.yaml").read_text())


def leaves(values, schema, path=""):
    """(path, default, schema) of every value that is not a group of others."""
    for key, value in values.items():
        here = f"{path}.{key}".lstrip(".")
        known = schema["properties"][key]
        if isinstance(value, dict) and value and "properties" in known:
            yield from leaves(value, known, here)
        else:
            yield here, value, known


def paths(schema, path=""):
    for key, known in schema.get("properties", {}).items():
        here = f"{path}.{key}".lstrip(".")
        yield here
        if "properties" in known:
            yield from paths(known, here)


def documented_paths():
    return {row.path for row in table((helm.CHART / "values.yaml").read_text(), SCHEMA)}


def test_every_value_has_a_comment():
    assert {path for path, *_ in leaves(DEFAULTS, SCHEMA)} == documented_paths()


def test_every_value_of_the_schema_has_a_default():
    beyond = {
        *(path for path in paths(SCHEMA) if re.fullmatch(r"controllers\.(?:shadow\.)?featureGates\..*", path)),
        *(f"placementLimits.{name}" for name in LIMIT_NAMES),
        *(path for path in paths(SCHEMA) if path.startswith("target.componentKubeconfigSecrets.") and path.count(".") == 3),
        *(path for path in paths(SCHEMA) if path.startswith("serviceAccounts.names.")),
        *(path for path in paths(SCHEMA) if path.startswith("controllers.moves.config.")),
        "pods.affinity.nodeAffinity", "pods.affinity.podAffinity",
    }  # fmt: skip
    groups = {path for path in paths(SCHEMA) if any(other.startswith(f"{path}.") for other in paths(SCHEMA))}
    assert set(paths(SCHEMA)) - groups - beyond <= documented_paths()


def test_the_limits_of_placements_are_those_of_the_option():
    limits = SCHEMA["properties"]["placementLimits"]["properties"]
    assert list(limits) == list(LIMIT_NAMES)
    assert {(each["minimum"], each["maximum"]) for each in limits.values()} == {(1, MAX_LIMIT)}


def test_the_schema_is_closed_at_every_level():
    def check(known, path):
        if known.get("type") == "object" and "properties" in known:
            assert known.get("additionalProperties") is False or path == ".global", (
                path
            )  # global has values of other charts
            for key, inner in known["properties"].items():
                check(inner, f"{path}.{key}")

    check(SCHEMA, "")


WITH_BINDINGS = {"extender": {"enabled": True, "watch": ["clusters", "bindings"], "auth": {"tokenSecretName": "t"}}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"webook": {}}, "webook", id="a misspelt group"),
        pytest.param({"placementLimits": {"group": 1}}, "placementLimits", id="an unknown limit of placements"),
        pytest.param({"placementLimits": {"groups": 0}}, r"placementLimits[./]groups", id="a limit of 0"),
        pytest.param({"webhook": {"replica": 2}}, "replica", id="a misspelt value"),
        pytest.param({"mode": "kubeadmiral"}, r"mode", id="an unknown mode"),
        pytest.param({"webhook": {"rules": {"group-repeated": False}}}, r"webhook[./]rules", id="a level that YAML made a boolean"),
        pytest.param({"webhook": {"replicas": 0}}, r"webhook[./]replicas", id="no replicas"),
        pytest.param({"webhook": {"timeoutSeconds": 31}}, r"webhook[./]timeoutSeconds", id="longer than API servers wait"),
        pytest.param({"webhook": {"timeoutSeconds": 2}}, "requestTimeoutSeconds must be less", id="a response that comes too late"),
        pytest.param({"webhook": {"reviews": {"karmada": False}}}, "no kind is reviewed", id="a webhook that reviews no kind"),
        pytest.param({"extender": {"enabled": True}}, "name a Secret with tokens", id="an extender without authentication"),
        pytest.param({"extender": {"watch": ["clusters", "nodes"]}}, r"extender[./]watch", id="two kinds of clusters"),
        pytest.param({"extender": {"watch": ["policies"]}}, r"extender[./]watch", id="policies and no clusters"),
        pytest.param(
            {"extender": {"watch": ["clusters", "workloads"]}}, r"extender[./]watch", id="workloads without bindings"
        ),
        pytest.param(
            {"extender": {"watch": ["federatedclusters", "bindings"]}}, r"extender[./]watch", id="bindings of KubeAdmiral"
        ),
        pytest.param({"certs": {"enabled": False}}, "source own needs certs.enabled", id="own certificates without the certificate controller"),
        pytest.param({"certificates": {"source": "secret"}}, "certificates.secret.webhook", id="provided certificates without a Secret name"),
        pytest.param(
            {"extender": {"enabled": True, "auth": {"tokenSecretName": "t"}, "kubeAdmiral": {"register": True}}},
            "sends no bearer token", id="tokens, which KubeAdmiral does not send",
        ),
        pytest.param(
            {"extender": {"enabled": True, "auth": {"clientCASecretName": "c"}, "kubeAdmiral": {"register": True}}},
            "certData and keyData", id="client certificates without one for KubeAdmiral",
        ),
        pytest.param({"console": {"enabled": True}}, "console.enabled needs extender.enabled", id="a console without an extender"),
        pytest.param({**WITH_BINDINGS, "console": {"enabled": True}}, "console.signIn: name a provider", id="a console without sign-in"),
        pytest.param(
            {**WITH_BINDINGS, "console": {"enabled": True, "signIn": {"oidc": {"issuerURL": "https://login.example.org"}}}},
            "issuerURL needs clientID and publicURL", id="a provider that does not know the console",
        ),
        pytest.param(
            {**WITH_BINDINGS, "console": {"enabled": True, "signIn": {"proxy": {"userHeader": "X-Forwarded-User"}}}},
            "anyone can send a header", id="a proxy that does not prove itself",
        ),
        pytest.param(
            {
                **WITH_BINDINGS,
                "console": {"enabled": True, "signIn": {"proxy": {"userHeader": "X-Forwarded-User", "clientNames": ["p"]}}},
            },
            "clientNames needs console.signIn.clientCASecretName", id="names of certificates without their CA",
        ),
        pytest.param(
            {
                "extender": {"enabled": True, "watch": ["clusters", "bindings"], "auth": {"clientCASecretName": "ca"}},
                "console": {"enabled": True, "signIn": {"tokenSecretName": "visitors"}},
            },
            "console.clientCertificateSecretName", id="a console without the client certificate that the extender requires",
        ),
        pytest.param({"controllers": {"leaderElection": {"enabled": False}}}, "set controllers.replicas to 1", id="two replicas without leader election"),
        pytest.param(
            {"ledger": {"secretName": "s"}, "controllers": {"replicas": 1, "ledger": {"enabled": True}}},
            "are two ledgers", id="a ledger on a volume and one in a database",
        ),
        pytest.param(
            {"controllers": {"replicas": 1, "shadow": {"enabled": True}, "ledger": {"enabled": True}}},
            "only compares decisions: remove controllers.ledger", id="a ledger of a process that decides nothing",
        ),
        pytest.param({"controllers": {"enable": ["preemption"]}}, "enables no controller", id="preemption without its gate"),
        pytest.param({"controllers": {"featureGates": {"NoSuchGate": True}}}, "NoSuchGate", id="an unknown feature gate"),
        pytest.param({"controllers": {"enable": ["rebalancer"]}}, r"controllers[./]enable[./]0", id="an unknown controller"),
        pytest.param({"image": {"repository": "berthmaster"}}, "no image of Berthmaster is published", id="the default image"),
        pytest.param({"commonLabels": {"app.kubernetes.io/name": "x"}}, r"commonLabels", id="a label of the chart"),
        pytest.param({"webhook": {"pods": {"nodeSelectors": {}}}}, r"nodeSelectors", id="a misspelt setting of a component's pods"),
        pytest.param({"image": {"digest": "latest"}}, r"image[./]digest", id="an invalid digest"),
        pytest.param({"prices": {"entries": [{"cpu": -1, "memory": 0}]}}, r"prices[./]entries[./]0[./]cpu", id="a price below 0"),
        pytest.param({"webhook": {"extraArgs": "--a"}}, r"webhook[./]extraArgs", id="a string instead of a list"),
    ],
)  # fmt: skip
def test_invalid_values_are_rejected_by_name(values, message):
    with pytest.raises(helm.RefusedError) as refused:
        helm.render(values)
    assert re.search(message, str(refused.value)), refused.value  # helm 3 and 4 word it differently


def test_values_cannot_become_yaml():
    """A value that looks like YAML or like another argument stays a string."""
    nasty = 'x"\n- --insecure: {{ .Release.Name }}'
    objects = helm.render({"webhook": {"dropHandlers": [nasty]}})
    [spec] = [template["spec"] for name, template in helm.pods(objects) if name == "Deployment/berthmaster-webhook"]
    assert f"--drop-handler={nasty}" in spec["containers"][0]["args"]


def test_every_value_of_the_cases_is_one_that_the_schema_accepts():
    assert all(helm.text(values) for values in CASES.values())


def test_the_charts_app_version_is_the_packages_version():
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_the_readme_table_matches_the_values(request):
    path = helm.CHART / "README.md"
    wanted = readme(path.read_text(), (helm.CHART / "values.yaml").read_text(), SCHEMA)
    if request.config.getoption("--update-golden"):
        path.write_text(wanted)
    assert wanted == path.read_text(), "values changed; update the table with make chart ARGS=--update-golden"
