"""``berthmaster plan``: formats, what is compared, limits and exit codes."""

import json
import shlex

import pytest
import yaml
from builders import deployment
from click.testing import CliRunner
from fleet_dump import RECORD, members, stored_binding, stored_template
from planned_fleet import change, fleet, named, to
from tables import cases

from berthmaster_cli.main import main


@pytest.fixture
def written(tmp_path):
    def write(name, objects):
        path = tmp_path / name
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
        return path

    return write


@pytest.fixture
def run(written):
    """Run a plan of objects against a dump."""

    def run(line="", changed=None, stored=None, gaps=(), *, is_dump=True):
        record = [{**RECORD, "gaps": list(gaps)}] if is_dump else []
        dump = written("fleet.json", [*record, *(fleet() if stored is None else stored)])
        words = ["plan", "--preemption=on", "--against", str(dump)]
        if changed != []:
            words += ["-f", str(written("change.json", change() if changed is None else changed))]
        return CliRunner().invoke(main, [*words, *shlex.split(line)])

    return run


def planned(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("output", ["table", "markdown", "html"])
def test_the_output_of_a_plan(run, golden, output):
    result = run(f"-o {output}")
    assert result.exit_code == 0, result.output
    golden(f"plan.{output}", "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines()))


def test_yaml_and_json_are_the_same(run):
    assert yaml.safe_load(run("-o yaml").stdout) == planned(run("-o json"))


def test_a_plan_in_json(run):
    found = planned(run("-o json"))
    assert {each["resource"].rpartition("/")[2]: each["after"] for each in found["moves"]} == {
        "web": {"b": 4}, "api": {"c": 3}, "stuck": {}, "batch": {"d": 70}, "free": {"d": 2},
    }  # fmt: skip
    assert found["summary"]["newFailures"] == ["default/Deployment/stuck"]
    assert found["overrides"] == ["OverridePolicy default/images"]


def test_what_changed_files_keep_of_stored_objects(run):
    stored = fleet()
    for each in stored:
        if each["kind"] in {"PropagationPolicy", "ResourceBinding"}:
            each["spec"]["schedulerName"] = "berthmaster"
    assert planned(run("-o json", [to("web", "a")], stored))["moves"] == []


@cases(
    ("line", "resource", "after"),
    {
        "a policy by its short name": ("--delete pp/web", None, None),
        "a policy with its namespace": ("--delete default/PropagationPolicy/web", None, None),
        "a cluster": ("--delete cluster/a", "default/Deployment/api", {}),
        "a workload": ("--delete deploy/web", "default/Deployment/web", {}),
    },
)
def test_deletions(run, line, resource, after):
    found = planned(run(f"{line} -o json", []))
    assert {each["resource"]: each["after"] for each in found["moves"]}.get(resource) == after
    if resource is None:
        assert found["policies"][0]["unclaimed"] == [
            {"resource": "default/Deployment/web", "before": "PropagationPolicy default/web", "after": None}
        ]


def test_prune_deletes_what_the_files_do_not_have(run):
    stored = fleet()
    for each in stored:
        if each["kind"] == "PropagationPolicy" and each["metadata"]["name"] in {"web", "api"}:
            each["metadata"]["labels"]["app"] = "shop"
    found = planned(run("--prune -l app=shop -o json", [to("web", "a")], stored))
    assert [(each["policy"], each["action"]) for each in found["policies"]] == [
        ("PropagationPolicy default/web", "unchanged"),
        ("PropagationPolicy default/api", "deleted"),
    ]


def test_a_changed_workload_is_planned(run):
    raised = deployment("web", replicas=9, requests={"cpu": "100m"})
    (move,) = planned(run("-o json", [raised]))["moves"]
    assert (move["before"], move["after"], move["trigger"]) == ({"a": 4}, {"a": 9}, "Scale")


def test_a_changed_cluster_is_planned(run):
    tainted = {**members("a")[0], "spec": {"taints": [{"key": "bad", "effect": "NoExecute"}]}}
    tainted.pop("status")
    found = planned(run("-o json --failover=on", [tainted]))
    assert {each["resource"].rpartition("/")[2]: each["evicting"] for each in found["moves"]} == {
        "web": ["a"], "api": ["a"]
    }  # fmt: skip


def test_files_without_bindings_are_scheduled_first(run):
    stored = [each for each in fleet() if each["kind"] != "ResourceBinding"]
    result = run("-o json", [to("web", "b")], stored, is_dump=False)
    (move,) = planned(result)["moves"]
    assert (move["before"], move["after"]) == ({"a": 4}, {"b": 4})
    assert "the plan starts from a first scheduling of the manifests" in result.stderr


GAPS = [{"kind": "MoreInvalidObjects", "facts": {"number": "2"}}]
NOTHING = [to("web", "a")]


@pytest.mark.parametrize(
    ("line", "changed", "gaps", "code", "message"),
    [
        pytest.param("", None, (), 0, "", id="a plan is a success"),
        pytest.param("--detailed-exitcode", None, (), 2, "", id="something moves"),
        pytest.param("--detailed-exitcode", NOTHING, (), 0, "", id="nothing moves"),
        pytest.param(
            "--detailed-exitcode", NOTHING, GAPS, 1, "it is not known whether anything moves",
            id="an incomplete plan does not say that nothing moves",
        ),
        pytest.param("--detailed-exitcode", None, GAPS, 2, "", id="an incomplete plan knows that something moves"),
        pytest.param("--fail-on lost", None, (), 3, "1 workload would have no place", id="a workload is lost"),
        pytest.param("--fail-on lost", NOTHING, (), 0, "", id="no workload is lost"),
        pytest.param("--fail-on lost", NOTHING, GAPS, 1, "whether it keeps the limits", id="it is not known"),
        pytest.param("--fail-on lost", None, GAPS, 3, "1 workload would have no place", id="known in any case"),
        pytest.param("--fail-on moved", None, (), 3, "5 workloads would move", id="workloads move"),
        pytest.param("--fail-on overcommit", None, (), 0, "", id="no cluster is overcommitted"),
        pytest.param("--max-moves 5", None, (), 0, "", id="five workloads may move"),
        pytest.param("--max-moves 4", None, (), 3, "--max-moves 4: 5 workloads would move", id="four may move"),
        pytest.param("--max-percent 99", None, (), 3, "100 % of the workloads would move", id="too large a part"),
        pytest.param("--expect 0123456789abcdef", None, (), 3, "and not 0123456789abcdef", id="another plan"),
        pytest.param("--check 0123456789abcdef", None, (), 3, "--check is the old name of --expect", id="its old name"),
        pytest.param("--expect 0123456789abcdef", None, GAPS, 1, "cannot compare its id", id="no comparison"),
        pytest.param("--max-moves many", None, (), 1, "is not a valid integer range", id="bad usage"),
        pytest.param("--delete pp/wep", None, (), 1, "there is no such PropagationPolicy; did you mean web?",
                     id="an unknown policy"),
        pytest.param("--delete pp/web", None, (), 1, "a file of -f would apply it", id="applied and deleted"),
        pytest.param("--prune", None, (), 1, "--prune and -l go together", id="prune without a selector"),
    ],
)  # fmt: skip
def test_exit_codes(run, line, changed, gaps, code, message):
    result = run(line, changed, gaps=gaps)
    assert (result.exit_code, message in result.stderr) == (code, True), result.output


def test_the_id_of_the_same_plan_is_accepted(run):
    identity = planned(run("-o json"))["id"]
    assert run(f"--expect {identity}").exit_code == 0


def test_nothing_to_plan_is_an_error(run):
    result = run(changed=[])
    assert (result.exit_code, "name the objects that would be applied" in result.stderr) == (1, True)


@cases(
    ("raw", "message"),
    {
        "a binding": (stored_binding(stored_template(), {"a": 1}),
            "ResourceBinding cannot be planned: Karmada writes it: change the policy or the workload"),
        "a dump": (RECORD, "FleetSnapshot cannot be planned: name a dump with --against"),
        "a misspelled field": ({**to("web", "a"), "spec": {**to("web", "a")["spec"], "placment": {}}},
            "spec.placment: unknown field; did you mean placement?"),
    },
)  # fmt: skip
def test_an_object_that_cannot_be_planned(run, raw, message):
    result = run("", [raw])
    assert (result.exit_code, message in result.stderr) == (1, True), result.output


def test_an_incomplete_plan_says_so_first(run):
    lines = run("", gaps=GAPS).stdout.splitlines()
    assert lines[2:4] == [
        "This plan is incomplete: more can move than it shows.",
        "not known: and 2 more objects are left out",
    ]
    assert "nothing is known to move" in run("", NOTHING, gaps=GAPS).stdout


def test_names_never_break_in_pipes(run):
    long = "a-very-long-name-" * 10
    changed = [to("free", "d", new=True, **named(long))]
    stored = [*members("d"), stored_template(deployment(long, replicas=1))]
    assert f"default/Deployment/{long}" in run("", changed, stored).stdout.replace("\n", " ").split()


def test_a_plan_says_what_its_moves_cost_and_keeps_its_id(run):
    stored = fleet()
    for each in stored:
        if each["kind"] == "Cluster":
            each["metadata"]["annotations"] = {"policy.berthmaster.io/price": "cpu=0.5,memory=0"}
    found, plain = planned(run("-o json", None, stored)), planned(run("-o json"))
    assert (found["id"], found["moves"]) == (plain["id"], plain["moves"])
    assert plain["summary"]["cost"] is None
    cost = found["summary"]["cost"]
    assert cost["unpriced"] == 0
    word = "saves" if cost["monthly"] < 0 else "costs"
    assert f"; {word} {abs(cost['monthly']):,.2f} " in run("", None, stored).stdout
