"""Values: each has a schema, a comment and an effect; invalid values are rejected with a message."""

import json
import re

import pytest
import yaml
from charts.values_table import readme, table
from tables import cases, data

from berthmaster.model.placement_limits import LIMIT_NAMES, MAX_LIMIT
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
    optional = (
        r"controllers\.(?:shadow\.)?featureGates\..*|controllers\.moves\.config\..*|serviceAccounts\.names\..*|"
        r"target\.componentKubeconfigSecrets\.\w+\.\w+|pods\.affinity\.(?:node|pod)Affinity|"
        rf"placementLimits\.(?:{'|'.join(LIMIT_NAMES)})"
    )
    beyond = {path for path in paths(SCHEMA) if re.fullmatch(optional, path)}
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


@cases(("values", "message"), data("chart_tables")["invalid values"])
def test_invalid_values_are_rejected_by_name(values, message):
    with pytest.raises(helm.RefusedError) as refused:
        helm.render(values)
    assert re.search(message, str(refused.value)), refused.value  # helm 3 and 4 word it differently


LARGE = 10_000_000


def large(known):
    """Return the largest number that a value may have, at most LARGE; None if the value is no number."""
    name = known.get("$ref", "").rpartition("/")[2]
    if name in {"numberOrEmpty", "intOrPercent"}:
        return LARGE
    return int(min(known.get("maximum", LARGE), LARGE)) if known.get("type") in {"integer", "number"} else None


def with_large_numbers(values, schema):
    """Replace each number in the default values."""
    found = {}
    for key, value in values.items():
        known = schema["properties"][key]
        if isinstance(value, dict) and "properties" in known:
            inner = with_large_numbers(value, known)
            found |= {key: inner} if inner else {}
        elif (number := large(known)) is not None:
            found[key] = number
    return found


ONE_REPLICA = {"replicas": 1}
ALL_ON = {
    "mode": "single",
    "webhook": {"impact": {"enabled": True, "blastRadius": {"percent": 100}}, "rules": {"blast-radius": "warn"},
                "autoscaling": {"enabled": True}, "requestTimeoutSeconds": 0.5},
    "extender": {"enabled": True, "watch": ["clusters", "policies", "bindings", "workloads"],
                 "autoscaling": {"enabled": True}},
    "controllers": {"estimator": {"enabled": True}, **ONE_REPLICA, "ledger": {"enabled": True}},
    "console": {"enabled": True, "signIn": {"tokenSecretName": "t"}},
    "monitoring": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    "networkPolicy": {"apiServerPorts": [65535], "dnsPorts": [65535]},
}  # fmt: skip


def merged(first, second):
    found = dict(first)
    for key, value in second.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = merged(found[key], value) if both else value
    return found


def test_a_large_number_is_written_in_digits():
    """YAML numbers are floats in a template, which prints large ones as 1e+06. Commands and the API refuse that."""
    values = merged(with_large_numbers(DEFAULTS, SCHEMA), ALL_ON)
    values["placementLimits"] = dict.fromkeys(LIMIT_NAMES, 10_000_000)
    text = helm.text(values)
    assert not re.search(r"\d[eE]\+\d", text), re.findall(r".*\d[eE]\+\d.*", text)
    for each in ("moved=10000000", "lost=10000000", "deleted=10000000", "groups=10000000"):
        assert each in text


@pytest.mark.parametrize("release", ["team.fleet", "berthmaster.eu.west", "0." + "a" * 49 + ".b"])
def test_names_of_releases_may_have_dots(release):
    """A Service, unlike a release, cannot have one in its name."""
    for each in helm.render({}, release=release):
        name = each["metadata"]["name"]
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name.removeprefix(f"{helm.NAMESPACE}-")), name


def test_values_cannot_become_yaml():
    """A value that looks like YAML or like another argument stays a string."""
    nasty = 'x"\n- --insecure: {{ .Release.Name }}'
    objects = helm.render({"webhook": {"dropHandlers": [nasty]}})
    [spec] = [template["spec"] for name, template in helm.pods(objects) if name == "Deployment/berthmaster-webhook"]
    assert f"--drop-handler={nasty}" in spec["containers"][0]["args"]


def test_the_charts_app_version_is_the_packages_version():
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_the_readme_table_matches_the_values(request):
    path = helm.CHART / "README.md"
    wanted = readme(path.read_text(), (helm.CHART / "values.yaml").read_text(), SCHEMA)
    if request.config.getoption("--update-golden"):
        path.write_text(wanted)
    assert wanted == path.read_text(), "values changed; update the table with make chart ARGS=--update-golden"
