import json

import pytest
from click.testing import CliRunner
from tables import DATA, cases

from berthmaster_cli.lint.command import command
from webhook.admission.catalog import ALL_RULES

NAMES = ("bad.yaml.txt", "questionable.yaml", "good.yaml")
BAD, QUESTIONABLE, GOOD = ((DATA / "lint" / each).read_text() for each in NAMES)
UNKNOWN = GOOD.replace("spec: {", "spec: {rackAwareness: Strict, ")


@pytest.fixture
def lint(tmp_path):
    def run(text, *arguments):
        (tmp_path / "p.yaml").write_text(text)
        return CliRunner().invoke(command, ["-f", str(tmp_path / "p.yaml"), *arguments])

    return run


@cases(
    ("text", "arguments", "code"),
    {
        "no findings": (GOOD, [], 0),
        "warnings": (QUESTIONABLE, [], 0),
        "warnings in strict mode": (QUESTIONABLE, ["--strict"], 1),
        "a rule that is off": (QUESTIONABLE, ["--strict", "--rule", "toleration-of-everything=off"], 0),
        "a rule that denies": (QUESTIONABLE, ["--rule", "toleration-of-everything=deny"], 1),
        "errors": (BAD, [], 1),
        "an unknown rule": (GOOD, ["--rule", "none=off"], 2),
        "an unknown field": (UNKNOWN, [], 1),
        "a field of a newer Karmada": (UNKNOWN, ["--rule", "unknown-field=warn"], 0),
        "a reserved namespace": (QUESTIONABLE.replace("ClusterP", "P"), ["--strict", "-n", "kube-x"], 1),
    },
)
def test_exit_codes(lint, text, arguments, code):
    assert lint(text, *arguments).exit_code == code


def test_text_has_file_line_level_path_and_rule(lint, tmp_path):
    lines = lint(BAD).output.splitlines()
    assert lines[0].startswith(f"{tmp_path}/p.yaml:9: error: spec.placment: unknown field; did you mean placement?")
    assert lines[1].startswith(f"{tmp_path}/p.yaml:7: error: spec.resourceSelectors[0].name: ")
    assert lines[1].endswith("[invalid]")
    assert lines[-1] == "1 object, 1 checked: 2 errors, 0 warnings"


def test_lines_count_in_the_whole_file(lint):
    [finding] = json.loads(lint(QUESTIONABLE, "-o", "json").output)["findings"]
    assert (finding["document"], finding["line"], finding["level"]) == (2, 13, "warning")
    assert finding["path"] == "spec.placement.clusterTolerations[0]"
    assert finding["object"] == "ClusterPropagationPolicy questionable"


def test_github_annotations_are_escaped(lint):
    output = lint(BAD.replace("name: bad", 'name: "a,b:c%"'), "-o", "github").output
    assert "title=invalid (PropagationPolicy a%2Cb%3Ac%25)::spec.resourceSelectors[0].name: " in output
    assert output.startswith("::error file=")


@cases(
    ("text", "path"),
    {
        "a value of the wrong type": (GOOD.replace("Duplicate", "[1]"), "spec.schedulingMode"),
        "a peer's check": (QUESTIONABLE.replace("Exists", "Gt"), "spec.placement.clusterTolerations[0].operator"),
    },
)
def test_errors_have_their_path(lint, text, path):
    findings = json.loads(lint(text, "-o", "json").output)["findings"]
    assert path in [each["path"] for each in findings if each["level"] == "error"]


def test_the_defaults_of_the_crd_are_applied(lint):
    text = QUESTIONABLE.replace("operator: Exists", "key: a")
    division = "    replicaScheduling:\n      replicaDivisionPreference: Weighted\n"
    assert lint(text + division, "--strict").exit_code == 0


def found(result):
    return [(each["level"], each["rule"], each["line"]) for each in json.loads(result.output)["findings"]]


@cases(
    ("text", "path", "message"),
    {
        "a version": ("policy.karmada.io/v1beta1 PropagationPolicy", "apiVersion", "policy.karmada.io/v1alpha1"),
        "a kind": ("policy.karmada.io/v1alpha1 PropagationPolicies", "kind", "did you mean PropagationPolicy?"),
        "a group": ("polcy.karmada.io/v1alpha1 PropagationPolicy", "apiVersion", "did you mean policy.karmada.io?"),
        "a kind of KubeAdmiral": ("core.kubeadmiral.io/v1alpha1 Cluster", "kind", "did you mean"),
        "a version of bindings": ("work.karmada.io/v2 ResourceBinding", "apiVersion", "work.karmada.io/v1alpha1"),
    },
)
def test_an_unknown_type_of_a_known_group_is_an_error(lint, text, path, message):
    api_version, kind = text.split()
    result = lint(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n", "-o", "json")
    (finding,) = json.loads(result.output)["findings"]
    assert (finding["level"], finding["rule"], finding["path"]) == ("error", "unknown-type", path)
    assert message in finding["message"]


@pytest.mark.parametrize(
    "text",
    [
        "operator.karmada.io/v1alpha1 Karmada", "work.karmada.io/v1alpha1 ResourceBinding", "apps/v1 Deployment",
        "argoproj.io/v1alpha1 Rollout",
    ],
)  # fmt: skip
def test_types_that_no_policy_needs_are_not_checked(lint, text):
    api_version, kind = text.split()
    result = lint(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n")
    assert result.output == "1 object, 0 checked: 0 errors, 0 warnings\n"


@cases(("metadata", "code"), {"a generated name": ("{generateName: web-}", 0), "no name": ("{namespace: shop}", 1)})
def test_an_object_needs_a_name_or_a_prefix_of_one(lint, metadata, code):
    result = lint(GOOD.replace("{name: good, namespace: shop}", metadata))
    assert result.exit_code == code, result.output


def test_standard_input_has_lines():
    result = CliRunner().invoke(command, ["-o", "json", "-"], input=QUESTIONABLE)
    assert found(result) == [("warning", "toleration-of-everything", 13)]


def test_paths_are_arguments_or_options(tmp_path):
    (tmp_path / "a.yaml").write_text(QUESTIONABLE)
    (tmp_path / "b.yaml").write_text(QUESTIONABLE.replace("questionable", "other"))
    result = CliRunner().invoke(command, [str(tmp_path / "a.yaml"), "-f", str(tmp_path / "b.yaml"), "-o", "json"])
    assert len(found(result)) == 2


def test_without_paths_the_usage_is_wrong():
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 2
    assert "nothing to check" in result.output


def test_rules_lists_every_rule_with_its_level():
    output = CliRunner().invoke(command, ["--rules", "-o", "json", "--rule", "lazy-change=off"]).output
    levels = {each["id"]: each["level"] for each in json.loads(output)["rules"]}
    assert levels["lazy-change"] == "off"
    assert levels["preemption-without-namespace"] == "error"
    assert levels["cluster-unknown"] == "warning"
    assert {each.id for each in ALL_RULES} <= levels.keys()
    assert len(CliRunner().invoke(command, ["--rules"]).output.splitlines()) == len(levels) + 1
