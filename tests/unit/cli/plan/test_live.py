"""``berthmaster plan`` on a live control plane over HTTP: what it reads, and what it may not read."""

import json

import pytest
from click.testing import CliRunner
from faults import nothing, only, refuse
from karmada_plane import policy, selector, shop
from kube_over_http import KubeOverHTTP

from berthmaster_cli.main import completions, main

WEB = policy(
    "web", selector(name="web"), selector("ConfigMap", "v1", name="settings"),
    placement={"clusterAffinity": {"clusterNames": ["member3"]}},
)  # fmt: skip


@pytest.fixture(scope="module")
def server():
    server = KubeOverHTTP()
    shop(server.api)
    yield server
    server.close()


@pytest.fixture
def run(server, tmp_path):
    access, changed = tmp_path / "kubeconfig", tmp_path / "changed.json"
    access.write_text(server.kubeconfig())

    def run(*words, objects=(WEB,)):
        changed.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects)}))
        return CliRunner().invoke(main, ["plan", "-f", str(changed), "--kubeconfig", str(access), *words])

    yield run
    server.api.before = nothing


def test_a_plan_reads_the_control_plane(run):
    result = run("-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    (move,) = [each for each in found["moves"] if each["resource"] == "shop/Deployment/web"]
    assert (move["before"], move["deleted"], found["complete"]) == (
        {"member1": 2, "member2": 2}, ["member1", "member2"], True
    )  # fmt: skip


def test_a_new_policy_reads_the_kinds_that_it_selects(run):
    new = policy("new", selector(name="unclaimed"))
    found = json.loads(run("-o", "json", objects=[new]).stdout)
    assert [each["resource"] for each in found["policies"][0]["gains"]] == ["shop/Deployment/unclaimed"]


def test_a_missing_right_makes_the_plan_incomplete(server, run):
    server.api.before = only(refuse(403, "Forbidden"), part="/deployments")
    result = run("--detailed-exitcode")
    assert "This plan is incomplete: more can move than it shows." in result.stdout
    assert "not known: no right to list deployments.apps" in result.stdout
    assert run("--fail-on", "overcommit").exit_code == 1
    assert run("--check", "0123456789abcdef").exit_code == 1


def test_a_kind_that_is_not_served_has_nothing_that_moves(run):
    new = policy("new", selector("Gadget", "example.org/v1"))
    result = run("--detailed-exitcode", objects=[new])
    assert (result.exit_code, "Gadget of example.org/v1 is not served" in result.stderr) == (0, True), result.output


def test_a_server_that_fails_is_an_error(server, run):
    server.api.before = only(refuse(500, "InternalError"), part="/clusters")
    assert run("--detailed-exitcode").exit_code == 1


def test_the_plugin_of_kubectl_completes_its_options():
    assert "--detailed-exitcode\tExit with 2 if something moves." in completions(["plan"], "--det")
    assert any(line.startswith("plan\t") for line in completions([], "pl"))
