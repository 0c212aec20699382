"""The rules that compare objects: names of clusters, resources that two policies name, objects that appear twice."""

import json

import pytest
import yaml
from click.testing import CliRunner
from tables import cases, data

from berthmaster_cli.lint.command import command


def cluster(name, kind="Cluster", group="cluster.karmada.io/v1alpha1"):
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}}


def policy(name="web", placement=None, *, kind="PropagationPolicy", priority=0, resource="web", namespace="shop"):
    meta = {"name": name} if kind.startswith("Cluster") else {"name": name, "namespace": namespace}
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", "name": resource}
    if kind.startswith("Cluster"):
        selector["namespace"] = namespace
    spec = {"resourceSelectors": [selector], "placement": placement or {}, "priority": priority}
    return {"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def federated(clusters):
    return {
        "apiVersion": "core.kubeadmiral.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"schedulingMode": "Duplicate", "placement": [{"cluster": name} for name in clusters]},
    }


@pytest.fixture
def rules(tmp_path):
    """A function that checks objects and returns rule, object, path and message of each finding across objects."""

    def call(*objects, fleet=(), arguments=()):
        (tmp_path / "a.yaml").write_text(yaml.safe_dump_all(objects))
        extra = []
        if fleet:
            (tmp_path / "fleet.yaml").write_text(yaml.safe_dump_all(fleet))
            extra = ["--fleet", str(tmp_path / "fleet.yaml")]
        result = CliRunner().invoke(command, [str(tmp_path / "a.yaml"), "-o", "json", *extra, *arguments])
        assert result.exit_code in (0, 1), result.output
        found = json.loads(result.stdout)["findings"]
        own = ("cluster-unknown", "claimed-twice", "defined-twice")
        return [(each["rule"], each["object"], each["path"], each["message"]) for each in found if each["rule"] in own]

    return call


def test_the_findings_of_one_object_are_bounded(rules):
    unknown = policy(placement={"clusterAffinity": {"clusterNames": [f"other{index}" for index in range(1000)]}})
    found = rules(unknown, policy("b", {"clusterAffinity": {"clusterNames": ["x"]}}, resource="b"), cluster("member1"))
    assert [each[0] for each in found] == ["cluster-unknown"] * 52
    assert found[50][3] == "950 more problems like these; correct them too"


@pytest.mark.parametrize(("path", "placement"), data("lint/named_clusters").items())
def test_a_cluster_that_the_fleet_does_not_have_is_found(rules, path, placement):
    ((rule, _, where, message),) = rules(policy(placement=placement), cluster("member1"))
    assert (rule, where) == ("cluster-unknown", f"spec.placement.{path}")
    assert "did you mean member1?" in message


def test_the_fleet_can_be_in_other_files_that_are_not_checked(rules):
    placement = {"clusterAffinity": {"clusterNames": ["member9"]}}
    broken = policy("other", {"clusterAffinity": {"clusterNames": ["x"]}})
    assert len(rules(policy(placement=placement), fleet=[cluster("a"), broken])) == 1
    assert rules(policy(placement=placement), fleet=[cluster("member9")]) == []


def test_a_federation_policy_names_clusters_too(rules):
    member = cluster("a", "FederatedCluster", "core.kubeadmiral.io/v1alpha1")
    ((rule, _, path, _),) = rules(federated(["a", "b"]), member)
    assert (rule, path) == ("cluster-unknown", "spec.placement[1].cluster")


def test_without_a_fleet_no_name_is_unknown(rules):
    assert rules(policy(placement={"clusterAffinity": {"clusterNames": ["member9"]}})) == []


CLAIMS = {
    "two policies of one priority": ([policy("a"), policy("b")], ["b"]),
    "three policies": ([policy("c"), policy("b"), policy("a")], ["c", "b"]),
    "different priorities": ([policy("a"), policy("b", priority=1)], []),
    "different namespaces": ([policy("a"), policy("b", namespace="other")], []),
    "different resources": ([policy("a"), policy("b", resource="db")], []),
    "a namespaced and a cluster-scoped policy": ([policy("a"), policy("b", kind="ClusterPropagationPolicy")], []),
    "two cluster-scoped policies": (
        [policy("a", kind="ClusterPropagationPolicy"), policy("b", kind="ClusterPropagationPolicy")],
        ["b"],
    ),
}


@cases(("objects", "names"), CLAIMS)
def test_policies_that_name_one_resource(rules, objects, names):
    found = rules(*objects)
    assert [about.rpartition("/")[2].rpartition(" ")[2] for _, about, _, _ in found] == names
    for rule, _, path, message in found:
        assert (rule, path) == ("claimed-twice", "spec.resourceSelectors[0]")
        assert "Karmada prefers 'a' by its name" in message


def test_a_policy_that_is_defined_twice(rules):
    ((rule, _, path, message),) = rules(policy(), cluster("x"), policy())
    assert (rule, path) == ("defined-twice", "metadata.name")
    assert "a.yaml:4 defines the same object" in message


def test_a_generated_name_is_never_defined_twice(rules):
    generated = policy()
    generated["metadata"] = {"generateName": "web-", "namespace": "shop"}
    assert [rule for rule, *_ in rules(generated, generated)] == []


@pytest.mark.parametrize(("level", "code"), [("off", 0), ("warn", 0), ("deny", 1)])
def test_the_level_of_a_rule_across_objects_can_be_set(tmp_path, level, code):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([policy(), policy()]))
    result = CliRunner().invoke(command, [str(tmp_path / "a.yaml"), "--rule", f"defined-twice={level}"])
    assert result.exit_code == code
    assert ("[defined-twice]" in result.output) == (level != "off")


def _propagating(name, resource, kind="Deployment", **fields):
    selector = {"apiVersion": "apps/v1", "kind": kind, "name": resource}
    spec = {"resourceSelectors": [selector], "propagateDeps": True, **fields}
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": meta, "spec": spec}


def _needing(name, kind="Deployment", **pod):
    spec = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}], **pod}}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


_PULL = {"imagePullSecrets": [{"name": "pull"}]}
_MOUNTED = {"volumes": [{"name": "v", "configMap": {"name": "settings"}}]}
_SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": "shop"}}
_SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}}
_OWN = _propagating("own", "pull")
_OWN["spec"]["resourceSelectors"] = [{"apiVersion": "v1", "kind": "Secret", "name": "pull"}]
_SCRIPT = {
    "apiVersion": "config.karmada.io/v1alpha1",
    "kind": "ResourceInterpreterCustomization",
    "metadata": {"name": "deployments"},
    "spec": {
        "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
        "customizations": {"dependencyInterpretation": {"luaScript": "function GetDependencies(o) return {} end"}},
    },
}
_PULLING = [_needing("web", **_PULL), _needing("api", **_PULL), _SECRET]


@cases(
    ("objects", "expected"),
    {
        "one overwrites, and one has the default": (
            [_propagating("a", "web", conflictResolution="Overwrite"), _propagating("b", "api"), *_PULLING],
            [("PropagationPolicy shop/b", "spec.conflictResolution", "PropagationPolicy shop/a", "shop/Secret/pull")],
        ),
        "one preserves what two others do not": (
            [
                _propagating("a", "web"), _propagating("b", "db", "StatefulSet", preserveResourcesOnDeletion=True),
                _propagating("c", "log", preserveResourcesOnDeletion=False),
                _needing("web", **_MOUNTED), _needing("db", "StatefulSet", **_MOUNTED), _needing("log", **_MOUNTED),
                _SETTINGS,
            ],
            [
                (f"PropagationPolicy shop/{name}", "spec.preserveResourcesOnDeletion", "PropagationPolicy shop/b",
                 "shop/ConfigMap/settings")
                for name in ("a", "c")
            ],
        ),
        "both say the same": (
            [_propagating("a", "web", conflictResolution="Abort"), _propagating("b", "api"), *_PULLING], [],
        ),
        "one does not propagate dependencies": (
            [
                _propagating("a", "web", conflictResolution="Overwrite"),
                _propagating("b", "api", propagateDeps=False),
                *_PULLING,
            ],
            [],
        ),
        "the dependency has a policy of its own": (
            [_propagating("a", "web", conflictResolution="Overwrite"), _propagating("b", "api"), _OWN, *_PULLING], [],
        ),
        "a script says what they need": (
            [_propagating("a", "web", conflictResolution="Overwrite"), _propagating("b", "api"), _SCRIPT, *_PULLING],
            [],
        ),
    },
)  # fmt: skip
def test_policies_that_share_a_dependency_and_differ(tmp_path, objects, expected):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all(objects))
    result = CliRunner().invoke(command, [str(tmp_path / "a.yaml"), "-o", "json"])
    found = [each for each in json.loads(result.stdout)["findings"] if each["rule"] == "dependency-conflict"]
    assert [(each["object"], each["path"]) for each in found] == [each[:2] for each in expected], result.stdout
    for each, (*_, other, dependency) in zip(found, expected, strict=True):
        assert other in each["message"]
        assert dependency in each["message"]
