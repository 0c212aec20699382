"""Who holds a resource after a reconcile, and after a recorded priority drop."""

import json
import logging
from itertools import permutations

import pytest
from faults import lose, only
from kube_in_memory import ReadyResponse
from preempting import WEB, C, P, Stage, owner, policy, refusing, template
from tables import cases

from berthmaster.controllers.preemption.reconciler import NOT_CLEARED_WAIT_S
from berthmaster.controllers.preemption.takeover import ORPHAN_WAIT_S
from berthmaster.model.policy_preemption import Resource
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION

WEB_KEY = Resource("apps/v1", "Deployment", "default", "web")
WEAK = policy("weak", 1, always=False)
STRONG = policy("strong", 2)
WEAK_C = policy("weak-c", 1, always=False, cluster_scoped=True)
STRONG_C = policy("strong-c", 2, cluster_scoped=True)


def test_the_claim_equals_the_detectors_and_is_guarded():
    stage = Stage(template(WEAK_C), WEAK_C, STRONG)
    before = stage.web()["metadata"]["resourceVersion"]
    stage.work()
    metadata = stage.web()["metadata"]
    assert metadata["labels"] == {"app": "web", f"{P}permanent-id": "id-strong"}
    assert metadata["annotations"] == {f"{P}namespace": "default", f"{P}name": "strong"}
    (write,) = stage.api.writes()
    assert json.loads(write.body)["metadata"]["resourceVersion"] == before
    assert "PartialObjectMetadata" in write.accept


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_one_takeover_regardless_of_number_and_order_of_challengers(order):
    preemptors = [policy("a", 5), policy("b", 7), policy("c", 7), policy("d", 9, cluster_scoped=True)]
    stage = Stage(template(WEAK_C), WEAK_C, *(preemptors[each] for each in order))
    stage.work()
    assert owner(stage.web()) == "b", "the first by name of the strongest"
    assert stage.takeovers() == 1


@cases(
    "metadata",
    {
        "it is being deleted": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "it is claimed externally": {
            "labels": {"resourcetemplate.karmada.io/claimed-by": "x", f"{P}permanent-id": "id-weak"}
        },
    },
)
def test_a_resource_is_not_taken_over(metadata):
    stage = Stage(template(WEAK, **metadata), WEAK, STRONG)
    assert set(stage.work()) == {"success"}
    assert owner(stage.web()) == "weak"


def test_a_missing_resource_is_not_an_error():
    stage = Stage(WEAK, STRONG)
    assert set(stage.work()) == {"success"}
    assert stage.recorder.events == []


def test_an_unserved_kind_is_not_an_error():
    stage = Stage(WEAK, policy("strong", 2, names=[{"apiVersion": "example.io/v1", "kind": "Widget", "name": "w"}]))
    assert set(stage.work()) == {"success"}


@cases(
    ("missing", "preemptor", "expected"),
    {
        "a PropagationPolicy, by another: left to the detector": (WEAK, STRONG, "weak"),
        "a ClusterPropagationPolicy, by another: left to the detector": (WEAK_C, STRONG_C, "weak-c"),
        "a PropagationPolicy, by a ClusterPropagationPolicy: left to the detector": (WEAK, STRONG_C, "weak"),
        "a ClusterPropagationPolicy, by a PropagationPolicy: taken over": (WEAK_C, STRONG, "strong"),
    },
)
def test_a_resource_whose_holder_does_not_exist(missing, preemptor, expected):
    stage = Stage(template(missing), preemptor)
    assert set(stage.work()) == {"success" if expected == "strong" else "requeued"}
    assert owner(stage.web()) == expected


def test_a_policy_recreated_with_lower_priority_loses_its_resource():
    """Karmada's detector may not have released the resource in between."""
    before = policy("strong-once", 9, always=False)
    stage = Stage(template(before), before, STRONG)
    stage.work()
    stage.remove(before)
    assert stage.work() == ["requeued"]
    stage.put(policy("strong-once", 1, always=False))
    stage.later(ORPHAN_WAIT_S)
    assert owner(stage.web()) == "strong"


def test_a_policy_without_a_permanent_id_takes_nothing_over_and_records_an_event():
    stage = Stage(template(WEAK), WEAK, policy("strong", 2, permanent_id=""))
    assert set(stage.work()) == {"success"}
    assert owner(stage.web()) == "weak"
    (event,) = stage.recorder.events
    assert (event.regarding.name, event.kind, event.reason) == ("strong", "Warning", "PreemptPolicyFailed")
    assert f"{P}permanent-id" in event.note

    stage.put(policy("strong", 2))
    stage.work()
    assert owner(stage.web()) == "strong"


def test_a_conflict_repeats_the_decision():
    """Karmada's controller was faster with a stronger policy: nothing is left to take over."""
    top = policy("top", 9, always=False)
    stage = Stage(template(WEAK), WEAK, STRONG, top)

    def interfere(request):
        if request.method == "PATCH" and owner(stage.web()) == "weak":
            stage.put(template(top))

    stage.api.before = interfere
    assert stage.work().count("conflict") == 1
    assert set(stage.later()) == {"success"}
    assert owner(stage.web()) == "top"
    assert stage.recorder.preemptions == [], "a conflict counts as neither"
    assert stage.recorder.events == []


def test_a_conflict_with_an_unrelated_change_only_delays():
    stage = Stage(template(WEAK), WEAK, STRONG)
    touched = []

    def touch(request):
        if request.method == "PATCH" and not touched:
            touched.append(stage.put({**stage.web(), "spec": {"replicas": 3}}))

    stage.api.before = touch
    assert "conflict" in stage.work()
    stage.later()
    assert owner(stage.web()) == "strong"
    assert stage.web()["spec"] == {"replicas": 3}


def test_a_resource_deleted_before_the_write_is_not_an_error():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.before = refusing(404)
    assert set(stage.work()) == {"success"}
    assert stage.recorder.preemptions == []


def test_a_refused_write_is_recorded_counted_and_retried():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.before = refusing(403)
    assert "error" in stage.work()
    assert [(each.regarding.kind, each.kind, each.reason) for each in stage.recorder.events] == [
        ("Deployment", "Warning", "PreemptPolicyFailed"),
        ("PropagationPolicy", "Warning", "PreemptPolicyFailed"),
    ]
    assert "403" in stage.recorder.events[0].note
    stage.later()
    assert owner(stage.web()) == "strong"
    assert stage.recorder.preemptions == ["error", "success"]


@cases("failed_reads", {"the server answers the next read": 0, "the server is unavailable for a while": 3})
def test_a_takeover_whose_response_was_lost_is_recorded_once_it_is_observed(failed_reads):
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.after = only(lose, "PATCH", times=1)
    assert "error" in stage.work()
    stage.api.before = refusing(503, method="GET", times=failed_reads)
    for _ in range(failed_reads + 1):
        stage.later()
    assert (owner(stage.web()), stage.takeovers()) == ("strong", 1)
    assert stage.recorder.preemptions == ["error", "success"]
    recorded = [each.regarding.name for each in stage.recorder.events if each.reason == "PreemptPolicySucceed"]
    assert recorded == ["web", "strong", "weak"]
    stage.enqueue(WEB_KEY)
    stage.work()
    assert stage.recorder.preemptions == ["error", "success"], "not recorded twice"


def test_an_unavailable_server_only_delays():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.before = refusing(503, method="GET", times=2)
    assert "error" in stage.work()
    stage.later()
    stage.later()
    assert owner(stage.web()) == "strong"


def test_a_takeover_records_events_on_the_resource_and_both_policies():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.work()
    taken, winner, loser = stage.recorder.events
    assert [each.regarding.name for each in (taken, winner, loser)] == ["web", "strong", "weak"]
    assert {each.reason for each in stage.recorder.events} == {"PreemptPolicySucceed"}
    assert {each.kind for each in stage.recorder.events} == {"Normal"}
    assert (
        taken.note
        == winner.note
        == loser.note
        == (
            "Propagation policy(default/strong) preempted propagation policy(default/weak) successfully: "
            "its priority 2 is higher than 1; it took over Deployment default/web"
        )
    )
    assert taken.regarding.uid == stage.web()["metadata"]["uid"]
    assert (winner.regarding.uid, loser.regarding.uid) == ("uid-of-strong", "uid-of-weak")
    assert (taken.related, winner.related, loser.related) == (winner.regarding, taken.regarding, taken.regarding)
    assert stage.recorder.preemptions == ["success"]


def test_the_reason_between_kinds_is_the_kind():
    stage = Stage(template(WEAK_C), WEAK_C, policy("any", -9))
    stage.work()
    note = stage.recorder.events[0].note
    assert note.startswith("Propagation policy(default/any) preempted cluster propagation policy(")
    assert "successfully: a PropagationPolicy precedes every ClusterPropagationPolicy; " in note


@cases(
    "now",
    {
        "dropped in priority": policy("strong", 1),
        "no longer preempts": policy("strong", 2, always=False),
        "names another resource": policy("strong", 2, names=[{**WEB, "name": "other"}]),
        "lost its permanent id": policy("strong", 2, permanent_id=""),
        "was deleted": None,
    },
)
def test_a_fresh_read_of_the_challenger_precedes_the_write(now):
    stage = Stage(template(WEAK), WEAK, STRONG)
    if now is None:
        stage.remove(STRONG, observed=False)
    else:
        stage.put(now, observed=False)
    stage.work()
    assert owner(stage.web()) == "weak"


def test_a_fresh_read_of_the_holder_precedes_the_write():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.put(policy("weak", 2, always=False), observed=False)
    stage.work()
    assert owner(stage.web()) == "weak"


def test_an_unobserved_holder_is_read():
    """The resource may be observed before the policy that claims it."""
    stage = Stage(template(), STRONG)
    stage.work()
    stage.put(WEAK, observed=False)
    stage.put(template(WEAK))
    stage.enqueue(WEB_KEY)
    stage.work()
    assert owner(stage.web()) == "strong"


def test_a_resource_with_both_claims_belongs_to_the_propagation_policy():
    both = template(WEAK)
    both["metadata"]["annotations"][f"{C}name"] = "weak-c"
    both["metadata"]["labels"][f"{C}permanent-id"] = "id-weak-c"
    stage = Stage(both, WEAK, WEAK_C, STRONG_C, policy("even", 1))
    stage.work()
    assert owner(stage.web()) == "weak/weak-c", "neither a ClusterPropagationPolicy nor an equal policy takes it over"
    stage.put(STRONG)
    stage.work()
    assert owner(stage.web()) == "strong"


def test_an_annotation_with_path_characters_is_never_requested():
    crooked = template(WEAK)
    crooked["metadata"]["annotations"][f"{P}name"] = "../../secrets/x"
    stage = Stage(crooked, WEAK, STRONG)
    assert set(stage.work()) == {"success"}
    assert not [request for request in stage.api.requests if "secrets" in request.path]


@pytest.fixture
def logged(caplog, monkeypatch):
    """Return a function that returns the records of this controller, unlimited: level, message and fields."""
    for name in ("berthmaster.preemption", "berthmaster.preemption.steps"):
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    caplog.set_level("DEBUG", "berthmaster.preemption")
    return lambda level: [
        (each.getMessage(), each.fields)
        for each in caplog.records
        if each.name.startswith("berthmaster.preemption") and each.levelname == level
    ]


def test_a_takeover_is_one_info_record(logged):
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.work()
    ((message, fields),) = logged("INFO")
    assert message == "takeover"
    assert fields.pop("duration_ms") >= 0
    assert fields == {
        "resource": "Deployment default/web",
        "api_version": "apps/v1",
        "before": "PropagationPolicy default/weak",
        "after": "PropagationPolicy default/strong",
        "reason": "its priority 2 is higher than 1",
    }


def test_a_failed_write_is_one_info_record_with_its_problem(logged):
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.before = refusing(403)
    stage.work()
    ((message, fields),) = logged("INFO")
    assert (message, fields["after"]) == ("takeover not written", "PropagationPolicy default/strong")
    assert "403" in fields["problem"]


@cases(
    ("objects", "step"),
    {
        "a missing resource": ([WEAK, STRONG], "the resource cannot be taken over"),
        "an unclaimed resource": ([template(), STRONG], "no policy holds the resource"),
        "the strongest holds it": ([template(STRONG), STRONG], "no policy may take the resource over"),
    },
)
def test_a_reconcile_without_a_takeover_is_a_debug_record(logged, objects, step):
    Stage(*objects).work()
    assert logged("INFO") == []
    assert step in [message for message, _ in logged("DEBUG")]


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
