"""A recorded priority drop: preemption of newly eligible policies, then removal of the record."""

import json
import logging

import pytest
from kube_in_memory import ReadyResponse
from preempting import WEB, Stage, owner, policy, refusing, template
from tables import cases

from berthmaster.controllers.preemption.reconciler import NOT_CLEARED_WAIT_S
from berthmaster.model.claims import PRIORITY_DROP_ANNOTATION

DROP = '{"from": 7, "to": 3}'
DROPPED = policy("dropped", 3, always=False, drop=DROP)
DROPPED_C = policy("dropped-c", 3, always=False, cluster_scoped=True, drop=DROP)


def record(stage, of=DROPPED):
    return stage.get(of)["metadata"].get("annotations", {}).get(PRIORITY_DROP_ANNOTATION)


def of(name):
    return {**WEB, "name": name}


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(8, "other"), (7, "other"), (4, "other"), (3, "dropped"), (2, "dropped")],
    ids=["above the range", "at its top", "inside", "at its bottom", "below"],
)
def test_newly_eligible_policies_preempt_and_the_record_is_removed(priority, expected):
    """A policy above the range was eligible before. Its own creation triggers the takeover."""
    stage = Stage(template(DROPPED), policy("other", priority), DROPPED)
    stage.work()
    assert owner(stage.web()) == expected
    assert record(stage) is None


def test_cluster_policies_have_their_own_drops():
    other = policy("other-c", 5, cluster_scoped=True)
    stage = Stage(template(DROPPED_C), other, DROPPED_C)
    stage.work()
    assert owner(stage.web()) == "other-c"
    assert record(stage, DROPPED_C) is None


def test_the_dropped_policy_need_not_hold_a_resource():
    weak = policy("weak", 1, always=False)
    stage = Stage(template(weak), weak, policy("other", 5))
    stage.clear_queue()
    stage.put(DROPPED)
    stage.work()
    assert owner(stage.web()) == "other"
    assert record(stage) is None


def test_the_write_removes_only_the_annotation_and_is_guarded():
    stage = Stage(policy("other", 5), DROPPED)
    before = stage.get(DROPPED)
    stage.work()
    (write,) = stage.api.writes()
    version = before["metadata"]["resourceVersion"]
    assert json.loads(write.body) == {
        "metadata": {"resourceVersion": version, "annotations": {PRIORITY_DROP_ANNOTATION: None}}
    }
    assert stage.get(DROPPED)["spec"] == before["spec"]


def test_takeovers_precede_the_removal_and_the_strongest_policy_is_first():
    weak = policy("weak", 1, always=False)
    stage = Stage(
        *(template(weak, of=of(name)) for name in "abc"),
        weak,
        policy("low", 4, names=[of("c"), of("a")]),
        policy("high", 6, names=[of("b"), of("a")]),
    )
    stage.clear_queue()
    stage.put(DROPPED)
    stage.work()
    written = [request.path.rpartition("/")[2] for request in stage.api.writes()]
    assert written == ["b", "a", "c", "dropped"]
    assert [owner(stage.get(template(of=of(name)))) for name in "abc"] == ["high", "high", "low"]


def test_a_failed_takeover_keeps_the_record_and_does_not_stop_the_others():
    weak = policy("weak", 1, always=False)
    stage = Stage(
        template(weak, of=of("a")),
        template(weak, of=of("b")),
        weak,
        policy("other", 5, names=[of("a"), of("b")]),
        DROPPED,
    )
    stage.api.before = refusing(500, part="/deployments/a", times=2)
    assert stage.work().count("error") == 2, "one for the record, one for the resource itself"
    assert record(stage) == DROP
    assert owner(stage.get(template(of=of("b")))) == "other"
    stage.later()
    stage.later()
    assert owner(stage.get(template(of=of("a")))) == "other"
    assert record(stage) is None


@cases("status", {"no response": 0, "too many requests": 429, "unavailable": 503})
def test_an_unavailable_server_stops_the_remaining_takeovers(status):
    weak = policy("weak", 1, always=False)
    stage = Stage(
        *(template(weak, of=of(name)) for name in "abc"),
        weak,
        policy("other", 5, names=[of(name) for name in "abc"]),
    )
    stage.clear_queue()
    stage.put(DROPPED)
    stage.api.before = refusing(status, method="GET", part="/deployments/", times=3)
    assert stage.work() == ["error"]
    assert sum("/deployments/" in request.path for request in stage.api.requests) == 1
    for _ in range(3):
        stage.later()
    assert [owner(stage.get(template(of=of(name)))) for name in "abc"] == ["other"] * 3
    assert record(stage) is None


def test_a_record_that_changes_before_its_removal_is_not_lost():
    """A second drop comes between the takeovers and the removal. The wider range is handled as well."""
    holder = policy("holder", 2, always=False)
    late = policy("late", 3)
    stage = Stage(template(holder), holder, late, DROPPED)
    dropped_again = policy("dropped", 1, always=False, drop='{"from": 7, "to": 1}')
    seen = []

    def drop_again(request):
        if request.method == "PATCH" and "dropped" in request.path and not seen:
            seen.append(stage.put(dropped_again, observed=False))

    stage.api.before = drop_again
    assert "conflict" in stage.work()
    assert record(stage) == '{"from": 7, "to": 1}'
    stage.later()
    assert owner(stage.web()) == "late"
    assert record(stage) is None


def test_a_record_that_admission_restores_is_reported_and_retried_later():
    stage = Stage(policy("other", 5), DROPPED)
    restoring = True
    send = stage.api.send

    def as_admission_would(request):
        answer = send(request)
        if request.method == "PATCH" and restoring:
            return ReadyResponse([json.dumps(stage.put(DROPPED, observed=False)).encode()])
        return answer

    stage.api.send = as_admission_would
    assert "requeued" in stage.work()
    (event,) = stage.recorder.events
    assert (event.reason, event.regarding.name) == ("PriorityDropNotCleared", "dropped")
    assert "--drop-handler" in event.note
    assert stage.later(NOT_CLEARED_WAIT_S - 1) == []
    restoring = False
    assert stage.later(1) == ["success"]
    assert record(stage) is None


@pytest.mark.parametrize("text", ["", "{}", "gone", '{"from": 3, "to": 7}', '{"from": 3, "to": 3}', "[" * 100_000])
def test_an_invalid_record_is_ignored(text):
    dropped = policy("dropped", 3, always=False, drop=text)
    stage = Stage(template(dropped), policy("other", 2), dropped)
    assert set(stage.work()) == {"success"}
    assert stage.api.writes() == []


def test_a_deleted_policy_is_ignored():
    stage = Stage(policy("other", 5), DROPPED)
    stage.remove(DROPPED, observed=False)
    assert set(stage.work()) == {"success"}


def test_a_policy_deleted_before_the_removal_is_not_an_error():
    stage = Stage(policy("other", 5), DROPPED)
    stage.api.before = refusing(404, part="dropped")
    assert set(stage.work()) == {"success"}


def test_a_handled_drop_is_one_info_record(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("berthmaster.preemption"), "filters", [])
    caplog.set_level("INFO", "berthmaster.preemption")
    Stage(policy("other", 5), DROPPED).work()
    (record,) = [each for each in caplog.records if each.getMessage() == "priority drop handled"]
    assert record.fields.pop("duration_ms") >= 0
    assert record.fields == {"policy": "PropagationPolicy default/dropped", "before": 7, "after": 3}


def test_a_drop_and_its_takeovers_are_recorded_in_the_ledger():
    stage = Stage(template(DROPPED), policy("other", 5), DROPPED)
    stage.work()
    takeover, drop = stage.ledger
    assert (takeover.kind, takeover.namespace, takeover.resource_kind, takeover.name, takeover.policy) == (
        "preemption", "default", "Deployment", "web", "PropagationPolicy default/other",
    )  # fmt: skip
    assert "PropagationPolicy default/other took over" in takeover.message
    assert (drop.kind, drop.name, drop.policy) == ("priority-drop", "dropped", "PropagationPolicy default/dropped")
    assert "fell from 7 to 3" in drop.message
