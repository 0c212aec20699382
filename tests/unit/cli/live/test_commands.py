"""Commands that read a control plane."""

import json
import stat
from itertools import product
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
from tables import cases, data

from berthmaster.kube.requests import APIRequest
from berthmaster.kube.served_types import discover_types
from berthmaster.model.control_planes import KUBEADMIRAL
from berthmaster.model.errors import BerthmasterError
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, ListingBars, ReadLimits
from berthmaster_cli.live.source import LiveRead, resolved
from berthmaster_cli.main import main


@pytest.fixture(scope="module")
def server():
    server = KubeOverHTTP()
    shop(server.api)
    yield server
    server.close()


@pytest.fixture
def kubeconfig(server, tmp_path):
    """A kubeconfig of the server, whose context has the namespace shop."""
    (tmp_path / "kubeconfig").write_text(server.kubeconfig())
    yield tmp_path / "kubeconfig"
    server.api.before = nothing


def written(folder, *objects):
    """Return the option that names a file with objects."""
    path = folder / "objects.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    return f"--filename={path}"


def run(*args: object, exit_code: int = 0):
    result = CliRunner().invoke(main, [str(each) for each in args], prog_name="berthmaster")
    if isinstance(result.exception, BerthmasterError) and exit_code == 2:
        return str(result.exception)
    assert result.exit_code == exit_code, result.output + repr(result.exception)
    return result


def answer(*args: object):
    found = json.loads(run(*args, "-o", "json").stdout)
    return found.get("items", found)


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
    found = answer("simulate", "--kubeconfig", kubeconfig, "--failover=on", "--down", "member1")
    assert by_name(found["moves"])["shop/Deployment/web"]["moves"]["member1"] == [2, None]


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
    files = written(tmp_path, deployment("web", 9))
    web = by_name(answer("simulate", "--live", "--kubeconfig", kubeconfig, files))
    assert sum(web["shop/Deployment/web"]["clusters"].values()) == 9


def test_a_policy_of_a_file_selects_live_resources(kubeconfig, tmp_path):
    wide = policy("wide", selector(), placement={"clusterAffinity": {"clusterNames": ["member3"]}})
    rows = by_name(answer("simulate", "--kubeconfig", kubeconfig, written(tmp_path, wide)))
    assert rows["shop/Deployment/unclaimed"]["clusters"] == {"member3": 2}


def test_lint_checks_the_policies_of_a_control_plane(kubeconfig, tmp_path):
    wrong = policy("wrong", selector(), placement={"clusterAffinity": {"clusterNames": ["member9"]}})
    report = answer("lint", written(tmp_path, wrong), "--kubeconfig", kubeconfig)
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
    live = run("simulate", "--kubeconfig", kubeconfig, "--dump", tmp_path / "dump", "-o", "json")
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
def needing():
    """A server with a workload that another one follows, and that needs a third."""
    server = KubeOverHTTP()
    serve_karmada(server.api)
    server.api.served.add("policy.karmada.io/v1alpha1", "OverridePolicy", "overridepolicies")
    server.api.served.add("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
    web = to("member1")
    template = deployment("web", 2, by=web, volumes=VOLUMES)
    bound = binding(template, web, member1=2)
    bound["spec"]["propagateDeps"] = True
    settings = resource("settings", "ConfigMap", data={"key": "value"})
    objects = (cluster("member1"), cluster("member2"), web, template, bound, settings, data("attached_binding"))
    store(server.api, *objects)
    yield server
    server.close()


@pytest.fixture
def ask(needing, tmp_path):
    (tmp_path / "needing").write_text(needing.kubeconfig())

    def ask(*words, over=()):
        files = [written(tmp_path, *over)] if over else []
        return answer(words[0], "--kubeconfig", tmp_path / "needing", *words[1:], *files)

    return ask


def test_explain_looks_up_what_a_workload_needs(needing, ask, tmp_path):
    found = ask("explain", "deploy/web")
    assert (found["followedBy"], found["missing"]) == (["shop/ConfigMap/settings"], ["shop/Secret/gone"])
    text = run("explain", "--kubeconfig", tmp_path / "needing", "deploy/web").stdout
    assert "needs, does not exist or may not be read: shop/Secret/gone" in text
    asked = [each for each in needing.api.requests if each.path.endswith("/configmaps/settings")]
    assert all("PartialObjectMetadata" in each.accept for each in asked)


@pytest.mark.parametrize(("command", "words"), [("simulate", []), ("explain", ["cm/settings"]), ("plan", [])])
def test_a_follower_moves_with_a_policy_of_a_file(ask, command, words):
    found = ask(command, *words, over=[to("member2")])
    rows = {"explain": [found], "plan": found["moves"] if command == "plan" else [], "simulate": found}[command]
    (settings,) = [each for each in rows if each["resource"] == "shop/ConfigMap/settings"]
    assert settings["after" if command == "plan" else "clusters"] == {"member2": 0}


PRIORITY = {"schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}}


@cases(("spec", "needed"), {"overrides": ({"dependentOverrides": ["images"]}, OVERRIDE), "class": (PRIORITY, CLASS)})
def test_what_a_policy_waits_for_is_looked_up(needing, ask, spec, needed):
    def answers():
        over = [to("member2", **spec)]
        planned, web = ask("plan", over=over), by_name(ask("simulate", over=over))["shop/Deployment/web"]
        assert web["clusters"] == ask("explain", "deploy/web", over=over)["clusters"]
        return planned["complete"], bool(planned["moves"]), web["clusters"]

    assert answers() == (True, False, {"member1": 2})
    store(needing.api, needed)
    assert answers() == (True, True, {"member2": 2})


def test_without_the_right_to_look_the_answer_says_so(needing, ask):
    needing.api.before = only(refuse(403), part="overridepolicies")
    found = ask("plan", over=[to("member2", dependentOverrides=["images"])])
    assert found["complete"] is False
    assert any(
        "no right to get overridepolicies.policy.karmada.io in the namespace shop: policies that wait for such an "
        "object count as if it existed" in each
        for each in found["gaps"]
    )


WEB = policy(
    "web", selector(name="web"), selector("ConfigMap", "v1", name="settings"),
    placement={"clusterAffinity": {"clusterNames": ["member3"]}},
)  # fmt: skip


@pytest.fixture
def plan(kubeconfig, tmp_path):
    def plan(*words, changed=WEB):
        return CliRunner().invoke(main, ["plan", written(tmp_path, changed), "--kubeconfig", str(kubeconfig), *words])

    return plan


def test_a_plan_reads_the_control_plane(plan):
    found = json.loads(plan("-o", "json").stdout)
    (move,) = [each for each in found["moves"] if each["resource"] == "shop/Deployment/web"]
    assert (move["before"], move["deleted"], found["complete"]) == (
        {"member1": 2, "member2": 2}, ["member1", "member2"], True
    )  # fmt: skip


def test_a_new_policy_reads_the_kinds_that_it_selects(plan):
    found = json.loads(plan("-o", "json", changed=policy("new", selector(name="unclaimed"))).stdout)
    assert [each["resource"] for each in found["policies"][0]["gains"]] == ["shop/Deployment/unclaimed"]


def test_a_missing_right_makes_the_plan_incomplete(server, plan):
    server.api.before = only(refuse(403, "Forbidden"), part="/deployments")
    result = plan("--detailed-exitcode")
    assert "This plan is incomplete: more can move than it shows." in result.stdout
    assert "not known: no right to list deployments.apps" in result.stdout
    assert plan("--fail-on", "overcommit").exit_code == 1
    assert plan("--expect", "0123456789abcdef").exit_code == 1


def test_a_kind_that_is_not_served_has_nothing_that_moves(plan):
    result = plan("--detailed-exitcode", changed=policy("new", selector("Gadget", "example.org/v1")))
    assert (result.exit_code, "Gadget of example.org/v1 is not served" in result.stderr) == (0, True), result.output


def test_a_server_that_fails_is_an_error(server, plan):
    server.api.before = only(refuse(500, "InternalError"), part="/clusters")
    assert plan("--detailed-exitcode").exit_code == 1


DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "live.md").read_text()


def right(request: APIRequest) -> tuple[str, str, str]:
    place = Place.of(request.path)
    group = place.root.split("/")[2] if place.root.startswith("/apis/") else ""
    return group, place.plural, request.verb


def test_the_page_grants_every_request_and_no_right_on_karmada_that_is_not_used():
    api = KubeInMemory()
    shop(api)
    for kind in ("OverridePolicy", "ClusterOverridePolicy", "ClusterTaintPolicy"):
        plural = f"{kind.lower().removesuffix('y')}ies"
        api.served.add("policy.karmada.io/v1alpha1", kind, plural, namespaced=kind == "OverridePolicy")
    for namespace in ("shop", ""):
        store(api, policy("waiting", selector(name="web"), namespace=namespace, dependentOverrides=["images"]))
    whole = LiveRead(CollectionReader(api, "karmada", ReadLimits(), ListingBars()), discover_types(api))
    whole.read_fleet()
    whole.read_waited_for()
    for text in ("deploy/web", "clusterrole/viewer", "cm/settings"):
        LiveRead(whole.reader, whole.types).read_workload(*resolved(whole.types, ResourceName.parse(text), "shop"))
    requested = {right(request) for request in api.requests if request.path not in ("/api", "/apis")}
    rules = yaml.safe_load((DOCS / "read-only.yaml").read_text())["rules"]
    granted = {each for rule in rules for each in product(rule["apiGroups"], rule["resources"], rule["verbs"])}
    assert requested <= granted
    ours = {group for group, *_ in granted if group.endswith("karmada.io")}
    assert {each for each in granted if each[0] in ours} == {each for each in requested if each[0] in ours}
    assert len(ours) == len({kind[0] for kind in KARMADA_KINDS})


def test_the_page_names_the_kinds_of_kubeadmiral():
    section = PAGE.partition("For KubeAdmiral, grant")[2].partition("##")[0]
    plurals = {f"{each.kind.lower()}s".replace("policys", "policies") for each in KUBEADMIRAL.read}
    assert {word.strip("`,") for word in section.split() if word.startswith("`")} >= plurals
