"""`berthmaster drift`: tables, data, the check, and what is no drift."""

import json
from datetime import UTC, datetime

import pytest
from builders import binding, cluster, placement
from click.testing import CliRunner
from fleet_dump import CLUSTER, DIVIDED, RECORD
from msgspec.structs import replace
from tables import cases

from berthmaster.model.binding import AggregatedStatusItem, BindingStatus
from berthmaster.model.decode import builtins
from berthmaster.model.errors import InputError
from berthmaster.simulation.drift import WorkloadDrift, summary
from berthmaster_cli.main import main

APPLIED = "policy.karmada.io/applied-placement"
EQUAL = placement(replicaScheduling={"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"})
AGGREGATED = placement(
    **DIVIDED,
    clusterAffinities=[
        {"affinityName": "first", "clusterNames": ["a", "b"]},
        {"affinityName": "second", "clusterNames": ["c"]},
    ],
)


def bound(name, clusters, asked, requests=None, **status):
    reported = BindingStatus(last_scheduled_time=datetime(2026, 5, 1, tzinfo=UTC), **status)
    total = sum(clusters.values())
    return binding(name, placement=asked, replicas=total, clusters=clusters, status=reported, requests=requests)


def documents(*bindings):
    """Return a dump of a control plane with three clusters, read one hour after the last scheduling."""
    found = [{**RECORD, "readAt": "2026-05-01T01:00:00Z"}]
    found += [{**CLUSTER, **builtins(cluster(each, pods=20, cpu=100, labels={"name": each}))} for each in "abc"]
    for each in bindings:
        metadata = replace(each.metadata, annotations={APPLIED: json.dumps(builtins(each.spec.placement))})
        kind = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding"}
        found.append({**kind, **builtins(replace(each, metadata=metadata))})
    return "\n---\n".join(json.dumps(each) for each in found)


FLEET = (
    bound("level", {"a": 2, "b": 2, "c": 2}, EQUAL),
    bound("uneven", {"a": 6}, EQUAL),
    bound("fallen", {"c": 4}, AGGREGATED, scheduler_observing_affinity_name="second"),
)


def run(*arguments, fleet=FLEET, code=0):
    result = CliRunner().invoke(main, ["drift", "-f", "-", *arguments], input=documents(*fleet))
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.stdout


def test_the_table_has_totals_and_the_worst_workloads():
    lines = run().splitlines()
    assert lines[0] == "2 of 3 workloads drift: a minimal repair moves 7 replicas, a full one 8"
    words = [line.split() for line in lines]
    assert ["NotFirstGroup", "1"] in words
    assert ["Weights", "1"] in words
    assert ["c", "4", "1"] in words
    assert ["default/Deployment/uneven", "Weights", "3", "4", "a=6", "a=3", "b=2", "c=1"] in words


def test_the_data_have_every_workload_that_drifts():
    found = json.loads(run("-o", "json", "--limit", "1"))
    assert found["total"] == {"name": "", "workloads": 3, "drifted": 2, "moves": 7, "fullMoves": 8}
    assert found["groups"][0]["name"].endswith("second")
    (worst,) = found["workloads"]
    assert (worst["resource"], worst["kinds"], worst["isExact"]) == (
        "default/Deployment/fallen", {"NotFirstGroup": 4}, True,
    )  # fmt: skip


@cases(
    ("arguments", "fleet", "code"),
    {
        "a workload drifts": (["--check"], FLEET, 1),
        "no workload drifts": (["--check"], FLEET[:1], 0),
        "a wide tolerance still has an upper bound": (["--check", "--tolerance", "100"], FLEET[1:2], 1),
    },
)
def test_the_check(arguments, fleet, code):
    run(*arguments, fleet=fleet, code=code)


@cases(
    ("arguments", "kinds"),
    {"long after the scheduling": ([], {"NotRunning": 2}), "not yet": (["--pending-s", "86400"], {})},
)
def test_replicas_that_are_not_ready_count_some_time_after_the_scheduling(arguments, kinds):
    report = AggregatedStatusItem("a", {"replicas": 3, "readyReplicas": 1}, applied=True)
    waiting = bound("waiting", {"a": 3}, AGGREGATED, aggregated_status=(report,))
    found = json.loads(run("-o", "json", *arguments, fleet=(waiting,)))
    assert [each["kinds"] for each in found["workloads"]] == ([kinds] if kinds else [])


def test_manifests_without_bindings_cannot_drift():
    result = CliRunner().invoke(main, ["drift", "-f", "examples/karmada"])
    assert "has no bindings" in result.output + str(result.exception)


def test_totals_are_those_of_the_workloads():
    none = WorkloadDrift("w1", "p", "g", {}, {"a": 1}, {"a": 1}, {"b": 1}, 0, 1, is_exact=True)
    some = WorkloadDrift("w2", "p", "g", {"Spread": 3}, {"a": 3}, {"a": 1, "b": 2}, {"b": 3}, 2, 3, is_exact=False)
    found = summary([none, some])
    assert [(each.name, each.workloads, each.drifted, each.moves, each.full_moves) for each in found.groups] == [
        ("p g", 2, 1, 2, 4)
    ]
    assert [(each.name, each.leaving, each.arriving) for each in found.clusters] == [("a", 2, 0), ("b", 0, 2)]
    assert (found.heuristic, found.kinds) == (1, {"Spread": 1})


PRICED = (bound("fallen", {"c": 4}, AGGREGATED, {"cpu": "500m"}, scheduler_observing_affinity_name="second"),)
PRICES = """
apiVersion: berthmaster.io/v1alpha1
kind: Prices
prices:
- {matchLabels: {name: c}, cpu: 0.05, memory: 0}
- {cpu: 0.01, memory: 0}
"""
SAVES = 4 * 0.5 * (0.01 - 0.05) * 730


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES)
    return path


def test_drift_says_what_each_repair_costs(prices):
    assert "; the minimal repair saves 58.40 a month (requests x price x 730 h); the full one saves" in run(
        f"--prices={prices}", fleet=PRICED
    )
    found = json.loads(run(f"--prices={prices}", "-o", "json", fleet=PRICED))
    assert found["cost"]["monthly"] == found["fullCost"]["monthly"] == pytest.approx(SAVES)
    assert found["workloads"][0]["cost"] == found["cost"]
    assert json.loads(run("-o", "json", fleet=PRICED))["cost"] is None


def test_a_simulation_says_what_its_moves_cost(prices):
    asked = ["simulate", "-f", "-", "--reschedule", f"--prices={prices}"]
    result = CliRunner().invoke(main, asked, input=documents(*PRICED))
    assert "4 replicas; saves 58.40 a month (requests x price x 730 h)" in result.stdout, result.output


@cases(
    ("text", "problem"),
    {
        "negative": (PRICES.replace("0.05", "-1"), "prices[0].cpu: -1 is not a price; accepted is a number"),
        "a word": (PRICES.replace("0.05", "cheap"), "prices[0].cpu: 'cheap' is a text, where a number is accepted"),
        "an unknown field": (PRICES.replace("matchLabels", "labels"), "prices[0].labels: unknown field"),
        "kind": ("kind: Costs", "is no list of prices; accepted is a document with kind: Prices"),
        "too large": ("#" * 2**20 + "#", "larger than 1048576 bytes"),
    },
)
def test_a_bad_file_of_prices_is_refused_with_field_value_and_remedy(prices, text, problem):
    prices.write_text(text)
    result = CliRunner().invoke(main, ["drift", "-f", "-", f"--prices={prices}"], input=documents(*PRICED))
    assert isinstance(result.exception, InputError)
    assert f"{prices}: {problem}" in str(result.exception)


def test_a_bad_annotation_is_a_warning():
    member = builtins(cluster("d", pods=1))
    member["metadata"]["annotations"] = {"policy.berthmaster.io/price": "free"}
    more = json.dumps({**CLUSTER, **member})
    result = CliRunner().invoke(main, ["drift", "-f", "-"], input=f"{documents(*PRICED)}\n---\n{more}")
    assert result.exit_code == 0
    assert "cluster d: metadata.annotations[policy.berthmaster.io/price]: 'free' is not a price" in result.stderr
