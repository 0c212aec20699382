"""What tests of placements mean: which expectations hold after which changes."""

import json
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner
from fleet_dump import DIVIDED, stored_policy
from tables import cases

from berthmaster_cli.main import main
from berthmaster_cli.placement_tests.files import known_changes

HEAD = "apiVersion: test.berthmaster.io/v1alpha1\nkind: PlacementTest\nmetadata: {name: another & more}\n"
EU_LOST = "fleet: fleet\nfailover: on\ngiven: [{down: {region: eu}}]\n"
BOTH_LOST = "fleet: fleet\nfailover: off\ngiven: [{down: {zone: eu-1a}}, {down: {cluster: eu-2}}]\n"
SCALED = "- scale: {resource: deploy/checkout, replicas: 2}\n"
NOTHING = "fleet: fleet\n"
CHECKOUT = "workload: default/Deployment/checkout"


def expecting(entry, given=NOTHING):
    return f"{given}expect:\n- {{{entry}}}\n"


@cases(
    "text",
    {
        "the present": expecting(f"{CHECKOUT}, group: main, clusters: [eu-1, eu-2], replicas: 6, moves: 0"),
        "a short name of a kind": expecting("workload: deploy/checkout, replicas: 6"),
        "a move to another group": expecting(f"{CHECKOUT}, group: backup, clusters: {{in: [us-1, us-2]}}", EU_LOST),
        "replicas within bounds": expecting(f"{CHECKOUT}, replicas: {{atLeast: 6, atMost: 6}}", EU_LOST),
        "no copy on a lost cluster": expecting(f"{CHECKOUT}, clusters: {{notIn: [eu-1]}}, nowhere: 0", EU_LOST),
        "a workload that runs nowhere afterwards": expecting("workload: deploy/web, nowhere: 1, replicas: 0", EU_LOST),
        "a workload that runs nowhere now": expecting("workload: deploy/stuck, nowhere: 1, clusters: []"),
        "the workloads of a policy": expecting("policy: default/checkout, nowhere: 0, short: 0, moves: 1", EU_LOST),
        "all workloads": expecting("nowhere: 2, moves: {atMost: 2}, overcommitted: []", EU_LOST),
        "a loss without failover": expecting(f"{CHECKOUT}, nowhere: 1, moves: 0", BOTH_LOST),
        "a change in the JSON of the API": expecting(
            f"{CHECKOUT}, replicas: 9", "fleet: fleet\ngiven: [{type: scale, resource: deploy/checkout, replicas: 9}]\n"
        ),
        "several changes": expecting(
            f"{CHECKOUT}, group: backup, replicas: 2",
            f"fleet: fleet\nfailover: on\ngiven:\n- down: {{region: eu}}\n{SCALED}",
        ),
    },
)
def test_an_expectation_holds(tested, text):
    result = tested(text)
    assert "1 test: 1 passed, 0 failed" in result.output
    assert result.exit_code == 0


@cases(
    ("text", "field", "found"),
    {
        "a group": (expecting(f"{CHECKOUT}, group: backup"), "group", "main"),
        "clusters": (expecting(f"{CHECKOUT}, clusters: {{in: [eu-1, us-1]}}"), "clusters", ["eu-1", "eu-2"]),
        "excluded clusters": (expecting(f"{CHECKOUT}, clusters: {{notIn: [eu-1]}}"), "clusters", ["eu-1", "eu-2"]),
        "too few replicas": (expecting(f"{CHECKOUT}, replicas: {{atLeast: 7}}"), "replicas", 6),
        "too many replicas": (expecting(f"{CHECKOUT}, replicas: {{atMost: 5}}"), "replicas", 6),
        "moves": (expecting("moves: 0", EU_LOST), "moves", 2),
        "a workload without a copy": (expecting("workload: deploy/web, nowhere: 0", EU_LOST), "nowhere", 1),
        "one that is nowhere in any case": (expecting("policy: default/stuck, nowhere: 0"), "nowhere", 1),
        "clusters of one that runs nowhere": (
            expecting("workload: deploy/stuck, clusters: {notIn: [us-1]}"), "clusters", []
        ),
        "the only clusters that are allowed, for one that runs nowhere": (
            expecting("workload: deploy/stuck, clusters: {in: [us-1]}"), "clusters", []
        ),
    },
)  # fmt: skip
def test_an_expectation_does_not_hold(tested, text, field, found):
    result = tested(text, "-o", "json")
    assert result.exit_code == 1
    (difference,) = json.loads(result.stdout)["tests"][0]["differences"]
    assert (difference["path"], difference["found"]) == (f"expect[0].{field}", found)


STOPS = (
    "NoFit: none of 4 clusters fits (ClusterAffinity 3, TaintToleration 1); its copies on eu-1 stop, and nothing takes "
    "their place"
)


def test_a_failed_test_is_a_diff(tested):
    result = tested(expecting("workload: deploy/web, clusters: [us-1], nowhere: 0", EU_LOST))
    shown = [each.strip() for each in result.output.splitlines()]
    assert shown == [
        "FAIL  a test  (tests.yaml:3)",
        "tests.yaml:8: expect[0]  default/Deployment/web",
        "- clusters: [us-1]",
        "+ clusters: []",
        "- nowhere: 0",
        "+ nowhere: 1",
        f"default/Deployment/web: {STOPS}",
        "1 test: 0 passed, 1 failed",
    ]


@pytest.fixture
def applied(tmp_path):
    changed = stored_policy("web", to=["us-1"], placement=DIVIDED, target={"name": "web"}, new=True)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "web.yaml").write_text(yaml.safe_dump(changed))


@pytest.mark.usefixtures("applied")
def test_manifests_are_applied(tested):
    given = "fleet: fleet\ngiven: [{apply: policies}]\n"
    result = tested(expecting("workload: deploy/web, clusters: [us-1], moves: 1", given), "-o", "json")
    assert result.exit_code == 0, result.output
    planned = CliRunner().invoke(main, ["plan", "--against", "fleet", "-f", "policies", "-o", "json"])
    assert json.loads(result.stdout)["tests"][0]["plan"] == json.loads(planned.stdout)["id"]


@pytest.mark.usefixtures("applied")
def test_manifests_and_changes_of_clusters_take_effect_together(tested):
    given = "fleet: fleet\nfailover: on\ngiven: [{down: {cluster: us-1}}, {apply: [policies/web.yaml]}]\n"
    result = tested(expecting("workload: deploy/web, nowhere: 1", given))
    assert result.exit_code == 0, result.output


def test_paths_are_relative_to_the_file(tested, tmp_path):
    (tmp_path / "tests").mkdir()
    result = tested(expecting("moves: 0", "fleet: ../fleet\n"), path="tests/a.yaml")
    assert result.exit_code == 0, result.output


def test_an_option_replaces_the_fleet(tested):
    result = tested(expecting("moves: 0", ""), "-f", "fleet")
    assert result.exit_code == 0, result.output


def test_a_folder_can_hold_tests_beside_their_fleet(tested, tmp_path):
    (tmp_path / "fleet" / "tests.yaml").write_text((tmp_path / "fleet" / "dump.json").read_text() and "")
    result = tested(expecting("moves: 0", "fleet: .\n"), path="fleet/tests.yaml")
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(main, ["test", "fleet"]).exit_code == 0
    assert CliRunner().invoke(main, ["simulate", "-f", "fleet"]).exit_code == 0


CHANGES = {
    "down": "down: {provider: own}",
    "up": "up: {cluster: eu-1}",
    "taint": "taint: {cluster: eu-1, taint: {key: gpu, value: 'no', effect: NoSchedule}}",
    "untaint": "untaint: {cluster: eu-2, key: gpu}",
    "label": "label: {cluster: eu-1, key: env, value: prod}",
    "unlabel": "unlabel: {cluster: eu-2, key: env}",
    "removeCluster": "removeCluster: {cluster: eu-1}",
    "addCluster": "addCluster: {cluster: {metadata: {name: eu-3}, spec: {region: eu}}}",
    "scale": "scale: {resource: deploy/web, replicas: 3}",
    "reschedule": "reschedule:",
    "apply": "apply: config.yaml",
}


PREPARED = """\
- taint: {cluster: eu-2, taint: {key: gpu, effect: NoSchedule}}
- label: {cluster: eu-2, key: env, value: a}
"""


@pytest.mark.parametrize("kind", known_changes())
def test_every_change_has_its_form(tested, kind):
    result = tested(f"fleet: fleet\ngiven:\n{PREPARED}- {CHANGES[kind]}\nexpect: [{{moves: {{atMost: 10}}}}]\n")
    assert result.exit_code == 0, result.output


def test_junit_has_a_case_for_each_test(tested):
    text = expecting("moves: 0") + "---\n" + HEAD + expecting(f"{CHECKOUT}, group: backup")
    result = tested(text, "-o", "junit")
    (suite,) = ElementTree.fromstring(result.stdout)  # noqa: S314 - our own output
    assert suite.attrib["failures"] == "1"
    passed, failed = suite
    assert (passed.attrib["name"], len(passed), failed.attrib["name"]) == ("a test", 0, "another & more")
    assert "expected backup, found main" in failed[0].attrib["message"]


def test_sarif_and_annotations_name_the_line(tested):
    text = expecting(f"{CHECKOUT}, group: backup")
    (run,) = json.loads(tested(text, "-o", "sarif").stdout)["runs"]
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 6
    annotation = tested(text, "-o", "github").stdout.splitlines()[0]
    assert annotation.startswith("::error file=tests.yaml,line=6,title=placement-test (a test)::expect[0].group")


@pytest.mark.usefixtures("tested")
def test_the_first_file_holds(tmp_path):
    def run(*words):
        return CliRunner().invoke(main, ["test", *words])

    generated = run("--generate", "first.yaml", "-f", "fleet", "--failover", "on")
    assert generated.exit_code == 0, generated.output
    assert "wrote 2 tests" in generated.output
    tests = [each for each in yaml.safe_load_all((tmp_path / "first.yaml").read_text()) if each]
    assert [each["given"] for each in tests] == [[{"down": {"cluster": "eu-1"}}], [{"down": {"cluster": "eu-2"}}]]
    assert {entry["workload"] for each in tests for entry in each["expect"]} == {"default/Deployment/checkout"}
    assert run("first.yaml").exit_code == 0
    again = run("--generate", "first.yaml", "-f", "fleet", "--failover", "on")
    assert "cannot be written: File exists" in str(again.exception)
    nothing = run("--generate", "second.yaml", "-f", "fleet")
    assert "no workload with several groups survives" in str(nothing.exception)


def test_a_fleet_of_kubeadmiral_is_refused(tested, tmp_path):
    cluster = "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {name: a}\n"
    (tmp_path / "other.yaml").write_text(cluster)
    result = tested(expecting("moves: 0", "fleet: other.yaml\n"))
    assert "answered for Karmada only" in result.output
    assert result.exit_code == 2


@cases(
    "text",
    {
        "a fleet": expecting("moves: 0", "fleet: ../fleet\n"),
        "an applied file": expecting("moves: 0", "fleet: fleet\ngiven: [{apply: ../fleet}]\n"),
        "a link": expecting("moves: 0", "fleet: link\n"),
    },
)
def test_files_outside_of_a_folder_are_refused(tested, tmp_path, text):
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "fleet").symlink_to("../fleet")
    (tmp_path / "checkout" / "link").symlink_to("../fleet/dump.json")
    result = tested(text, "--within", "checkout", path="checkout/tests.yaml")
    assert "is outside of checkout; keep the file in this folder" in result.output
    assert result.exit_code == 2
