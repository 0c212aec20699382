"""Each answer says what it does not consider, and how many workloads that concerns."""

import json

import pytest
from click.testing import CliRunner
from fleet_dump import RECORD, members, stored_binding, stored_policy, stored_template
from tables import cases

from berthmaster_cli.main import main

POLICY = stored_policy("p", to=["a"], target={})
VMS = stored_policy("vms", to=["a"], target={}, selects="kubevirt.io/v1/VirtualMachine")
WEB = stored_template(held_by=POLICY)
VM = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "vm", "namespace": "default"}}
QUOTA = {
    "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
    "metadata": {"name": "team", "namespace": "default"}, "spec": {"overall": {"cpu": "1"}},
}  # fmt: skip


def override(name, **overriders):
    return {
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "overrideRules": [{"targetCluster": {"clusterNames": ["a"]}, "overriders": overriders}],
        },
    }  # fmt: skip


NONE = override("none", plaintext=[{"path": "/spec/replicas", "operator": "replace", "value": 0}])
MIRROR = override("mirror", imageOverrider=[{"component": "Registry", "operator": "replace", "value": "x"}])
IDLE = {**NONE, "metadata": {"name": "idle", "namespace": "other"}}
NEW = {**stored_policy("new", to=["b"], target={"name": "nothing"}, new=True)}


@pytest.fixture
def answered(tmp_path):
    def answer(command, *objects, words=()):
        stored = [RECORD, *members("a", "b"), POLICY, VMS, WEB, stored_binding(WEB, {"a": 2}, policy=POLICY)]
        listed = {"apiVersion": "v1", "kind": "List", "items": [*stored, *objects]}
        (tmp_path / "dump.json").write_text(json.dumps(listed))
        (tmp_path / "new.json").write_text(json.dumps(NEW))
        dump, new = str(tmp_path / "dump.json"), str(tmp_path / "new.json")
        files = ["--against", dump, "-f", new] if command == "plan" else ["-f", dump]
        resource = ["deploy/web"] if command == "explain" else []
        return CliRunner().invoke(main, [command, *files, *resource, *words], catch_exceptions=False).output

    return answer


@pytest.mark.parametrize("command", ["simulate", "resilience", "drift", "plan"])
@cases(
    ("objects", "sentence"),
    {
        "replicas": (
            [NONE],
            (
                "OverridePolicy default/none sets the replicas of 1 resource to 0 on a: tables show the "
                "replicas that Karmada assigns, and losses count those that run"
            ),
        ),
        "an image": (
            [MIRROR],
            "OverridePolicy default/mirror changes images of 1 resource: overrides change what clusters run",
        ),
        "a quota": (
            [QUOTA],
            (
                "FederatedResourceQuota default/team is not considered: Karmada may refuse what exceeds it (1 resource "
                "in namespace default)"
            ),
        ),
        "unknown replicas": (
            [VM],
            "1 workload has unknown replicas and no place in this answer: VirtualMachine of kubevirt.io/v1 (1)",
        ),
    },
)
def test_an_answer_says_what_it_does_not_consider(answered, command, objects, sentence):
    if command == "simulate" and VM in objects:
        assert "'*=-' for all such kinds" in answered(command, *objects, words=["-o", "wide"])
    else:
        assert sentence in answered(command, *objects)


def test_an_explanation_names_the_overrides_of_its_workload(answered):
    found = answered("explain", NONE, MIRROR, IDLE)
    assert "OverridePolicy default/none sets the replicas of it to 0 on a" in found
    assert "OverridePolicy default/mirror changes images of it, and not where clusters run it" in found
    assert "other/idle" not in found


def test_an_override_that_selects_nothing_is_not_named(answered):
    assert "idle" not in answered("simulate", IDLE)


def test_all_unknown_kinds_can_be_kinds_without_replicas(answered):
    found = answered("resilience", VM, words=["--replica-path", "*=-"])
    assert "unknown replicas" not in found
