"""The record of priority drops, compared with a model that keeps the whole history."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reviews import admission_review, answer, operations, patched

from berthmaster.model.claims import PRIORITY_DROP_ANNOTATION, PriorityDrop, format_priority_drop, parse_priority_drop
from webhook.admission.reviews import record_after
from webhook.admission.settings import AdmissionSettings

HANDLER = "system:serviceaccount:berthmaster:controllers"
HANDLED_BY = AdmissionSettings(drop_handlers=frozenset({HANDLER}))
PATH = "/mutate-clusterpropagationpolicy"
PRIORITIES = st.integers(-4, 4)


def policy(priority=None, annotation=None, **metadata):
    if annotation is not None:
        metadata["annotations"] = {PRIORITY_DROP_ANNOTATION: annotation}
    spec = {"resourceSelectors": [{"apiVersion": "v1", "kind": "Node"}], "preemption": "Never"}
    if priority is not None:
        spec["priority"] = priority
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "p", **metadata},
        "spec": spec,
    }


def updated(old, new, username="alice", settings=HANDLED_BY):
    response = answer(PATH, admission_review(new, old, username=username), settings)
    return patched(new, response), response


def annotation(obj):
    return (obj["metadata"].get("annotations") or {}).get(PRIORITY_DROP_ANNOTATION)


def opened(text):
    drop = parse_priority_drop(text)
    return set() if drop is None else set(range(drop.to + 1, drop.from_ + 1))


@given(st.lists(PRIORITIES, min_size=2, max_size=7), st.data())
def test_the_record_is_the_range_since_the_last_handling(history, data):
    stored = policy(history[0])
    handled_at = history[0]
    peak = history[0]
    for priority in history[1:]:
        forged = data.draw(st.sampled_from([None, "keep", "{}", '{"from": 99, "to": -99}', "not json"]))
        text = annotation(stored) if forged == "keep" else forged
        stored, _ = updated(stored, policy(priority, text))
        # The peak is the highest priority since the last handling.
        peak = max(peak, priority) if priority < peak else priority
        assert opened(annotation(stored)) == set(range(priority + 1, peak + 1))
        if data.draw(st.booleans()):
            stored, _ = updated(stored, policy(priority), username=HANDLER)
            assert annotation(stored) is None
            peak = handled_at = priority
    assert handled_at in history


@given(PRIORITIES, PRIORITIES, st.none() | st.tuples(PRIORITIES, PRIORITIES), st.text(max_size=4) | st.none())
def test_a_second_call_changes_nothing(before, after, recorded, sent):
    text = format_priority_drop(PriorityDrop(from_=recorded[0], to=recorded[1])) if recorded else None
    old = policy(before, text)
    once, _ = updated(old, policy(after, sent))
    twice, response = updated(old, once)
    assert twice == once
    assert "patch" not in response


@pytest.mark.parametrize(
    ("stored", "before", "after", "expected"),
    [
        pytest.param(None, 9, 3, '{"from": 9, "to": 3}', id="a drop includes the old priority"),
        pytest.param('{"from": 9, "to": 3}', 3, 1, '{"from": 9, "to": 1}', id="two drops merge to the widest range"),
        pytest.param('{"from": 9, "to": 3}', 3, 5, '{"from": 9, "to": 5}', id="a partial rise narrows the record"),
        pytest.param('{"from": 9, "to": 3}', 3, 9, None, id="a rise to the start removes the record"),
        pytest.param('{"from": 9, "to": 3}', 3, 12, None, id="a rise above the start removes the record"),
        pytest.param('{"from": 9, "to": 3}', 3, 3, '{"from": 9, "to": 3}', id="an unrelated update keeps the record"),
        pytest.param(None, 3, 9, None, id="a rise records nothing"),
        pytest.param(None, None, -1, '{"from": 0, "to": -1}', id="no priority is priority 0"),
        pytest.param("garbage", 3, 3, None, id="an invalid record is removed"),
        pytest.param('{"from": 3, "to": 9}', 9, 9, None, id="an empty interval is removed"),
        pytest.param('{"from": 9, "to": 7}', 5, 5, '{"from": 9, "to": 5}', id="a missed drop is added"),
        pytest.param('{"from": 99999999999, "to": 0}', 0, 0, None, id="a priority above int32 is invalid"),
    ],
)
def test_the_record_after_an_update(stored, before, after, expected):
    mutated, _ = updated(policy(before, stored), policy(after, stored))
    assert annotation(mutated) == expected


@pytest.mark.parametrize("sent", [None, '{"from": 100, "to": 0}', '{"from":9,"to":3}', "{}"])
def test_a_manual_change_of_the_annotation_is_undone_with_a_warning(sent):
    stored = '{"from": 9, "to": 3}'
    mutated, response = updated(policy(3, stored), policy(3, sent))
    assert annotation(mutated) == stored
    assert any("is kept by the admission webhook" in each for each in response["warnings"])


def test_only_a_handler_may_clear_the_record_and_only_without_a_change_of_the_priority():
    stored = policy(3, '{"from": 9, "to": 3}')
    assert annotation(updated(stored, policy(3), HANDLER)[0]) is None
    assert annotation(updated(stored, policy(3), "mallory")[0]) == '{"from": 9, "to": 3}'
    assert annotation(updated(stored, policy(2), HANDLER)[0]) == '{"from": 9, "to": 2}'
    assert annotation(updated(stored, policy(3, '{"from": 5, "to": 3}'), HANDLER)[0]) == '{"from": 9, "to": 3}'


def test_a_new_policy_has_no_record():
    new = policy(3, '{"from": 9, "to": 3}')
    response = answer(PATH, admission_review(new))
    assert annotation(patched(new, response)) is None
    assert "has not dropped" in response["warnings"][0]


def test_the_warning_and_the_audit_log_name_the_range():
    _, response = updated(policy(9), policy(3), settings=AdmissionSettings(policy_preemption=True))
    assert response["auditAnnotations"] == {"priority-drop": '{"from": 9, "to": 3}'}
    [warning] = response["warnings"]
    assert "falls from 9 to 3" in warning
    assert "above 3, up to and including 9" in warning
    assert len(warning) <= 256


def test_a_dry_run_answers_the_same():
    review = admission_review(policy(3), policy(9))
    wet = answer(PATH, review)
    review["request"]["dryRun"] = True
    assert answer(PATH, review) == wet


def test_an_update_without_a_drop_gives_no_message():
    response = answer(PATH, admission_review(policy(3), policy(3)))
    assert operations(response) == []
    assert "warnings" not in response
    assert "auditAnnotations" not in response


@given(PRIORITIES, PRIORITIES)
def test_a_written_record_is_read(a, b):
    drop = PriorityDrop(from_=max(a, b) + 1, to=min(a, b))
    assert parse_priority_drop(format_priority_drop(drop)) == drop
    assert json.loads(format_priority_drop(drop)) == {"from": drop.from_, "to": drop.to}


def test_there_is_no_record_without_a_drop():
    assert record_after(None, 1, 1) is None


def test_a_drop_is_recorded_without_a_warning_while_no_policy_can_preempt():
    mutated, response = updated(policy(9), policy(3))
    assert annotation(mutated) == '{"from": 9, "to": 3}'
    assert "warnings" not in response
