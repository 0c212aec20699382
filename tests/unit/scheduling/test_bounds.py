"""What estimators inside members say bounds what a cluster takes, and never widens it."""

from dataclasses import replace

import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked, outcome, spread
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.selection import ITS_ESTIMATOR
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

PODS = {"a": 10, "b": 10, "c": 10}


def decide(bounds, **fields):
    scheduler = Scheduler(Fleet([cluster(name, pods=pods) for name, pods in PODS.items()]), karmada_profile())
    request = replace(Request.of(asked(**fields)), bounds=bounds)
    return scheduler, request, scheduler.schedule(request)


@pytest.mark.parametrize(
    ("bounds", "fields", "expected"),
    [
        pytest.param(None, {"replicas": 9}, {"a": 3, "b": 3, "c": 3}, id="nobody was asked"),
        pytest.param({}, {"replicas": 9}, {"a": 3, "b": 3, "c": 3}, id="nobody answered"),
        pytest.param({"a": 4}, {"replicas": 24}, {"a": 4, "b": 10, "c": 10}, id="a bounded cluster gets fewer"),
        pytest.param({"a": 0}, {"replicas": 8}, {"b": 4, "c": 4}, id="one without room gets none"),
        pytest.param({"a": 99}, {"replicas": 31}, "Insufficient", id="a bound above the summary widens nothing"),
        pytest.param({"a": 2**40}, {"replicas": 30}, {"a": 10, "b": 10, "c": 10}, id="however large it is"),
        pytest.param({"a": 5}, {"replicas": 26}, "Insufficient", id="all bounds together decide what fits"),
        pytest.param(
            {"gone": 1}, {"replicas": 9}, {"a": 3, "b": 3, "c": 3}, id="a cluster that has left plays no part"
        ),
        pytest.param(
            {"a": 0}, {"replicas": 9, "clusters": {"a": 5}}, {"a": 5, "b": 2, "c": 2}, id="what is there stays there"
        ),
        pytest.param(
            {"a": 1},
            {"replicas": 26, "clusters": {"a": 5}, "fresh": True},
            {"a": 6, "b": 10, "c": 10},
            id="afresh, replicas that are there come on top of the bound",
        ),
        pytest.param(
            {"a": 1, "b": 2},
            {"replicas": 3, "spread": [spread("cluster", 1, 1)]},
            {"c": 3},
            id="selection goes by the bound",
        ),
        pytest.param({"a": 0}, {"replicas": 0, "requests": {}}, {}, id="without replicas nothing is estimated"),
        pytest.param(
            {"a": 0},
            {"replicas": 2, "scheduling": DUPLICATED},
            {"a": 2, "b": 2, "c": 2},
            id="copies do not ask for room",
        ),
    ],
)
def test_bounds_are_the_least_of_what_is_said(bounds, fields, expected):
    _, _, decision = decide(bounds, **{"scheduling": DYNAMIC, **fields})
    assert outcome(decision) == expected


def test_a_group_that_its_estimators_bound_is_left_for_the_next():
    groups = [{"affinityName": "near", "clusterNames": ["a"]}, {"affinityName": "far", "clusterNames": ["b"]}]
    _, _, decision = decide({"a": 3}, replicas=5, scheduling=AGGREGATED, groups=groups)
    assert (decision.group, decision.assignment) == ("far", {"b": 5})


def test_overflow_begins_where_the_bound_ends():
    groups = [
        {
            "affinityName": "main",
            "clusterNames": ["a"],
            "overflowAffinities": [{"affinityName": "", "clusterNames": ["b"]}],
        },
    ]
    _, _, decision = decide({"a": 3}, replicas=5, scheduling=AGGREGATED, groups=groups)
    assert decision.assignment == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param({"a": 4}, (4, ITS_ESTIMATOR), id="its estimator, where that says less"),
        pytest.param({"a": 10}, (10, "pods"), id="the resource, where both say the same"),
        pytest.param({"b": 4}, (10, "pods"), id="the resource, where only others answered"),
        pytest.param(None, (10, "pods"), id="the resource, where nobody was asked"),
    ],
)
def test_a_diagnosis_names_what_bounds(bounds, expected):
    told = explain(*decide(bounds, replicas=3, scheduling=DYNAMIC)).groups[0].clusters[0]
    assert (told.capacity, told.bound_by) == expected


@given(
    st.dictionaries(st.sampled_from([*PODS, "gone"]), st.integers(0, 12)),
    st.integers(1, 30),
    st.sampled_from([DYNAMIC, AGGREGATED]),
)
def test_a_bound_decides_as_a_smaller_summary_would(bounds, replicas, scheduling):
    smaller = [cluster(name, pods=min(pods, bounds.get(name, pods))) for name, pods in PODS.items()]
    expected = Scheduler(Fleet(smaller), karmada_profile()).schedule(
        Request.of(asked(replicas=replicas, scheduling=scheduling))
    )
    _, _, decision = decide(bounds, replicas=replicas, scheduling=scheduling)
    assert outcome(decision) == outcome(expected)
