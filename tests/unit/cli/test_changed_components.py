"""A changed template of several pod templates, whose cluster is lost: its components are those of the template."""

import json

import pytest
from fleet_dump import RECORD, members, stored_binding, stored_policy, stored_template
from karmada_plane import DIVIDED
from tables import cases

from berthmaster.model.cluster import APIEnablement, APIResource

WHOLE = {**DIVIDED, "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
FLINK = "flink.apache.org/v1beta1"
SERVES = [APIEnablement(group_version=FLINK, resources=(APIResource(name="flinkdeployments", kind="FlinkDeployment"),))]
HUGE = """function GetComponents(obj)
    return {{name = 'all', replicas = 1, replicaRequirements = {resourceRequest = {cpu = 10000}}}}
end"""


def flink(managers):
    parts = {"jobManager": {"resource": {"cpu": 1}}, "taskManager": {"replicas": managers, "resource": {"cpu": 1}}}
    return {
        "apiVersion": FLINK, "kind": "FlinkDeployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": parts,
    }  # fmt: skip


def customization(script):
    return {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "a"},
        "spec": {
            "target": {"apiVersion": FLINK, "kind": "FlinkDeployment"},
            "customizations": {"componentResource": {"luaScript": script}},
        },
    }  # fmt: skip


@pytest.fixture
def simulated(on_objects, tmp_path):
    def run(managers, *scripts):
        policy = stored_policy("p", to=["a", "b"], selects=f"{FLINK}/FlinkDeployment", placement=WHOLE)
        stored = stored_template(flink(1), held_by=policy)
        bound = stored_binding(stored, {"a": 0}, policy=policy, replicas=0)
        one = {"resourceRequest": {"cpu": "1"}}
        bound["spec"]["components"] = [
            {"name": each, "replicas": 1, "replicaRequirements": one} for each in ("jobmanager", "taskmanager")
        ]
        known = [RECORD, *members("a", "b", serves=SERVES), policy, stored, bound, *map(customization, scripts)]
        changed = tmp_path / "changed.json"
        changed.write_text(json.dumps(flink(managers)))
        return json.loads(on_objects(f"simulate -f {changed} --down a --failover=on -o json", *known).stdout)

    return run


@cases(
    ("managers", "scripts", "fits", "notes"),
    {
        "Karmada's script: it fits on the other cluster": (2, [], True, 0),
        "Karmada's script: it is too large now": (100, [], False, 0),
        "a script among the input comes first": (2, [HUGE], False, 0),
        "a script that fails: the components are old": (100, ["function GetComponents(obj) error('no') end"], True, 1),
        "a script that returns no list": (100, ["function GetComponents(obj) return 7 end"], True, 1),
    },
)
def test_components_of_a_changed_template(simulated, managers, scripts, fits, notes):
    found = simulated(managers, *scripts)
    assert [each["resource"] for each in found["unplaced"]] == ([] if fits else ["default/FlinkDeployment/web"])
    assert len([each for each in found["gaps"] if "components" in each]) == notes
