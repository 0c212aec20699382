"""Bounds from estimators reduce the available replicas of a cluster and never increase them."""

from dataclasses import replace

from builders import cluster
from decisions import AGGREGATED, DYNAMIC, asked, outcome
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

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


def test_overflow_starts_at_the_bound():
    groups = [
        {
            "affinityName": "main",
            "clusterNames": ["a"],
            "overflowAffinities": [{"affinityName": "", "clusterNames": ["b"]}],
        },
    ]
    _, _, decision = decide({"a": 3}, replicas=5, scheduling=AGGREGATED, groups=groups)
    assert decision.assignment == {"a": 3, "b": 2}


@cases(
    ("bounds", "expected"),
    {
        "the estimator, if its bound is smaller": ({"a": 4}, (4, ITS_ESTIMATOR)),
        "the resource, if both are equal": ({"a": 10}, (10, "pods")),
        "the resource, if only other estimators answered": ({"b": 4}, (10, "pods")),
        "the resource, if no estimator was asked": (None, (10, "pods")),
    },
)
def test_a_diagnosis_names_the_limit(bounds, expected):
    explained = explain(*decide(bounds, replicas=3, scheduling=DYNAMIC)).groups[0].clusters[0]
    assert (explained.capacity, explained.bound_by) == expected


@given(
    st.dictionaries(st.sampled_from([*PODS, "gone"]), st.integers(0, 12)),
    st.integers(1, 30),
    st.sampled_from([DYNAMIC, AGGREGATED]),
)
def test_a_bound_has_the_effect_of_a_smaller_summary(bounds, replicas, scheduling):
    smaller = [cluster(name, pods=min(pods, bounds.get(name, pods))) for name, pods in PODS.items()]
    expected = Scheduler(Fleet(smaller), karmada_profile()).schedule(
        Request.of(asked(replicas=replicas, scheduling=scheduling))
    )
    _, _, decision = decide(bounds, replicas=replicas, scheduling=scheduling)
    assert outcome(decision) == outcome(expected)
