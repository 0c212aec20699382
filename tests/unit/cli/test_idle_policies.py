"""A policy that selects none of the given resources is a warning of lint, simulate and plan."""

import json

import pytest
from builders import deployment
from click.testing import CliRunner
from fleet_dump import RECORD, members, stored_binding, stored_policy, stored_template
from tables import cases

from berthmaster_cli.main import main

NONE_OF = "PropagationPolicy default/web {} none of the 1 resource of the input"


def web(**fields):
    return stored_policy(to=["a"], new=True, **fields)


@pytest.fixture
def run(tmp_path):
    def run(command, changed, present=()):
        for name, objects in (("fleet", [*members("a"), *present]), ("changed", changed)):
            (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        words = {"F": tmp_path / "fleet.json", "C": tmp_path / "changed.json"}
        found = CliRunner().invoke(main, [str(words.get(each, each)) for each in command.split()])
        assert found.exit_code == 0, found.output + repr(found.exception)
        return found

    return run


@pytest.mark.parametrize("command", ["lint F C", "simulate -f F -f C", "plan --against F -f C"])
@cases(
    ("policy", "printed"),
    {
        "a name that no resource has": (web(target={"name": "wbe"}), True),
        "a kind that no resource has": (web(selects="apps/v1/StatefulSet"), True),
        "labels that no resource has": (web(target={"labelSelector": {"matchLabels": {"app": "x"}}}), True),
        "another namespace": ({**web(), "metadata": {"name": "web", "namespace": "shop"}}, True),
        "a resource": (web(target={"name": "web"}), False),
        "all resources of a kind": (web(), False),
    },
)
def test_a_policy_that_selects_nothing(run, command, policy, printed):
    found = run(command, [policy], [deployment("web")])
    assert ("none of the 1 resource of the input" in found.output) == printed


@pytest.mark.parametrize("command", ["lint C", "simulate -f F -f C", "plan --against F -f C"])
def test_without_resources_there_is_nothing_to_select(run, command):
    assert "none of the" not in run(command, [web()]).output


@pytest.mark.parametrize("command", ["lint F C", "simulate -f F -f C", "plan --against F -f C"])
def test_a_kind_that_no_api_server_has(run, command):
    found = run(command, [web(selects="apps/v1/Deploymnt")], [deployment("web")])
    assert "apps has no kind 'Deploymnt'; did you mean Deployment?" in found.output


def test_stored_policies_are_not_reported(run):
    stored = stored_policy("idle", to=["a"], target={"name": "gone"})
    assert "none of the" not in run("simulate -f F", [], [RECORD, stored, stored_template()]).output


def test_a_workload_of_which_only_the_binding_is_known_counts(run):
    held = stored_policy(to=["a"])
    bound = stored_binding(stored_template(held_by=held), {"a": 2}, policy=held)
    labels = {"labelSelector": {"matchLabels": {"app": "x"}}}
    for changed, printed in ((web(), False), (web(target=labels), False), (web(target={"name": "wbe"}), True)):
        found = run("plan --against F -f C", [changed], [RECORD, held, bound])
        assert (NONE_OF.format("selects") in found.output) == printed


def test_a_filter_by_namespace_reports_its_policies_only(run):
    other = {**web(), "metadata": {"name": "web", "namespace": "shop"}}
    assert "none of the" not in run("simulate -f F -f C -n default", [other, web()], [deployment("web")]).output
