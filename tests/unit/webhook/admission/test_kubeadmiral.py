"""Reviews of KubeAdmiral's policies, of rebalancers and of priority drops."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_pages import REBALANCER, made
from reviews import admission_review, answer, denied_fields, operations, patched
from tables import cases

from berthmaster.model.kinds import Scope
from berthmaster.model.priority_drops import (
    PRIORITY_DROP_ANNOTATION,
    PriorityDrop,
    format_priority_drop,
    parse_priority_drop,
)
from webhook.admission.priority_drops import record_after
from webhook.admission.settings import AdmissionSettings

MUTATE, VALIDATE = "/mutate-kubeadmiral-clusterpropagationpolicy", "/validate-kubeadmiral-clusterpropagationpolicy"


def policy(**spec):
    return {
        "apiVersion": "core.kubeadmiral.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "p"},
        "spec": {"schedulingMode": "Divide", **spec},
    }


def placed(**preferences):
    return {"placement": [{"cluster": "a", "preferences": preferences}]}


def expressed(operator, values, key="k", where="matchExpressions"):
    return {"clusterAffinity": [{where: [{"key": key, "operator": operator, "values": values}]}]}


@cases(
    ("spec", "fields"),
    {
        "a minimal spec": ({}, []),
        "a negative maxClusters": ({"maxClusters": -1}, ["spec.maxClusters"]),
        "maxClusters 1": ({"maxClusters": 1}, []),
        "preferences at their limits": (placed(weight=100, minReplicas=2, maxReplicas=2), []),
        "a negative weight": (placed(weight=-1), ["spec.placement[0].preferences.weight"]),
        "Gt with an integer": (expressed("Gt", ["3"]), []),
        "Gt with a word": (expressed("Gt", ["x"]), ["spec.clusterAffinity[0].matchExpressions[0]"]),
        "a match field": (expressed("In", ["a"], "metadata.name", "matchFields"), []),
        "a toleration of every taint": ({"tolerations": [{"operator": "Exists"}]}, []),
        "a duration": ({"autoMigration": {"when": {"podUnschedulableFor": "1h30m"}}}, []),
    },
)
def test_checks_beyond_the_rows_of_the_page(spec, fields):
    response = answer(VALIDATE, admission_review(policy(**spec)))
    assert denied_fields(response) == fields
    assert response["allowed"] is (fields == [])


PATH = "/validate-workloadrebalancer"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "reader"}
GADGET = {"apiVersion": "example.org/v1", "kind": "Gadget", "name": "g"}


def rebalancer(*workloads, **spec):
    return made(REBALANCER, {"workloads": list(workloads), **spec})


@cases(
    ("obj", "fields"),
    {
        "one of each scope": (rebalancer(WEB, ROLE, ttlSecondsAfterFinished=0), []),
        "an empty workload": (rebalancer({}), [f"spec.workloads[0].{f}" for f in ("apiVersion", "kind", "name")]),
    },
)
def test_checks_of_rebalancer(obj, fields):
    response = answer(PATH, admission_review(obj))
    assert denied_fields(response) == fields
    assert response["allowed"] is (fields == [])


def test_a_kind_of_unknown_scope_gives_a_warning_unless_its_scope_is_configured():
    assert "rebalancer-scope-unknown" in answer(PATH, admission_review(rebalancer(GADGET)))["warnings"][0]
    configured = AdmissionSettings(scopes={("example.org", "Gadget"): Scope.NAMESPACED})
    assert denied_fields(answer(PATH, admission_review(rebalancer(GADGET)), configured)) == [
        "spec.workloads[0].namespace"
    ]


@cases(
    ("path", "obj", "field"),
    {
        "KubeAdmiral": (VALIDATE, policy(maxClusters="many"), "spec.maxClusters"),
        "a rebalancer": (PATH, rebalancer(WEB, ttlSecondsAfterFinished="soon"), "spec.ttlSecondsAfterFinished"),
    },
)
def test_the_answer_names_a_value_of_the_wrong_type(path, obj, field):
    response = answer(path, admission_review(obj))
    assert response["status"]["code"] == 400
    assert field in response["status"]["message"]


HANDLER = "system:serviceaccount:berthmaster:controllers"
HANDLED_BY = AdmissionSettings(drop_handlers=frozenset({HANDLER}))
PRIORITY_DROP_PATH = "/mutate-clusterpropagationpolicy"
PRIORITIES = st.integers(-4, 4)


def policy_of_priority_drop(priority=None, annotation=None, **metadata):
    if annotation is not None:
        metadata["annotations"] = {PRIORITY_DROP_ANNOTATION: annotation}
    spec = {"resourceSelectors": [{"apiVersion": "v1", "kind": "Node"}], "preemption": "Never"}
    if priority is not None:
        spec["priority"] = priority
    return made("ClusterPropagationPolicy", {"metadata": metadata, **spec})


def updated(old, new, username="alice", settings=HANDLED_BY):
    response = answer(PRIORITY_DROP_PATH, admission_review(new, old, username=username), settings)
    return patched(new, response), response


def annotation(obj):
    return (obj["metadata"].get("annotations") or {}).get(PRIORITY_DROP_ANNOTATION)


def opened(text):
    drop = parse_priority_drop(text)
    return set() if drop is None else set(range(drop.to + 1, drop.from_ + 1))


@given(st.lists(PRIORITIES, min_size=2, max_size=7), st.data())
def test_the_record_is_the_range_since_the_last_handling(history, data):
    stored = policy_of_priority_drop(history[0])
    handled_at = history[0]
    peak = history[0]
    for priority in history[1:]:
        forged = data.draw(st.sampled_from([None, "keep", "{}", '{"from": 99, "to": -99}', "not json"]))
        text = annotation(stored) if forged == "keep" else forged
        stored, _ = updated(stored, policy_of_priority_drop(priority, text))
        # The peak is the highest priority since the last handling.
        peak = max(peak, priority) if priority < peak else priority
        assert opened(annotation(stored)) == set(range(priority + 1, peak + 1))
        if data.draw(st.booleans()):
            stored, _ = updated(stored, policy_of_priority_drop(priority), username=HANDLER)
            assert annotation(stored) is None
            peak = handled_at = priority
    assert handled_at in history


@given(PRIORITIES, PRIORITIES, st.none() | st.tuples(PRIORITIES, PRIORITIES), st.text(max_size=4) | st.none())
def test_a_second_call_changes_nothing(before, after, recorded, sent):
    text = format_priority_drop(PriorityDrop(from_=recorded[0], to=recorded[1])) if recorded else None
    old = policy_of_priority_drop(before, text)
    once, _ = updated(old, policy_of_priority_drop(after, sent))
    twice, response = updated(old, once)
    assert twice == once
    assert "patch" not in response


@cases(
    ("stored", "before", "after", "expected"),
    {
        "a drop includes the old priority": (None, 9, 3, '{"from": 9, "to": 3}'),
        "two drops merge to the widest range": ('{"from": 9, "to": 3}', 3, 1, '{"from": 9, "to": 1}'),
        "a partial rise narrows the record": ('{"from": 9, "to": 3}', 3, 5, '{"from": 9, "to": 5}'),
        "a rise to the start removes the record": ('{"from": 9, "to": 3}', 3, 9, None),
        "a rise above the start removes the record": ('{"from": 9, "to": 3}', 3, 12, None),
        "an unrelated update keeps the record": ('{"from": 9, "to": 3}', 3, 3, '{"from": 9, "to": 3}'),
        "a rise records nothing": (None, 3, 9, None),
        "no priority is priority 0": (None, None, -1, '{"from": 0, "to": -1}'),
        "an invalid record is removed": ("garbage", 3, 3, None),
        "an empty interval is removed": ('{"from": 3, "to": 9}', 9, 9, None),
        "a missed drop is added": ('{"from": 9, "to": 7}', 5, 5, '{"from": 9, "to": 5}'),
        "a priority above int32 is invalid": ('{"from": 99999999999, "to": 0}', 0, 0, None),
    },
)
def test_the_record_after_an_update(stored, before, after, expected):
    mutated, _ = updated(policy_of_priority_drop(before, stored), policy_of_priority_drop(after, stored))
    assert annotation(mutated) == expected


@pytest.mark.parametrize("sent", [None, '{"from": 100, "to": 0}', '{"from":9,"to":3}', "{}"])
def test_a_manual_change_of_the_annotation_is_undone_with_a_warning(sent):
    stored = '{"from": 9, "to": 3}'
    mutated, response = updated(policy_of_priority_drop(3, stored), policy_of_priority_drop(3, sent))
    assert annotation(mutated) == stored
    assert any("is kept by the admission webhook" in each for each in response["warnings"])


def test_only_a_handler_may_clear_the_record_and_only_without_a_change_of_the_priority():
    stored = policy_of_priority_drop(3, '{"from": 9, "to": 3}')
    assert annotation(updated(stored, policy_of_priority_drop(3), HANDLER)[0]) is None
    assert annotation(updated(stored, policy_of_priority_drop(3), "mallory")[0]) == '{"from": 9, "to": 3}'
    assert annotation(updated(stored, policy_of_priority_drop(2), HANDLER)[0]) == '{"from": 9, "to": 2}'
    assert (
        annotation(updated(stored, policy_of_priority_drop(3, '{"from": 5, "to": 3}'), HANDLER)[0])
        == '{"from": 9, "to": 3}'
    )


def test_a_new_policy_has_no_record():
    new = policy_of_priority_drop(3, '{"from": 9, "to": 3}')
    response = answer(PRIORITY_DROP_PATH, admission_review(new))
    assert annotation(patched(new, response)) is None
    assert "has not dropped" in response["warnings"][0]


def test_the_warning_and_the_audit_log_name_the_range():
    _, response = updated(
        policy_of_priority_drop(9), policy_of_priority_drop(3), settings=AdmissionSettings(policy_preemption=True)
    )
    assert response["auditAnnotations"] == {"priority-drop": '{"from": 9, "to": 3}'}
    [warning] = response["warnings"]
    assert "falls from 9 to 3" in warning
    assert "above 3, up to and including 9" in warning
    assert len(warning) <= 256


def test_a_dry_run_answers_the_same():
    review = admission_review(policy_of_priority_drop(3), policy_of_priority_drop(9))
    wet = answer(PRIORITY_DROP_PATH, review)
    review["request"]["dryRun"] = True
    assert answer(PRIORITY_DROP_PATH, review) == wet


def test_an_update_without_a_drop_gives_no_message():
    response = answer(PRIORITY_DROP_PATH, admission_review(policy_of_priority_drop(3), policy_of_priority_drop(3)))
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
    mutated, response = updated(policy_of_priority_drop(9), policy_of_priority_drop(3))
    assert annotation(mutated) == '{"from": 9, "to": 3}'
    assert "warnings" not in response
