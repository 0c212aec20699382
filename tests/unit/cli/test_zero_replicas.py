"""Workloads with 0 replicas. Without requests they are no workloads in Karmada: all candidates get them."""

import json

import pytest
from click.testing import CliRunner
from fleet_dump import DIVIDED, RECORD, members, stored_binding, stored_policy, stored_template
from tables import cases

from berthmaster_cli.main import main

LIMIT = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}
ROLLOUT = "argoproj.io/v1alpha1/Rollout"
SCRIPT = """
local kube = require("kube")
function GetReplicas(obj)
  return obj.spec.size, kube.accuratePodRequirements(obj.spec.template)
end
"""
CUSTOMIZATION = {
    "apiVersion": "config.karmada.io/v1alpha1",
    "kind": "ResourceInterpreterCustomization",
    "metadata": {"name": "widgets"},
    "spec": {
        "target": {"apiVersion": "example.io/v1", "kind": "Widget"},
        "customizations": {"replicaResource": {"luaScript": SCRIPT}},
    },
}
KINDS = {
    "a Deployment": ("apps/v1/Deployment", {"replicas": 0}),
    "a StatefulSet": ("apps/v1/StatefulSet", {"replicas": 0}),
    "a ReplicaSet": ("apps/v1/ReplicaSet", {"replicas": 0}),
    "a Job that may run nothing": ("batch/v1/Job", {"parallelism": 0}),
    "a CloneSet": ("apps.kruise.io/v1alpha1/CloneSet", {"replicas": 0}),
    "a UnitedDeployment": ("apps.kruise.io/v1alpha1/UnitedDeployment", {"replicas": 0}),
    "a StatefulSet of OpenKruise": ("apps.kruise.io/v1beta1/StatefulSet", {"replicas": 0}),
    "a BroadcastJob": ("apps.kruise.io/v1alpha1/BroadcastJob", {"parallelism": 0}),
    "a Workflow": ("argoproj.io/v1alpha1/Workflow", {"parallelism": 0}),
    "a kind with a path": (ROLLOUT, {"replicas": 0}),
    "a kind with a script": ("example.io/v1/Widget", {"size": 0}),
}


@pytest.fixture
def placed(tmp_path):
    """Return where ``simulate`` places a resource of a kind that a Divided policy of two clusters selects."""

    def placed(kind, spec, pod, *line):
        api_version, _, name = kind.rpartition("/")
        template = {"metadata": {"labels": {}}, "spec": pod}
        raw = {"apiVersion": api_version, "kind": name, "metadata": {"name": "web", "namespace": "default"}}
        # A Workflow has the constraints on its nodes in its own spec.
        raw["spec"] = {**spec, **pod} if name == "Workflow" else {**spec, "template": template}
        served = [(api_version, name, "x")]
        policy = stored_policy(to=["a", "b"], selects=kind, placement=DIVIDED, new=True)
        objects = [*members("a", "b"), policy, raw, CUSTOMIZATION]
        for each in objects[:2]:
            each["status"]["apiEnablements"] = [
                {"groupVersion": version, "resources": [{"kind": kind, "name": plural}]}
                for version, kind, plural in served
            ]
        (tmp_path / "fleet.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        words = ["simulate", f"--filename={tmp_path}/fleet.json", "-o", "json", *line]
        if kind == ROLLOUT:
            words += [f"--replica-path={ROLLOUT}=spec.replicas,spec.template"]
        found = CliRunner().invoke(main, words)
        assert found.exit_code == 0, found.output + repr(found.exception)
        printed = json.loads(found.stdout)
        return printed["moves" if line else "items"][0]

    return placed


@cases(("kind", "spec"), KINDS)
def test_without_requests_all_candidates_get_it(placed, kind, spec):
    assert placed(kind, spec, {"containers": [{"name": "c"}]})["clusters"] == {"a": 0, "b": 0}


@cases(("kind", "spec"), {name: each for name, each in KINDS.items() if name != "a Workflow"})
def test_with_a_request_it_is_a_workload_without_replicas(placed, kind, spec):
    row = placed(kind, spec, LIMIT)
    assert (row["clusters"], row["message"]) == ({}, "the workload requests no replicas")


@cases(("kind", "spec"), KINDS)
def test_with_a_constraint_on_its_node_it_is_a_workload(placed, kind, spec):
    assert placed(kind, spec, {"nodeSelector": {"disk": "ssd"}})["clusters"] == {}


def test_a_scale_from_0(placed):
    row = placed("apps/v1/Deployment", {"replicas": 0}, {}, "--scale=deploy/web=3")
    assert (row["before"], sum(row["after"].values())) == ({"a": 0, "b": 0}, 3)


def test_a_scale_to_0_is_the_plan_of_a_template_with_0(tmp_path):
    policy = stored_policy(to=["a", "b", "c"], placement=DIVIDED)
    raw = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 6, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
    }  # fmt: skip
    held = stored_template(raw, held_by=policy)
    bound = stored_binding(held, {"a": 3, "b": 3}, policy=policy, replicas=None)
    bound["spec"]["replicas"] = 6
    objects = [RECORD, *members("a", "b", "c"), policy, held, bound]
    fleet, new = tmp_path / "fleet.json", tmp_path / "new.json"
    fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    new.write_text(json.dumps({**held, "spec": {**held["spec"], "replicas": 0}}))
    scaled = CliRunner().invoke(main, ["simulate", f"--filename={fleet}", "--scale=deploy/web=0", "--output=json"])
    planned = CliRunner().invoke(main, ["plan", f"--against={fleet}", f"--filename={new}", "--output=json"])
    everywhere = {"a": 0, "b": 0, "c": 0}
    assert json.loads(scaled.stdout)["moves"][0]["after"] == everywhere
    assert json.loads(planned.stdout)["moves"][0]["after"] == everywhere
