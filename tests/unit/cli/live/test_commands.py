"""`simulate` and `explain` on a live control plane over HTTP, dumps of it, and files laid over it."""

import json
import stat

import pytest
import yaml
from click.testing import CliRunner
from faults import nothing
from karmada_plane import deployment, policy, selector, shop
from kube_over_http import KubeOverHTTP

from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster_cli.main import main


@pytest.fixture(scope="module")
def server():
    server = KubeOverHTTP()
    shop(server.api)
    yield server
    server.close()


@pytest.fixture(scope="module")
def kubeconfig(server, tmp_path_factory):
    """A kubeconfig of the server, whose context has the namespace shop."""
    path = tmp_path_factory.mktemp("access") / "kubeconfig"
    path.write_text(kubeconfig_of(server))
    return path


def kubeconfig_of(server: KubeOverHTTP) -> str:
    host = server.url
    return yaml.safe_dump({
        "current-context": "karmada",
        "clusters": [{"name": "karmada", "cluster": {"server": host}}],
        "contexts": [{"name": "karmada", "context": {"cluster": "karmada", "user": "me", "namespace": "shop"}}],
        "users": [{"name": "me", "user": {}}],
    })  # fmt: skip


def run(*args: object, exit_code: int = 0):
    result = CliRunner().invoke(main, [str(each) for each in args], prog_name="berthmaster")
    if isinstance(result.exception, BerthmasterError) and exit_code == 2:
        return str(result.exception)
    assert result.exit_code == exit_code, result.output + repr(result.exception)
    return result


def answer(*args: object):
    return json.loads(run(*args, "-o", "json").stdout)


def by_name(rows):
    return {each["resource"]: each for each in rows}


def test_simulate_reads_the_control_plane_of_the_kubeconfig(kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    rows = by_name(answer("simulate"))
    assert rows.keys() == {
        "shop/Deployment/web",
        "shop/ConfigMap/settings",
        "shop/StatefulSet/postgres",
        "ClusterRole/viewer",
    }
    assert sum(rows["shop/Deployment/web"]["clusters"].values()) == 4


def test_simulate_shows_what_a_change_of_the_live_fleet_moves(kubeconfig):
    web = by_name(answer("simulate", "--kubeconfig", kubeconfig, "--failover=on", "--down", "member1"))[
        "shop/Deployment/web"
    ]
    assert web["moves"]["member1"] == [2, None]


def test_simulate_reads_one_namespace(kubeconfig):
    assert "ClusterRole/viewer" not in by_name(answer("simulate", "--kubeconfig", kubeconfig, "-n", "shop"))
    assert answer("simulate", "--kubeconfig", kubeconfig, "-n", "empty") == []


@pytest.mark.parametrize(
    "words",
    [["deploy/web"], ["deploy", "web"], ["deployments.apps/web", "-n", "shop"], ["shop/Deployment/web"]],
    ids=" ".join,
)
def test_explain_accepts_the_names_of_kubectl(kubeconfig, words):
    explained = answer("explain", "--kubeconfig", kubeconfig, *words)
    assert (explained["resource"], explained["policy"]) == ("shop/Deployment/web", "PropagationPolicy shop/web")


def test_files_replace_live_objects(kubeconfig, tmp_path):
    (tmp_path / "web.json").write_text(json.dumps(deployment("web", 9)))
    web = by_name(answer("simulate", "--live", "--kubeconfig", kubeconfig, "-f", tmp_path / "web.json"))
    assert sum(web["shop/Deployment/web"]["clusters"].values()) == 9


def test_a_policy_of_a_file_selects_live_resources(kubeconfig, tmp_path):
    wide = policy("wide", selector(), placement={"clusterAffinity": {"clusterNames": ["member3"]}})
    (tmp_path / "wide.json").write_text(json.dumps(wide))
    rows = by_name(answer("simulate", "--kubeconfig", kubeconfig, "-f", tmp_path / "wide.json"))
    assert rows["shop/Deployment/unclaimed"]["clusters"] == {"member3": 2}


def test_lint_checks_the_policies_of_a_control_plane(kubeconfig, tmp_path):
    wrong = policy("wrong", selector(), placement={"clusterAffinity": {"clusterNames": ["member9"]}})
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    report = json.loads(run("lint", tmp_path / "wrong.json", "--kubeconfig", kubeconfig, "-o", "json").stdout)
    assert report["summary"]["documents"] == 4
    assert any("member9" in each["message"] for each in report["findings"])


@pytest.mark.parametrize("redact", [[], ["--redact"]], ids=["complete", "redacted"])
def test_a_dump_gives_the_same_answers(kubeconfig, tmp_path, redact):
    fleet, one = tmp_path / "fleet.json", tmp_path / "one.yaml"
    change = ["--failover=on", "--down", "member1"]
    assert answer("simulate", "--kubeconfig", kubeconfig, "--dump", fleet, *redact, *change) == answer(
        "simulate", "-f", fleet, *change
    )
    live = answer("explain", "--kubeconfig", kubeconfig, "deploy/web", "--dump", one, *redact)
    assert live == answer("explain", "-f", one, "deploy/web")
    assert live == answer("explain", "-f", fleet, "deploy", "web", "-n", "shop")
    assert stat.S_IMODE(fleet.stat().st_mode) == 0o600
    record = json.loads(fleet.read_text())["items"][0]
    assert (record["kind"], record.get("redacted", False)) == ("FleetSnapshot", bool(redact))


def test_a_gap_is_reported_live_and_from_the_dump(server, kubeconfig, tmp_path):
    server.api.before = refuse_deployments
    try:
        live = run("simulate", "--kubeconfig", kubeconfig, "--dump", tmp_path / "dump", "-o", "json")
    finally:
        server.api.before = nothing
    offline = run("simulate", "-f", tmp_path / "dump", "-o", "json")
    assert "no right to list deployments.apps: their replicas and labels are taken" in live.stderr
    assert (live.stdout, live.stderr) == (offline.stdout, offline.stderr)


def refuse_deployments(request) -> None:
    if "deployments" in request.path:
        raise ApiError(403, "Forbidden", "no")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(["simulate"], "or manifests with -f PATH", id="no access"),
        pytest.param(["simulate", "-f", "x", "--dump", "y"], "--dump writes what a control plane holds", id="dump"),
        pytest.param(["simulate", "--redact"], "--redact needs --dump", id="redact"),
        pytest.param(["simulate", "-n", "a", "-A"], "-n and -A cannot be combined", id="namespaces"),
        pytest.param(["simulate", "--server", "http://x", "--live"], "--server cannot be combined", id="server"),
        pytest.param(["explain", "a", "b", "c"], "is not one resource", id="three words"),
        pytest.param(["explain", "a/b", "c"], "is not one resource", id="a slash in the type"),
        pytest.param(["explain", "web"], "is not a resource name", id="no type"),
        pytest.param(["explain", "a/b/c", "-n", "d"], "in another namespace than -n d", id="two namespaces"),
    ],
)
def test_an_error_says_what_is_accepted(args, message):
    result = CliRunner().invoke(main, args, prog_name="berthmaster")
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)
