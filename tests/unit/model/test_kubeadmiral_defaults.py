import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.kubeadmiral_defaults import defaulted_spec

WHEN = {
    "policyContentChanged": True,
    "clusterJoined": False,
    "clusterLabelsChanged": False,
    "clusterAPIResourcesChanged": False,
}
AVOID = {"avoidDisruption": True}
WHOLE = {"rescheduleWhen": WHEN, "replicaRescheduling": AVOID}


@pytest.mark.parametrize(
    ("given_policy", "by_crd", "documented"),
    [
        pytest.param(None, WHOLE, {"disableRescheduling": False, **WHOLE}, id="absent"),
        pytest.param(
            {},
            {"replicaRescheduling": AVOID},
            {"disableRescheduling": False, **WHOLE},
            id="empty: the CRD leaves open when",
        ),
        pytest.param(
            {"disableRescheduling": True},
            {"disableRescheduling": True, "replicaRescheduling": AVOID},
            {"disableRescheduling": True, **WHOLE},
            id="disabled",
        ),
        pytest.param(
            {"rescheduleWhen": {"clusterJoined": True, "policyContentChanged": False}},
            {**WHOLE, "rescheduleWhen": {**WHEN, "clusterJoined": True, "policyContentChanged": False}},
            {
                "disableRescheduling": False,
                **WHOLE,
                "rescheduleWhen": {**WHEN, "clusterJoined": True, "policyContentChanged": False},
            },
            id="what is said stays, the rest is completed",
        ),
        pytest.param(
            {"rescheduleWhen": {}, "replicaRescheduling": {}},
            WHOLE,
            {"disableRescheduling": False, **WHOLE},
            id="empty objects are completed",
        ),
        pytest.param(
            {"rescheduleWhen": None, "replicaRescheduling": {"avoidDisruption": False}},
            {"rescheduleWhen": None, "replicaRescheduling": {"avoidDisruption": False}},
            {"disableRescheduling": False, "rescheduleWhen": WHEN, "replicaRescheduling": {"avoidDisruption": False}},
            id="null is absent",
        ),
    ],
)
def test_rescheduling(given_policy, by_crd, documented):
    spec = {} if given_policy is None else {"reschedulePolicy": given_policy}
    assert defaulted_spec(spec)["reschedulePolicy"] == by_crd
    assert defaulted_spec(spec, documented=True)["reschedulePolicy"] == documented


@pytest.mark.parametrize(
    ("given_spec", "migration"),
    [
        pytest.param({}, None, id="absent is off"),
        pytest.param({"autoMigration": None}, None, id="null is off"),
        pytest.param(
            {"autoMigration": {}},
            {"when": {"podUnschedulableFor": "1m"}, "keepUnschedulableReplicas": False},
            id="given is on, with defaults",
        ),
        pytest.param(
            {"autoMigration": {"when": {"podUnschedulableFor": "5m"}, "keepUnschedulableReplicas": True}},
            {"when": {"podUnschedulableFor": "5m"}, "keepUnschedulableReplicas": True},
            id="what is said stays",
        ),
    ],
)
def test_auto_migration(given_spec, migration):
    assert defaulted_spec(given_spec).get("autoMigration") == migration


@pytest.mark.parametrize(
    ("strategy", "expected"), [(None, "Spread"), ("", "Spread"), ("Binpack", "Binpack"), ("Other", "Other")]
)
def test_replicas_strategy(strategy, expected):
    assert defaulted_spec({"replicasStrategy": strategy})["replicasStrategy"] == expected


@pytest.mark.parametrize("wrong", ["text", 3, [1], True])
def test_what_is_of_the_wrong_type_is_for_others_to_refuse(wrong):
    spec = {"reschedulePolicy": wrong, "autoMigration": wrong, "replicasStrategy": "Spread"}
    assert defaulted_spec(spec) == spec


LEAVES = st.none() | st.booleans() | st.text(max_size=3)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "schedulingMode": LEAVES,
        "replicasStrategy": LEAVES,
        "reschedulePolicy": LEAVES
        | st.fixed_dictionaries(
            {},
            optional={
                "disableRescheduling": LEAVES,
                "rescheduleWhen": LEAVES | st.dictionaries(st.sampled_from([*WHEN, "other"]), LEAVES),
                "replicaRescheduling": LEAVES | st.dictionaries(st.sampled_from(["avoidDisruption"]), LEAVES),
            },
        ),
        "autoMigration": LEAVES | st.dictionaries(st.sampled_from(["when", "keepUnschedulableReplicas"]), LEAVES),
    },
)


@given(SPECS, st.booleans())
def test_what_has_its_defaults_gets_no_more_and_what_was_given_is_left_alone(spec, documented):
    before = copy.deepcopy(spec)
    once = defaulted_spec(spec, documented=documented)
    assert spec == before
    assert defaulted_spec(once, documented=documented) == once
    assert all(once[key] == value for key, value in spec.items() if isinstance(value, bool) or key == "schedulingMode")
