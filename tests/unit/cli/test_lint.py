import json

import pytest
from click.testing import CliRunner

from berthmaster_cli.lint import command

BAD = """\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: bad}
spec:
  preemption: Always
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
  placment: {}
"""
QUESTIONABLE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: questionable}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment}
  placement:
    clusterTolerations:
    - operator: Exists
"""
GOOD = """\
apiVersion: core.kubeadmiral.io/v1alpha1
kind: PropagationPolicy
metadata: {name: good, namespace: shop}
spec: {schedulingMode: Duplicate}
"""


@pytest.fixture
def lint(tmp_path):
    def run(text, *arguments):
        (tmp_path / "p.yaml").write_text(text)
        return CliRunner().invoke(command, ["-f", str(tmp_path / "p.yaml"), *arguments])

    return run


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        pytest.param(GOOD, [], 0, id="no findings"),
        pytest.param(QUESTIONABLE, [], 0, id="warnings"),
        pytest.param(QUESTIONABLE, ["--strict"], 1, id="warnings in strict mode"),
        pytest.param(QUESTIONABLE, ["--strict", "--rule", "toleration-of-everything=off"], 0, id="a rule that is off"),
        pytest.param(QUESTIONABLE, ["--rule", "toleration-of-everything=deny"], 1, id="a rule that denies"),
        pytest.param(BAD, [], 1, id="errors"),
        pytest.param(GOOD, ["--rule", "none=off"], 2, id="an unknown rule"),
        pytest.param(QUESTIONABLE.replace("ClusterP", "P"), ["--strict", "-n", "kube-x"], 1, id="a reserved namespace"),
    ],
)
def test_exit_codes(lint, text, arguments, code):
    assert lint(text, *arguments).exit_code == code


def test_text_has_file_line_level_path_and_rule(lint, tmp_path):
    lines = lint(BAD).output.splitlines()
    assert lines[0].startswith(f"{tmp_path}/p.yaml:7: error: spec.resourceSelectors[0].name: ")
    assert lines[0].endswith("[invalid]")
    assert lines[1].startswith(f"{tmp_path}/p.yaml:9: warning: spec.placment: unknown field; did you mean placement?")
    assert lines[-1] == "1 document: 1 error, 1 warning"


def test_lines_count_in_the_whole_file(lint):
    [finding] = json.loads(lint(QUESTIONABLE, "-o", "json").output)["findings"]
    assert (finding["document"], finding["line"], finding["level"]) == (2, 13, "warning")
    assert finding["path"] == "spec.placement.clusterTolerations[0]"
    assert finding["object"] == "ClusterPropagationPolicy questionable"


def test_sarif_names_rules_and_places(lint):
    [run] = json.loads(lint(BAD, "-o", "sarif").output)["runs"]
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["invalid", "unknown-field"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 7


def test_github_annotations_are_escaped(lint):
    output = lint(BAD.replace("name: bad", 'name: "a,b:c%"'), "-o", "github").output
    assert "title=invalid (PropagationPolicy a%2Cb%3Ac%25)::spec.resourceSelectors[0].name: " in output
    assert output.startswith("::error file=")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param(GOOD.replace("Duplicate", "[1]"), "spec.schedulingMode", id="a value of the wrong type"),
        pytest.param(
            QUESTIONABLE.replace("Exists", "Gt"), "spec.placement.clusterTolerations[0].operator", id="a peer's check"
        ),
    ],
)
def test_errors_have_their_path(lint, text, path):
    findings = json.loads(lint(text, "-o", "json").output)["findings"]
    assert path in [each["path"] for each in findings if each["level"] == "error"]


def test_the_defaults_of_the_crd_are_applied(lint):
    text = QUESTIONABLE.replace("operator: Exists", "key: a")
    division = "    replicaScheduling:\n      replicaDivisionPreference: Weighted\n"
    assert lint(text + division, "--strict").exit_code == 0
