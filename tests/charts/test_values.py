"""Values: each has a schema, a comment and an effect; invalid values are rejected with a message."""

import json
import re

import pytest
import yaml
from charts.values_table import readme, table
from tables import cases, data

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
