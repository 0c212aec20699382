"""`berthmaster simulate`: changes, exit codes, errors."""

import contextlib
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from fleet_dump import members, stored_binding, stored_policy, stored_template
from tables import cases, data

from berthmaster_cli import main as entry
from berthmaster_cli.main import main

CLUSTERS = Path(__file__).resolve().parents[3] / "examples" / "karmada" / "clusters.yaml"
GROUPS = CLUSTERS.parent / "groups"

POLICY, DEPLOYMENT, BINDING, FAILING_GROUPS = data("simulated").values()


def invoke(*args: str, stdin: bytes | None = None):
    return CliRunner().invoke(main, args, input=stdin, prog_name="berthmaster")


@pytest.fixture
def simulate(tmp_path):
    """A function that simulates a placement of the Deployment `web` and returns the rows of the JSON output."""

    def call(placement: str, flags: str = "", *more: str):
        path = tmp_path / "web.yaml"
        path.write_text("---\n".join([placed(placement), DEPLOYMENT, *more]))
        result = invoke("simulate", "-f", str(CLUSTERS), "-f", str(path), "-o", "json", *shlex.split(flags))
        assert result.exit_code == 0, result.output + repr(result.exception)
        found = json.loads(result.stdout)
        return found["items"] if found["kind"] == "PlacementList" else found

    return call


@cases(
    ("flags", "message"),
    {
        "an unknown cluster": ("--down member7", "there is no cluster 'member7'"),
        "a taint without a key": ("--taint member1", "accepted is CLUSTER=KEY[=VALUE]:EFFECT"),
        "an unknown effect": ("--taint member1=a:Sometimes", "accepted is CLUSTER=KEY[=VALUE]:EFFECT"),
        "a label without a value": ("--label member1=env", "accepted is CLUSTER=KEY=VALUE"),
        "an invalid label value": ("--label member1=env=a/b", "accepted is CLUSTER=KEY=VALUE"),
        "a negative scale": ("--scale Deployment/nginx=-1", "N from 0 to 2147483647"),
        "a scale beyond int32": ("--scale Deployment/nginx=2147483648", "N from 0 to 2147483647"),
        "an unknown resource": ("--scale Deployment/ngin=1", "did you mean"),
        "a scale without a kind": ("--scale nginx=1", "accepted is KIND/NAME or NAMESPACE/KIND/NAME"),
        "an unknown plugin": ("--plugins Taints", "unknown plugin 'Taints'"),
        "an unknown gate": ("--feature-gates Failover=true", "--feature-gates"),
        "a replica path without a path": ("--replica-path Widget", "accepted is GROUP/VERSION/KIND=PATH"),
        "another user of files": ("--as jane", "only files are read; add --live"),
        "a group without a plane": ("--as-group admins", "--as and --as-group ask a control plane"),
        "lines and files together": ("--jsonl", "cannot be combined with -f and changes"),
    },
)
def test_bad_usage_is_reported_with_the_accepted_form(flags, message):
    result = invoke("simulate", "-f", str(CLUSTERS), "-f", str(GROUPS), *shlex.split(flags))
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)


def placed(text):
    return POLICY.replace("PLACEMENT", text)


@cases(
    ("text", "message"),
    {
        "malformed YAML": ("a: [1,\nb: }", "document 1: line 2"),
        "an unknown field of a policy": (placed("{clusterAfinity: {}}"), "spec.placement.clusterAfinity"),
        "a selector with a bad operator": (
            placed("{clusterAffinity: {labelSelector: {matchExpressions: [{key: a, operator: Has}]}}}"),
            "matchExpressions[0].operator: unknown operator 'Has'; accepted are In, NotIn, Exists, DoesNotExist",
        ),
        "an unknown spread field": (
            placed("{spreadConstraints: [{spreadByField: planet}]}"), "accepted are cluster, region, zone, provider",
        ),
        "a policy without a spec": (POLICY.partition("spec:")[0] + "spec: null", "spec: is missing or null"),
        "a negative quantity": (DEPLOYMENT.replace("500m", '"-1"'), "requests[cpu]: '-1' is negative"),
        "a duplicate cluster": (CLUSTERS.read_text(), "'member1' is already defined in"),
    },
)  # fmt: skip
def test_a_bad_manifest_is_one_line_with_file_document_and_path(tmp_path, monkeypatch, capsys, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    arguments = ["berthmaster", "simulate", "-f", str(CLUSTERS), "-f", str(path)]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        entry.run()
    captured = capsys.readouterr()
    assert ended.value.code == 2
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"berthmaster: {path}: document ")
    assert message in line


def test_a_list_of_known_clusters_says_how_many_more_there_are(on_objects):
    result = on_objects("simulate --down nowhere-near-these", *members(*(f"c{number:02}" for number in range(40))))
    assert str(result.exception).endswith("known are c00, c01, c02, c03, c04, c05, c06, c07 and 32 more")


def test_a_list_of_known_workloads_says_how_many_more_there_are(tmp_path):
    deployments = [DEPLOYMENT.replace("{name: web,", f"{{name: web{number},") for number in range(10)]
    (tmp_path / "all.yaml").write_text("---\n".join([CLUSTERS.read_text(), *deployments]))
    result = invoke("explain", "-f", str(tmp_path), "Deployment/zzz")
    assert str(result.exception).endswith("default/Deployment/web7 and 2 more")


def test_an_empty_list_of_groups_is_the_reason_that_is_reported(simulate, tmp_path):
    (web,) = simulate("{clusterAffinities: []}")
    assert web["message"] == "clusterAffinities is an empty list: Karmada reports success and places nothing"
    explained = invoke("explain", "-f", str(CLUSTERS), "-f", str(tmp_path / "web.yaml"), "Deployment/web")
    last = explained.stdout.splitlines()[-1]
    assert last == "not scheduled: clusterAffinities is an empty list: Karmada reports success and places nothing"


def test_an_explanation_ends_with_the_page_of_the_workload_in_the_console(simulate, tmp_path):
    simulate("{}")
    inputs = ("-f", str(CLUSTERS), "-f", str(tmp_path / "web.yaml"), "Deployment/web")
    explained = invoke("explain", *inputs, "--console-url", "https://console.example")
    assert explained.stdout.splitlines()[-1] == "console: https://console.example/workloads/default/web-deployment"
    assert "console" not in invoke("explain", *inputs).stdout


def test_the_note_has_the_failure_of_every_group(tmp_path):
    text = placed(FAILING_GROUPS) + "---\n" + DEPLOYMENT.replace("500m", '"1000"')
    (tmp_path / "web.yaml").write_text(text)
    inputs = ("-f", str(CLUSTERS), "-f", str(tmp_path))
    (web,) = json.loads(invoke("simulate", *inputs, "-o", "json").stdout)["items"]
    assert web["message"] == (
        "no group can place it: a: NoFit: none of 5 clusters fits (ClusterAffinity 5); "
        "b: Insufficient: 4 replicas must be assigned, but the selected cluster holds 0"
    )
    lines = invoke("explain", *inputs, "Deployment/web").stdout.splitlines()
    assert lines[-1] == "not scheduled: none of the 2 groups that were tried can place it"


def test_explain_says_which_group_the_assignment_comes_from(tmp_path):
    groups = FAILING_GROUPS.replace("affinityName: b, clusterNames: [member1]", "affinityName: second")
    (tmp_path / "web.yaml").write_text("---\n".join([placed(groups), DEPLOYMENT, BINDING]))
    lines = invoke("explain", "-f", str(CLUSTERS), "-f", str(tmp_path), "Deployment/web").stdout.splitlines()
    assert "the current assignment comes from group second; groups before it, not tried: a" in lines


def test_a_reader_that_closes_the_pipe_ends_the_command_with_0():
    script = Path(sys.executable).parent / "berthmaster"
    line = b'{"clusters":[],"bindings":[]}\n'
    with subprocess.Popen(  # noqa: S603 - the installed command
        [script, "simulate", "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline() == b'{"id":null,"results":[]}\n'
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(line)
            process.stdin.close()
        assert (process.wait(timeout=60), process.stderr.read()) == (0, b"")


def test_an_empty_fleet_is_reported(tmp_path, monkeypatch, capsys):
    path = tmp_path / "empty.yaml"
    path.write_text("")
    monkeypatch.setattr("sys.argv", ["berthmaster", "simulate", "-f", str(path)])
    with pytest.raises(SystemExit) as ended:
        entry.run()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"berthmaster: there is no object in {path}")


@cases(
    ("options", "code"),
    {
        "it runs nowhere, and nothing makes karmada-scheduler try again": ("--check", 1),
        "it waited without the change, too": ("--check=new --down=b", 0),
        "a rescheduling places it": ("--check --reschedule", 0),
    },
)
def test_check_counts_what_waits_for_somebody(on_objects, options, code):
    policy = stored_policy("p", to=["a"], schedulerName="default-scheduler")
    template = stored_template(held_by=policy)
    failed = {"type": "Scheduled", "status": "False", "reason": "NoClusterFit", "message": "0/2 clusters fit"}
    binding = stored_binding(template, {}, policy=policy) | {"status": {"conditions": [failed]}}
    on_objects(f"simulate {options}", *members("a", "b"), policy, template, binding, code=code)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_command(shell):
    assert "_BERTHMASTER_COMPLETE" in invoke("completion", shell).stdout
