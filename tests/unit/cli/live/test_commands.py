"""Commands that read a control plane."""

import json
import stat
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from faults import nothing, only, refuse
from karmada_plane import (
    KARMADA_KINDS,
    binding,
    cluster,
    deployment,
    policy,
    resource,
    selector,
    serve_karmada,
    shop,
    store,
)
from kube_in_memory import KubeInMemory
from kube_over_http import KubeOverHTTP
from kube_store import Place
from tables import cases

from berthmaster.kube.requests import APIRequest
from berthmaster.kube.served_types import discover_types
from berthmaster.model.errors import BerthmasterError
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, ListingBars, ReadLimits
from berthmaster_cli.live.source import KUBEADMIRAL, LiveRead, resolved
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
    path.write_text(server.kubeconfig())
    return path


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


@cases("redact", {"complete": [], "redacted": ["--redact"]})
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
    server.api.before = only(refuse(403), part="deployments")
    try:
        live = run("simulate", "--kubeconfig", kubeconfig, "--dump", tmp_path / "dump", "-o", "json")
    finally:
        server.api.before = nothing
    offline = run("simulate", "-f", tmp_path / "dump", "-o", "json")
    assert "no right to list deployments.apps: their replicas and labels are taken" in live.stderr
    assert (live.stdout, live.stderr) == (offline.stdout, offline.stderr)


@cases(
    ("args", "message"),
    {
        "no access": (["simulate"], "or manifests with -f PATH"),
        "dump": (["simulate", "-f", "x", "--dump", "y"], "--dump writes what a control plane holds"),
        "redact": (["simulate", "--redact"], "--redact needs --dump"),
        "namespaces": (["simulate", "-n", "a", "-A"], "-n and -A cannot be combined"),
        "server": (["simulate", "--server", "http://x", "--live"], "--server cannot be combined"),
        "three words": (["explain", "a", "b", "c"], "is not one resource"),
        "a slash in the type": (["explain", "a/b", "c"], "is not one resource"),
        "no type": (["explain", "web"], "is not a resource name"),
        "two namespaces": (["explain", "a/b/c", "-n", "d"], "in another namespace than -n d"),
    },
)
def test_an_error_says_what_is_accepted(args, message):
    result = CliRunner().invoke(main, args, prog_name="berthmaster")
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)


VOLUMES = [{"name": "a", "configMap": {"name": "settings"}}, {"name": "b", "secret": {"secretName": "gone"}}]
OVERRIDE = resource("images", "OverridePolicy", "policy.karmada.io/v1alpha1", spec={"overrideRules": []})
CLASS = resource("high", "PriorityClass", "scheduling.k8s.io/v1", namespace="", value=5)


def to(name, **spec):
    placed = {"clusterAffinity": {"clusterNames": [name]}}
    return policy("web", selector(name="web"), placement=placed, propagateDeps=True, **spec)


@pytest.fixture
def server_of_existence():
    server = KubeOverHTTP()
    serve_karmada(server.api)
    server.api.served.add("policy.karmada.io/v1alpha1", "OverridePolicy", "overridepolicies")
    server.api.served.add("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
    web = to("member1")
    template = deployment("web", 2, by=web, volumes=VOLUMES)
    bound = binding(template, web, member1=2)
    bound["spec"]["propagateDeps"] = True
    settings = resource("settings", "ConfigMap", data={"key": "value"})
    leader = {"name": "web-deployment", "namespace": "shop", "clusters": [{"name": "member1", "replicas": 2}]}
    attached = {
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "settings-configmap", "namespace": "shop"},
        "spec": {
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "namespace": "shop"},
            "requiredBy": [leader],
        },
    }  # fmt: skip
    store(server.api, cluster("member1"), cluster("member2"), web, template, bound, settings, attached)
    yield server
    server.close()


@pytest.fixture
def run_of_existence(server_of_existence, tmp_path):
    (tmp_path / "kubeconfig").write_text(server_of_existence.kubeconfig())

    def run_of_existence(command, *words, over=()):
        line = [command, "--kubeconfig", str(tmp_path / "kubeconfig"), *words]
        for number, each in enumerate(over):
            path = tmp_path / f"{number}.json"
            path.write_text(json.dumps(each))
            line += ["-f", str(path)]
        result = CliRunner().invoke(main, line, prog_name="berthmaster")
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result

    return run_of_existence


def answer_of_existence(result):
    return json.loads(result.stdout)


def test_explain_looks_up_what_a_workload_needs(server_of_existence, run_of_existence):
    found = answer_of_existence(run_of_existence("explain", "deploy/web", "-o", "json"))
    assert (found["followedBy"], found["missing"]) == (["shop/ConfigMap/settings"], ["shop/Secret/gone"])
    assert (
        "needs, does not exist or may not be read: shop/Secret/gone" in run_of_existence("explain", "deploy/web").stdout
    )
    asked = [each for each in server_of_existence.api.requests if each.path.endswith("/configmaps/settings")]
    assert all("PartialObjectMetadata" in each.accept for each in asked)


@pytest.mark.parametrize(("command", "words"), [("simulate", []), ("explain", ["cm/settings"]), ("plan", [])])
def test_a_follower_moves_with_a_policy_of_a_file(run_of_existence, command, words):
    found = answer_of_existence(run_of_existence(command, *words, "-o", "json", over=[to("member2")]))
    rows = {"explain": [found], "plan": found["moves"] if command == "plan" else [], "simulate": found}[command]
    (settings,) = [each for each in rows if each["resource"] == "shop/ConfigMap/settings"]
    assert settings["after" if command == "plan" else "clusters"] == {"member2": 0}


PRIORITY = {"schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}}


@cases(("spec", "needed"), {"overrides": ({"dependentOverrides": ["images"]}, OVERRIDE), "class": (PRIORITY, CLASS)})
def test_what_a_policy_waits_for_is_looked_up(server_of_existence, run_of_existence, spec, needed):
    def answers():
        over = [to("member2", **spec)]
        planned = answer_of_existence(run_of_existence("plan", "-o", "json", over=over))
        rows = answer_of_existence(run_of_existence("simulate", "-o", "json", over=over))
        (web,) = [each for each in rows if each["resource"] == "shop/Deployment/web"]
        explained = answer_of_existence(run_of_existence("explain", "deploy/web", "-o", "json", over=over))
        assert web["clusters"] == explained["clusters"]
        return planned["complete"], bool(planned["moves"]), web["clusters"]

    assert answers() == (True, False, {"member1": 2})
    store(server_of_existence.api, needed)
    assert answers() == (True, True, {"member2": 2})


def test_without_the_right_to_look_the_answer_says_so(server_of_existence, run_of_existence):
    server_of_existence.api.before = only(refuse(403), part="overridepolicies")
    found = run_of_existence("plan", "-o", "json", over=[to("member2", dependentOverrides=["images"])])
    server_of_existence.api.before = nothing
    assert answer_of_existence(found)["complete"] is False
    assert any(
        "no right to get overridepolicies.policy.karmada.io in the namespace shop: policies that wait for such an "
        "object count as if it existed" in each
        for each in answer_of_existence(found)["gaps"]
    )


DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "live.md").read_text()


@pytest.fixture(scope="module")
def requested() -> set[tuple[str, str, str]]:
    """The group, resource and verb of each request for a simulation and for explanations."""
    api = KubeInMemory()
    shop(api)
    for kind in ("OverridePolicy", "ClusterOverridePolicy", "ClusterTaintPolicy"):
        plural = f"{kind.lower().removesuffix('y')}ies"
        api.served.add("policy.karmada.io/v1alpha1", kind, plural, namespaced=kind == "OverridePolicy")
    for namespace in ("shop", ""):
        waiting = policy("waiting", selector(name="web"), namespace=namespace, dependentOverrides=["images"])
        store(api, waiting)
    whole = LiveRead(CollectionReader(api, "karmada", ReadLimits(), ListingBars()), discover_types(api))
    whole.read_fleet()
    whole.read_waited_for()
    for text in ("deploy/web", "clusterrole/viewer", "cm/settings"):
        LiveRead(whole.reader, whole.types).read_workload(*resolved(whole.types, ResourceName.parse(text), "shop"))
    return {right(request) for request in api.requests if request.path not in ("/api", "/apis")}


def right(request: APIRequest) -> tuple[str, str, str]:
    place = Place.of(request.path)
    group = place.root.split("/")[2] if place.root.startswith("/apis/") else ""
    return group, place.plural, request.verb


def granted() -> set[tuple[str, str, str]]:
    role = yaml.safe_load((DOCS / "read-only.yaml").read_text())
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_every_request_is_granted(requested):
    assert requested <= granted()


def test_no_right_on_karmada_is_granted_that_is_not_used(requested):
    ours = {group for group, *_ in granted() if group.endswith("karmada.io")}
    assert {each for each in granted() if each[0] in ours} == {each for each in requested if each[0] in ours}
    assert len(ours) == len({kind[0] for kind in KARMADA_KINDS})


def test_the_page_names_the_kinds_of_kubeadmiral():
    section = PAGE.partition("For KubeAdmiral, grant")[2].partition("##")[0]
    plurals = {f"{kind.lower()}s".replace("policys", "policies") for _, kind in KUBEADMIRAL}
    assert {word.strip("`,") for word in section.split() if word.startswith("`")} >= plurals
