"""`simulate` and `explain` of a fleet in use: what they print, refuse and report."""

import json

import pytest
from builders import deployment
from fleet_dump import DIVIDED, members, stored_binding, stored_policy, stored_template
from tables import cases, data

from berthmaster_cli import inputs

POLICY = stored_policy("p", to=["a"], placement=DIVIDED)
OTHER = stored_policy("q", to=["b"], placement=DIVIDED, priority=9)
TEMPLATE = stored_template(held_by=POLICY)
SETTLED = [*members("a", "b"), POLICY, OTHER, TEMPLATE, stored_binding(TEMPLATE, {"a": 2}, policy=POLICY)]
LASTS = "it does not preempt, and a claim lasts (spec.preemption is Never)"
REGIONS_ONLY = {"spreadConstraints": [{"spreadByField": "region", "minGroups": 1, "maxGroups": 1}]}
REBALANCER, SCRIPTED = data("present").values()


def test_explain_says_who_holds_a_workload_and_why_another_policy_does_not(on_objects):
    lines = on_objects("explain Deployment/web", *SETTLED).stdout.splitlines()
    assert lines[1:3] == [
        "claimed by PropagationPolicy default/p (priority 0, by kind)",
        f"also matches PropagationPolicy default/q (priority 9, by kind): {LASTS}",
    ]
    assert lines[-1] == "stays on a=2: nothing triggers rescheduling"


def test_explain_says_that_nothing_triggers_the_decision_that_it_shows(on_objects):
    note = "nothing triggers scheduling; otherwise it would be scheduled like this:"
    assert note not in on_objects("explain Deployment/web", *SETTLED).stdout
    elsewhere = stored_binding(TEMPLATE, {"b": 2}, policy=POLICY)
    lines = on_objects("explain Deployment/web", *members("a", "b"), POLICY, TEMPLATE, elsewhere).stdout.splitlines()
    assert note in lines
    assert lines[-1] == "stays on b=2: nothing triggers rescheduling"


def test_simulate_notes_where_a_workload_is_now(on_objects):
    moving = [*members("a", "b"), POLICY, TEMPLATE, stored_binding(TEMPLATE, {"b": 2}, policy=POLICY, applied=False)]
    assert "First: now on b=2" in on_objects("simulate", *moving).stdout
    changed = on_objects("simulate --label b=env=test", *moving).stdout
    assert "\nDue without the change, too\n" in changed
    assert ": 1 of 1 workload moves (also without the changes), 2 replicas" in changed


def test_the_totals_say_how_many_moves_the_changes_do_not_cause(on_objects):
    api = deployment("api", replicas=2)
    moving = [
        *members("a", "b", "c"), POLICY,
        TEMPLATE, stored_binding(TEMPLATE, {"b": 2}, policy=POLICY, applied=False),
        api, stored_binding(api, {"c": 2}, policy=POLICY),
    ]  # fmt: skip
    changed = on_objects("simulate --failover=on --down c", *moving).stdout
    assert ": 1 of 2 workloads moves, 2 replicas" in changed, "the change does not concern the other"
    also = on_objects("simulate --failover=on --down c --label b=x=y -o json", *moving).stdout
    assert (json.loads(also)["summary"]["moved"], json.loads(also)["summary"]["due"]) == (2, 1)


def test_a_rebalancer_among_the_input_is_a_change(on_objects):
    result = on_objects("simulate -o json", *SETTLED, REBALANCER)
    (web,) = json.loads(result.stdout)["staying"]
    assert web["message"] == "it is scheduled again (Rescheduled), with the same result"
    assert "WorkloadRebalancer now: apps/v1 Deployment default/gone has no binding" in result.stderr


@cases(
    ("policy", "flags", "code"),
    {
        "a policy of a file is refused": (stored_policy("p", placement=REGIONS_ONLY, new=True), "", 1),
        "leniently": (stored_policy("p", placement=REGIONS_ONLY, new=True), "--lenient", 0),
        "a stored policy is reported": (stored_policy("p", placement=REGIONS_ONLY), "", 0),
    },
)
def test_a_policy_that_the_webhook_would_refuse(on_objects, policy, flags, code):
    result = on_objects(f"simulate {flags}", *members("a"), policy, deployment("web"))
    assert result.exit_code == code
    message = "spec.placement.spreadConstraints: 'region': a constraint by field requires another constraint by cluster"
    assert message in result.output + str(result.exception)


@cases(
    ("path", "message"),
    {
        "a field": ("apps/v1/Deployment=spec.sise", "no Deployment in the input has the field spec.sise"),
        "a kind": ("v1/Widget=spec.size", "there is no Widget of v1 in the input"),
        "a version": ("apps/v2/Deployment=spec.size", "the input has apps/v1/Deployment"),
        "a pod template": ("apps/v1/Deployment=spec.replicas,spec.pod", "has the field spec.pod"),
    },
)
def test_a_wrong_replica_path_is_an_error(on_objects, path, message):
    result = on_objects(f"simulate --replica-path {path}", *SETTLED)
    assert message in str(result.exception)


def test_a_kind_without_replicas_can_be_named(on_objects):
    widgets = stored_policy("p", selects="example.io/v1/Widget", new=True)
    widget = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "web"}}
    served = {"serves": [{"groupVersion": "example.io/v1", "resources": [{"name": "widgets", "kind": "Widget"}]}]}
    objects = [*members("a", **served), widgets, widget]
    (unknown,) = json.loads(on_objects("simulate -o json", *objects).stdout)["items"]
    assert (unknown["clusters"], unknown["notScheduled"]) == ({}, "UnknownReplicas")
    (named,) = json.loads(on_objects("simulate -o json --replica-path example.io/v1/Widget=-", *objects).stdout)[
        "items"
    ]
    assert (named["clusters"], named["notScheduled"]) == ({"a": 0}, None)


NO_WORKLOADS = "the manifests have no binding and no resource template: the workloads of the fleet are not known"


@pytest.mark.parametrize("command", ["simulate --down a", "resilience"])
def test_files_without_workloads_are_no_fleet_without_workloads(on_objects, command):
    assert NO_WORKLOADS in on_objects(command, *members("a", "b")).stderr
    assert NO_WORKLOADS not in on_objects(command, *SETTLED).stderr


@cases("installed", {"with Lua": True, "without Lua": False})
def test_a_customization_among_the_input_counts(on_objects, monkeypatch, installed):
    if not installed:
        monkeypatch.setattr(inputs, "is_available", lambda: False)
    policy = stored_policy("p", selects="example.io/v1/Widget", new=True)
    widget = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "web"}, "spec": {"size": 3}}
    served = {"serves": [{"groupVersion": "example.io/v1", "resources": [{"name": "widgets", "kind": "Widget"}]}]}
    (row,) = json.loads(on_objects("simulate -o json", *members("a", **served), policy, widget, SCRIPTED).stdout)[
        "items"
    ]
    if installed:
        assert (row["clusters"], row["replicas"]) == ({"a": 3}, 3)
    else:
        assert (row["clusters"], row["notScheduled"]) == ({}, "UnknownReplicas")
        assert "needs the extra `interpreters`" in row["message"]
