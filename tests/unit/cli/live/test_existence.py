"""What policies wait for and what a workload needs is looked up on the control plane, by name and as metadata."""

import json

import pytest
import yaml
from click.testing import CliRunner
from faults import nothing
from karmada_plane import binding, cluster, deployment, policy, resource, selector, serve_karmada, store
from kube_over_http import KubeOverHTTP

from berthmaster.model.errors import ApiError
from berthmaster_cli.main import main

VOLUMES = [{"name": "a", "configMap": {"name": "settings"}}, {"name": "b", "secret": {"secretName": "gone"}}]
OVERRIDE = resource("images", "OverridePolicy", "policy.karmada.io/v1alpha1", spec={"overrideRules": []})
CLASS = resource("high", "PriorityClass", "scheduling.k8s.io/v1", namespace="", value=5)


def to(name, **spec):
    placed = {"clusterAffinity": {"clusterNames": [name]}}
    return policy("web", selector(name="web"), placement=placed, propagateDeps=True, **spec)


@pytest.fixture
def server():
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
def run(server, tmp_path):
    host = server.url
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({
        "current-context": "karmada",
        "clusters": [{"name": "karmada", "cluster": {"server": host}}],
        "contexts": [{"name": "karmada", "context": {"cluster": "karmada", "user": "me", "namespace": "shop"}}],
        "users": [{"name": "me", "user": {}}],
    }))  # fmt: skip

    def run(command, *words, over=()):
        line = [command, "--kubeconfig", str(tmp_path / "kubeconfig"), *words]
        for number, each in enumerate(over):
            path = tmp_path / f"{number}.json"
            path.write_text(json.dumps(each))
            line += ["-f", str(path)]
        result = CliRunner().invoke(main, line, prog_name="berthmaster")
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result

    return run


def answer(result):
    return json.loads(result.stdout)


def test_explain_looks_up_what_a_workload_needs(server, run):
    found = answer(run("explain", "deploy/web", "-o", "json"))
    assert (found["followedBy"], found["missing"]) == (["shop/ConfigMap/settings"], ["shop/Secret/gone"])
    assert "needs, does not exist or may not be read: shop/Secret/gone" in run("explain", "deploy/web").stdout
    asked = [each for each in server.api.requests if each.path.endswith("/configmaps/settings")]
    assert all("PartialObjectMetadata" in each.accept for each in asked)


@pytest.mark.parametrize(("command", "words"), [("simulate", []), ("explain", ["cm/settings"]), ("plan", [])])
def test_a_follower_moves_with_a_policy_of_a_file(run, command, words):
    found = answer(run(command, *words, "-o", "json", over=[to("member2")]))
    rows = {"explain": [found], "plan": found["moves"] if command == "plan" else [], "simulate": found}[command]
    (settings,) = [each for each in rows if each["resource"] == "shop/ConfigMap/settings"]
    assert settings["after" if command == "plan" else "clusters"] == {"member2": 0}


PRIORITY = {"schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}}


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param({"dependentOverrides": ["images"]}, OVERRIDE, id="overrides"),
        pytest.param(PRIORITY, CLASS, id="class"),
    ],
)
def test_what_a_policy_waits_for_is_looked_up(server, run, spec, needed):
    def answers():
        over = [to("member2", **spec)]
        planned = answer(run("plan", "-o", "json", over=over))
        rows = answer(run("simulate", "-o", "json", over=over))
        (web,) = [each for each in rows if each["resource"] == "shop/Deployment/web"]
        explained = answer(run("explain", "deploy/web", "-o", "json", over=over))
        assert web["clusters"] == explained["clusters"]
        return planned["complete"], bool(planned["moves"]), web["clusters"]

    assert answers() == (True, False, {"member1": 2})
    store(server.api, needed)
    assert answers() == (True, True, {"member2": 2})


def test_without_the_right_to_look_the_answer_says_so(server, run):
    def refuse(request):
        if "overridepolicies" in request.path:
            raise ApiError(403, "Forbidden", f"{request}: 403 forbidden")

    server.api.before = refuse
    found = run("plan", "-o", "json", over=[to("member2", dependentOverrides=["images"])])
    server.api.before = nothing
    assert answer(found)["complete"] is False
    assert any(
        "no right to get overridepolicies.policy.karmada.io in the namespace shop: policies that wait for such an "
        "object count as if it existed" in each
        for each in answer(found)["gaps"]
    )
