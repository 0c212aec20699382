"""The record of a priority drop: everybody's turn, then it is cleared."""

import json

import pytest
from answers import ReadyAnswer
from preempting import WEB, Stage, owner, policy, refusing, template

from berthmaster.controllers.preemption.reconciler import NOT_CLEARED_WAIT_S
from berthmaster.model.claims import PRIORITY_DROP_ANNOTATION

DROP = '{"from": 7, "to": 3}'
DROPPED = policy("dropped", 3, always=False, drop=DROP)
DROPPED_C = policy("dropped-c", 3, always=False, cluster_scoped=True, drop=DROP)


def record(stage, of=DROPPED):
    """The annotation as it is stored."""
    return stage.get(of)["metadata"].get("annotations", {}).get(PRIORITY_DROP_ANNOTATION)


def of(name):
    return {**WEB, "name": name}


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(8, "other"), (7, "other"), (4, "other"), (3, "dropped"), (2, "dropped")],
    ids=["above", "at the top", "inside", "at the bottom", "below"],
)
def test_who_may_preempt_now_does_and_the_record_is_cleared(priority, expected):
    """Above the range one could all along, and it was this policy's own appearance that made it look."""
    stage = Stage(template(DROPPED), policy("other", priority), DROPPED)
    stage.work()
    assert owner(stage.web()) == expected
    assert record(stage) is None


def test_cluster_policies_have_drops_of_their_own():
    other = policy("other-c", 5, cluster_scoped=True)
    stage = Stage(template(DROPPED_C), other, DROPPED_C)
    stage.work()
    assert owner(stage.web()) == "other-c"
    assert record(stage, DROPPED_C) is None


def test_it_does_not_matter_whether_the_dropped_policy_holds_anything():
    weak = policy("weak", 1, always=False)
    stage = Stage(template(weak), weak, policy("other", 5))
    stage.overlook()
    stage.put(DROPPED)
    stage.work()
    assert owner(stage.web()) == "other"
    assert record(stage) is None


def test_only_the_annotation_goes_and_only_under_guard():
    stage = Stage(policy("other", 5), DROPPED)
    before = stage.get(DROPPED)
    stage.work()
    (write,) = stage.api.writes()
    version = before["metadata"]["resourceVersion"]
    assert json.loads(write.body) == {
        "metadata": {"resourceVersion": version, "annotations": {PRIORITY_DROP_ANNOTATION: None}}
    }
    assert stage.get(DROPPED)["spec"] == before["spec"]


def test_the_turns_come_before_the_clearing_and_the_strongest_first():
    weak = policy("weak", 1, always=False)
    stage = Stage(
        *(template(weak, of=of(name)) for name in "abc"),
        weak,
        policy("low", 4, names=[of("c"), of("a")]),
        policy("high", 6, names=[of("b"), of("a")]),
    )
    stage.overlook()
    stage.put(DROPPED)
    stage.work()
    written = [request.path.rpartition("/")[2] for request in stage.api.writes()]
    assert written == ["b", "a", "c", "dropped"]
    assert [owner(stage.get(template(of=of(name)))) for name in "abc"] == ["high", "high", "low"]


def test_a_failed_turn_keeps_the_record_and_does_not_hold_up_the_others():
    weak = policy("weak", 1, always=False)
    stage = Stage(
        template(weak, of=of("a")),
        template(weak, of=of("b")),
        weak,
        policy("other", 5, names=[of("a"), of("b")]),
        DROPPED,
    )
    stage.api.before = refusing(500, part="/deployments/a", times=2)
    assert stage.work().count("error") == 2, "the record's turn, and the resource's own"
    assert record(stage) == DROP
    assert owner(stage.get(template(of=of("b")))) == "other"
    stage.later()
    stage.later()
    assert owner(stage.get(template(of=of("a")))) == "other"
    assert record(stage) is None


@pytest.mark.parametrize("status", [0, 429, 503], ids=["away", "has too much to do", "not ready"])
def test_a_server_that_is_lost_is_not_asked_for_all_the_others(status):
    weak = policy("weak", 1, always=False)
    stage = Stage(
        *(template(weak, of=of(name)) for name in "abc"),
        weak,
        policy("other", 5, names=[of(name) for name in "abc"]),
    )
    stage.overlook()
    stage.put(DROPPED)
    stage.api.before = refusing(status, method="GET", part="/deployments/", times=3)
    assert stage.work() == ["error"]
    assert sum("/deployments/" in request.path for request in stage.api.requests) == 1
    for _ in range(3):
        stage.later()
    assert [owner(stage.get(template(of=of(name)))) for name in "abc"] == ["other"] * 3
    assert record(stage) is None


def test_a_record_that_has_grown_meanwhile_is_not_lost():
    """Another fall between the turns and the clearing: who is next in the wider range gets a turn as well."""
    holder = policy("holder", 2, always=False)
    late = policy("late", 3)
    stage = Stage(template(holder), holder, late, DROPPED)
    fallen = policy("dropped", 1, always=False, drop='{"from": 7, "to": 1}')
    seen = []

    def fall(request):
        if request.method == "PATCH" and "dropped" in request.path and not seen:
            seen.append(stage.put(fallen, heard=False))

    stage.api.before = fall
    assert "conflict" in stage.work()
    assert record(stage) == '{"from": 7, "to": 1}'
    stage.later()
    assert owner(stage.web()) == "late"
    assert record(stage) is None


def test_a_record_that_admission_does_not_let_go_is_said_and_tried_again_later():
    stage = Stage(policy("other", 5), DROPPED)
    keeping = True
    send = stage.api.send

    def as_admission_would(request):
        answer = send(request)
        if request.method == "PATCH" and keeping:
            return ReadyAnswer([json.dumps(stage.put(DROPPED, heard=False)).encode()])
        return answer

    stage.api.send = as_admission_would
    assert "requeued" in stage.work()
    (told,) = stage.notebook.told
    assert (told.reason, told.regarding.name) == ("PriorityDropNotCleared", "dropped")
    assert "--drop-handler" in told.note
    assert stage.later(NOT_CLEARED_WAIT_S - 1) == []
    keeping = False
    assert stage.later(1) == ["success"]
    assert record(stage) is None


@pytest.mark.parametrize("text", ["", "{}", "gone", '{"from": 3, "to": 7}', '{"from": 3, "to": 3}', "[" * 100_000])
def test_what_is_no_record_is_left_alone(text):
    dropped = policy("dropped", 3, always=False, drop=text)
    stage = Stage(template(dropped), policy("other", 2), dropped)
    assert set(stage.work()) == {"success"}
    assert stage.api.writes() == []


def test_a_policy_that_is_gone_has_no_record():
    stage = Stage(policy("other", 5), DROPPED)
    stage.remove(DROPPED, heard=False)
    assert set(stage.work()) == {"success"}


def test_a_policy_that_goes_while_its_record_is_cleared_is_no_error():
    stage = Stage(policy("other", 5), DROPPED)
    stage.api.before = refusing(404, part="dropped")
    assert set(stage.work()) == {"success"}
