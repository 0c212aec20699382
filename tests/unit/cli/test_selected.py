"""Commands that choose workloads by their labels."""

import json

import pytest
from fleet_dump import RECORD, members, stored_binding, stored_policy, stored_template
from tables import cases

POLICY = stored_policy(to=["a", "b"])


def workload(name, team):
    held = stored_template(held_by=POLICY, name=name)
    labels = {**held["metadata"]["labels"], "team": team}
    template = {**held, "metadata": {**held["metadata"], "labels": labels}}
    return [template, stored_binding(template, {"a": 2, "b": 2}, policy=POLICY)]


FLEET = [RECORD, *members("a", "b"), POLICY, *workload("shop", "blue"), *workload("cart", "red")]


@pytest.fixture
def ask(on_objects):
    return lambda line: on_objects(line, *FLEET)


def test_explain_shows_each_workload(ask):
    found = json.loads(ask("explain -l team=blue -o json").stdout)
    assert (found["kind"], [each["resource"] for each in found["items"]]) == (
        "ExplanationList", ["default/Deployment/shop"],
    )  # fmt: skip
    both = ask("explain -l team -n default").stdout
    assert both.count("\n\n") >= 1
    assert "default/Deployment/shop" in both
    assert "default/Deployment/cart" in both


def test_an_explanation_is_that_of_the_workload_by_its_name(ask):
    (selected,) = json.loads(ask("explain -l team=red --down a -o json").stdout)["items"]
    named = json.loads(ask("explain deploy/cart --down a -o json").stdout)
    assert selected == {key: value for key, value in named.items() if key not in {"apiVersion", "kind"}}


@cases(("selector", "stopping"), {"one": ("-l team=blue", 1), "both": ("-l team", 2), "without": ("", 2)})
def test_resilience_counts_selected_workloads(ask, selector, stopping):
    worst = json.loads(ask(f"resilience {selector} -o json").stdout)["items"][0]
    assert worst["stopping"] == stopping


@cases(("selector", "workloads"), {"one": ("-l team!=blue", 1), "without": ("", 2)})
def test_drift_counts_selected_workloads(ask, selector, workloads):
    assert json.loads(ask(f"drift {selector} -o json").stdout)["total"]["workloads"] == workloads


@cases(
    ("line", "problem"),
    {
        "no workload": ("drift -l team=green", "no workload has the labels of -l 'team=green'"),
        "no selector": ("resilience -l team==", "team=="),
        "a name, too": ("explain deploy/shop -l team=blue", "name one workload as TYPE/NAME, or choose"),
        "nothing": ("explain", "name one workload as TYPE/NAME, or choose"),
        "the past": ("explain -l team=blue --record 1.2 --ledger sqlite:///x", "cannot be combined with --at"),
    },
)
def test_wrong_choices(ask, line, problem):
    found = ask(line)
    assert problem in found.output + str(found.exception)
    assert found.exit_code != 0
