"""The review of a change's impact: warnings, audit annotations, the gate, and the annotation that accepts a plan."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_pages import made
from reviews import FRESH_ID, admission_review, patched
from tables import cases

from webhook.admission import wire
from webhook.admission.blast_radius import BlastRadius
from webhook.admission.catalog import ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.gate import ACCEPT_PLAN
from webhook.admission.gate_decision import GateResult
from webhook.admission.impact import NotComputed, PolicyImpact, Unanswered
from webhook.admission.impact_texts import MAX_LENGTH, MAX_LINES, warnings
from webhook.admission.large import review_body
from webhook.admission.settings import AdmissionSettings, Level

PATH = "/impact-propagationpolicy"
SELECTORS = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
POLICY = made("PropagationPolicy", {"metadata": {"name": "web"}, "resourceSelectors": SELECTORS, "priority": 1})
CHANGED = {**POLICY, "spec": {**POLICY["spec"], "priority": 2}}
LATE = NotComputed(Unanswered.TIMEOUT, "the extender did not answer within 300 ms")
LIMIT = BlastRadius(moved=50, lost=0)


def impact(plan="p1", **counts):
    known = {"workloads": 41, "concerned": 5, "moved": 3, "replicas": 40, "lost": 1, "short": 0, "deleted": 3}
    return PolicyImpact(plan, **{**known, **counts})


AWAY = NotComputed(Unanswered.UNREACHABLE, "the extender cannot be reached", unreachable=True)
SMALL, LARGE = impact(lost=0), impact("p2", moved=51, workloads=500)
MANY, FEW = (impact("", moved=moved, workloads=500, lost=0, complete=False) for moved in (51, 3))
"""The lower bounds of changes that were not planned in full."""


class Known:
    """A source that always gives one answer, or another one for a deletion, and records the changes."""

    def __init__(self, answer, deletion=None):
        self._answer, self._deletion = answer, deletion
        self.asked = []

    def impact(self, change):
        self.asked.append(change)
        return self._deletion if change.deletes and self._deletion is not None else self._answer


def reviewed(
    source,
    obj,
    old=None,
    *,
    level=Level.OFF,
    path=PATH,
    exempt=(),
    unreachable=Level.WARN,
    unjudged=Level.DENY,
    **request,
):
    settings = AdmissionSettings(
        levels={"blast-radius": level},
        blast_radius=LIMIT,
        unreachable=unreachable,
        unjudged=unjudged,
        exempt_users=frozenset(exempt),
        exempt_groups=frozenset({"oncall"}),
    )
    body = json.dumps(admission_review(obj, old, **request)).encode()
    context = AdmissionContext(settings, lambda: FRESH_ID, source)
    head, outcome = review_body(ROUTES[path], body, context)
    return outcome, json.loads(wire.encode(head.uid, outcome))["response"]


def annotated(policy, plan):
    return {**policy, "metadata": {**policy["metadata"], "annotations": {ACCEPT_PLAN: plan}}}


@cases(
    ("answer", "lines"),
    {
        "totals, the worst, the id of the plan": (
            impact(worst=("shop/Deployment/a would have no place", "shop/Deployment/b leaves c")),
            [
                "3 of 41 workloads move, 40 replicas; 1 would have no place",
                "shop/Deployment/a would have no place",
                "shop/Deployment/b leaves c",
                "plan p1",
            ],
        ),
        "nothing moves": (
            impact(moved=0, replicas=0, lost=0),
            ["no workload moves: the change concerns 5 of 41", "plan p1"],
        ),
        "a policy that concerns no workload": (
            impact(moved=0, replicas=0, lost=0, concerned=0),
            [
                "no workload moves: the change concerns 0 of 41",
                "the policy selects no workload that is known, or other policies hold all that it selects",
                "plan p1",
            ],
        ),
        "an incomplete answer is never a whole one": (
            impact(moved=0, replicas=0, lost=0, complete=False, gaps=("the labels of x are not known", "b")),
            [
                "at least 0 workloads move: the change concerns at least 5 of 41",
                "not everything is known (and 1 more): the labels of x are not known",
                "plan p1",
            ],
        ),
        "at most five lines": (
            impact(short=2, complete=False, worst=("a", "b", "c"), gaps=("g",)),
            [
                "at least 3 of 41 workloads move, 40 replicas; 1 would have no place; 2 would lack replicas",
                "not everything is known: g",
                "a",
                "b",
                "plan p1",
            ],
        ),
        "a switch that cannot be read is named": (
            impact(lost=0, assumes_preemption=True),
            ["3 of 41 workloads move, 40 replicas; if preemption is on", "plan p1"],
        ),
        "a Lazy policy moves workloads later": (
            impact(lost=0, lazy=True),
            ["3 of 41 workloads move, 40 replicas; when their templates change", "plan p1"],
        ),
        "an impact that is not known": (LATE, ["impact not computed: the extender did not answer within 300 ms"]),
    },
)
def test_warnings(answer, lines):
    outcome, response = reviewed(Known(answer), CHANGED, POLICY)
    assert outcome.allowed
    assert response["warnings"] == lines


def test_a_deletion_that_concerns_no_workload_is_no_mistake():
    found = warnings(impact(moved=0, replicas=0, lost=0, concerned=0), deletes=True)
    assert found == ("no workload moves: the change concerns 0 of 41", "plan p1")


TEXTS = st.lists(st.text(max_size=300).map("x".__add__), max_size=8)


@given(TEXTS, TEXTS, st.booleans())
def test_warnings_are_few_short_lines_without_control_characters(worst, gaps, complete):
    lines = warnings(impact(worst=tuple(worst), gaps=tuple(gaps), complete=complete))
    assert len(lines) <= MAX_LINES
    assert all(0 < len(each) <= MAX_LENGTH and each.isprintable() for each in lines)
    assert lines[-1] == "plan p1"


@cases(
    ("obj", "old", "request_fields", "deletes"),
    {
        "a creation": (POLICY, None, {}, False),
        "an update": (CHANGED, POLICY, {}, False),
        "a deletion": (None, POLICY, {"operation": "DELETE", "name": "web"}, True),
    },
)
def test_each_operation_is_asked_for_once(obj, old, request_fields, deletes):
    source = Known(SMALL)
    outcome, response = reviewed(source, obj, old, **request_fields)
    (asked,) = source.asked
    assert (asked.kind, asked.namespace, asked.name, asked.deletes) == ("PropagationPolicy", "shop", "web", deletes)
    assert response["allowed"]
    assert "patch" not in response
    assert response["auditAnnotations"]["impact-moved"] == "3"
    assert outcome.gate is None


@cases(
    ("obj", "old", "request_fields"),
    {
        "metadata": (POLICY, {**POLICY, "metadata": {**POLICY["metadata"], "labels": {"a": "b"}}}, {}),
        "only a default": ({**POLICY, "spec": {**POLICY["spec"], "preemption": "Never"}}, POLICY, {}),
        "a subresource": (CHANGED, POLICY, {"subResource": "status"}),
        "a policy that is being deleted": (
            None,
            {**POLICY, "metadata": {**POLICY["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            {"operation": "DELETE"},
        ),
    },
)
def test_what_moves_nothing_is_not_asked_for(obj, old, request_fields):
    source = Known(SMALL)
    outcome, _ = reviewed(source, obj, old, **request_fields)
    assert outcome.allowed
    assert source.asked == []
    assert outcome.warnings == ()


def test_a_generated_name_is_the_same_for_each_try():
    source = Known(SMALL)
    unnamed = {**POLICY, "metadata": {"generateName": "web-", "namespace": "shop"}}
    for _ in range(2):
        reviewed(source, unnamed)
    assert {each.name for each in source.asked} == {"web-generated"}


def test_without_an_extender_nothing_is_reviewed():
    outcome, _ = reviewed(None, annotated(CHANGED, "p2"), POLICY, level=Level.DENY)
    assert outcome.allowed
    assert outcome.patch == ()


REFUSED = [ACCEPT_PLAN, "51 workloads move, at most 50 may", "51 of 500 workloads move", f"{ACCEPT_PLAN}: "]


@cases(
    ("answer", "level", "request_fields", "result"),
    {
        "within the limits": (SMALL, Level.DENY, {}, GateResult.WITHIN),
        "no gate": (LARGE, Level.OFF, {}, None),
        "above a limit, with a warning": (LARGE, Level.WARN, {}, GateResult.WARNED),
        "above a limit": (LARGE, Level.DENY, {}, GateResult.REFUSED),
        "an exempt user": (LARGE, Level.DENY, {"exempt": ["alice"]}, GateResult.EXEMPT),
        "an exempt group": (
            LARGE,
            Level.DENY,
            {"userInfo": {"username": "bob", "groups": ["oncall"]}},
            GateResult.EXEMPT,
        ),
        "above a limit at least": (LARGE._replace(complete=False), Level.DENY, {}, GateResult.REFUSED),
        "not judged: the change is refused": (LATE, Level.DENY, {}, GateResult.UNJUDGED),
        "not judged, and the gate only warns": (LATE, Level.WARN, {}, GateResult.UNKNOWN),
        "not judged, of an exempt user": (LATE, Level.DENY, {"exempt": ["alice"]}, GateResult.EXEMPT),
        "unreachable: the change passes": (AWAY, Level.DENY, {}, GateResult.UNKNOWN),
        "a lower bound above the limit": (MANY, Level.DENY, {}, GateResult.REFUSED),
        "a lower bound within the limits": (FEW, Level.DENY, {}, GateResult.UNJUDGED),
    },
)
def test_the_gate(answer, level, request_fields, result):
    outcome, response = reviewed(Known(answer), CHANGED, POLICY, level=level, **request_fields)
    assert response["allowed"] is (result not in {GateResult.REFUSED, GateResult.UNJUDGED})
    assert (outcome.gate.result if outcome.gate is not None else None) is result
    assert len(response["warnings"]) <= MAX_LINES
    assert response["auditAnnotations"].get("blast-radius") == (result.value if result is not None else None)
    if result is GateResult.REFUSED:
        message = response["status"]["message"]
        assert message.endswith("[blast-radius]")
        assert all(part in message for part in REFUSED)
    if result is GateResult.WARNED:
        assert response["warnings"][-1].startswith(
            "plan p2 is over the blast radius: 51 workloads move, at most 50 may"
        )
    if result is GateResult.UNJUDGED:
        assert "the impact of this change is not known" in response["status"]["message"]
        assert (
            f"berthmaster plan -f FILE` for the id of the plan, and apply again with the annotation {ACCEPT_PLAN}: ID"
            in (response["status"]["message"])
        )
    if result is GateResult.UNKNOWN:
        assert response["warnings"] == [
            f"impact not computed: {answer.reason}",
            "the gate blast-radius let the change pass, because its impact is not known",
        ]


@cases("answer", {"unreachable": AWAY, "late": LATE, "within the limits so far": FEW})
@pytest.mark.parametrize("level", [Level.WARN, Level.DENY])
def test_the_operator_says_what_happens_without_a_judgement(answer, level):
    outcome, response = reviewed(Known(answer), CHANGED, POLICY, level=Level.DENY, unreachable=level, unjudged=level)
    assert response["allowed"] is (level is Level.WARN)
    assert outcome.gate.result is (GateResult.UNKNOWN if level is Level.WARN else GateResult.UNJUDGED)


def test_a_lower_bound_is_called_one():
    _, response = reviewed(Known(MANY), CHANGED, POLICY, level=Level.DENY)
    message = response["status"]["message"]
    assert "at least 51 workloads move, at most 50 may; at least 51 of 500 workloads move" in message
    assert "berthmaster plan -f FILE" in message
    assert response["warnings"][-1].startswith("the change was not planned in full")


@pytest.mark.parametrize("accepted", ["", "p2"])
def test_a_plan_that_is_not_known_cannot_be_accepted(accepted):
    late = MANY._replace(planning=True)
    _, response = reviewed(Known(late), annotated(CHANGED, accepted), POLICY, level=Level.DENY)
    assert not response["allowed"]
    assert "cannot be compared with the accepted plan" in response["status"]["message"]
    assert "apply again in a few seconds" in response["status"]["message"]


def test_a_refused_deletion_names_the_command_for_its_plan():
    _, response = reviewed(Known(MANY), None, POLICY, operation="DELETE", level=Level.DENY)
    assert "berthmaster plan --delete shop/PropagationPolicy/web" in response["status"]["message"]


@cases(
    "spoofed",
    {
        "annotations": {"annotations": {"blast-radius-exempt-user": "alice", "userInfo": "alice"}},
        "labels": {"labels": {"groups": "oncall"}},
        "managed fields": {"managedFields": [{"manager": "alice", "operation": "Apply"}]},
    },
)
def test_an_object_cannot_make_its_author_exempt(spoofed):
    claimed = {**CHANGED, "metadata": {**CHANGED["metadata"], **spoofed}, "userInfo": {"groups": ["oncall"]}}
    user = {"username": "mallory", "groups": ["oncall "], "extra": {"groups": ["oncall"], "user": ["alice"]}}
    outcome, _ = reviewed(Known(LARGE), claimed, POLICY, level=Level.DENY, exempt=["alice"], userInfo=user)
    assert outcome.gate.result is GateResult.REFUSED


def test_a_cluster_wide_policy_has_the_same_gate():
    stored = {**POLICY, "kind": "ClusterPropagationPolicy", "metadata": {"name": "web"}}
    changed, source = {**stored, "spec": CHANGED["spec"]}, Known(MANY)
    outcome, _ = reviewed(source, changed, stored, level=Level.DENY, path="/impact-clusterpropagationpolicy")
    assert outcome.gate.result is GateResult.REFUSED
    (asked,) = source.asked
    assert (asked.kind, asked.namespace, asked.name) == ("ClusterPropagationPolicy", "", "web")


def test_the_accepted_plan_passes_and_its_annotation_is_not_stored():
    outcome, response = reviewed(Known(LARGE), annotated(CHANGED, "p2"), POLICY, level=Level.DENY)
    assert response["allowed"]
    assert outcome.gate.result is GateResult.ACCEPTED
    assert patched(annotated(CHANGED, "p2"), response) == {
        **CHANGED,
        "metadata": {**CHANGED["metadata"], "annotations": {}},
    }


def test_another_plan_is_not_accepted():
    _, response = reviewed(Known(LARGE), annotated(CHANGED, "p1"), POLICY, level=Level.DENY)
    assert not response["allowed"]
    assert "the annotation accepts plan p1, but the plan is now p2" in response["status"]["message"]


@cases("answer", {"within the limits": SMALL, "not known": AWAY})
def test_the_annotation_is_never_stored_with_a_change(answer):
    _, response = reviewed(Known(answer), annotated(CHANGED, "p9"), POLICY, level=Level.DENY)
    assert ACCEPT_PLAN not in patched(annotated(CHANGED, "p9"), response)["metadata"]["annotations"]


def test_a_deletion_is_accepted_by_an_annotation_that_was_stored_before():
    deletion = LARGE._replace(plan="d1")
    source = Known(SMALL, deletion)
    _, stored = reviewed(source, annotated(POLICY, "d1"), POLICY, level=Level.DENY)
    assert stored["warnings"] == ["plan d1 is accepted: it is the deletion of this policy"]
    assert "patch" not in stored
    outcome, response = reviewed(source, None, annotated(POLICY, "d1"), operation="DELETE", level=Level.DENY)
    assert response["allowed"]
    assert outcome.gate.result is GateResult.ACCEPTED
    _, refused = reviewed(source, None, POLICY, operation="DELETE", level=Level.DENY)
    assert f"kubectl annotate propagationpolicy web -n shop {ACCEPT_PLAN}=d1" in refused["status"]["message"]


@cases(
    ("answer", "reason"),
    {
        "another id": (SMALL, "it is not the id of the deletion of this policy"),
        "not known": (LATE, "the extender did not answer within 300 ms"),
    },
)
def test_an_annotation_that_accepts_nothing_is_not_stored(answer, reason):
    _, response = reviewed(Known(answer), annotated(POLICY, "old"), POLICY)
    assert ACCEPT_PLAN not in patched(annotated(POLICY, "old"), response)["metadata"]["annotations"]
    assert reason in response["warnings"][0]


def test_a_stored_acceptance_stays_until_the_spec_changes():
    source = Known(SMALL)
    labelled = annotated(POLICY, "d1")
    labelled = {**labelled, "metadata": {**labelled["metadata"], "labels": {"a": "b"}}}
    outcome, _ = reviewed(source, labelled, annotated(POLICY, "d1"))
    assert (outcome.patch, source.asked) == ((), [])
    _, response = reviewed(source, annotated(CHANGED, "d1"), annotated(POLICY, "d1"))
    assert ACCEPT_PLAN not in patched(annotated(CHANGED, "d1"), response)["metadata"]["annotations"]


def test_a_large_policy_can_be_deleted():
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": f"d{each}"} for each in range(5000)]
    source = Known(SMALL)
    outcome, _ = reviewed(source, None, {**POLICY, "spec": {"resourceSelectors": selectors}}, operation="DELETE")
    assert outcome.allowed
    assert len(source.asked) == 1


@cases(
    ("text", "expected"),
    {
        "all limits": ("moved=50,percent=20,lost=1,deleted=0", "moved=50,percent=20,lost=1,deleted=0"),
        "a fraction of a percent": (" percent = 2.5 ", "percent=2.5"),
        "no number": ("moved", "moved='' is not accepted"),
        "a negative number": ("moved=-1", "accepted is a whole number from 0"),
        "a fraction of a workload": ("moved=1.5", "accepted is a whole number from 0"),
        "more than all": ("percent=101", "percent=101 is above 100"),
        "a duplicate": ("moved=1,moved=2", "moved is set twice"),
        "an unknown limit": ("gone=1", "'gone' is not a limit"),
        "nothing": (" ", "it has no limit"),
    },
)
def test_limits(text, expected):
    try:
        shown = str(BlastRadius.parse(text))
    except ValueError as error:
        shown = str(error)
    assert expected in shown


@cases(
    ("limits", "counts", "exceeded"),
    {
        "at the limit": ("moved=3", {"moved": 3}, []),
        "above it": ("moved=2", {"moved": 3}, ["3 workloads move, at most 2 may"]),
        "a share": ("percent=7", {"moved": 3}, ["7.3 percent of all workloads move, at most 7 may"]),
        "a share of nothing": ("percent=0", {"moved": 0, "workloads": 0}, []),
        "a lost workload": ("lost=0", {"lost": 1}, ["1 workload has no place, at most 0 may"]),
        "copies": ("deleted=0,moved=0", {"moved": 0, "deleted": 1}, ["1 copy is deleted, at most 0 may"]),
    },
)
def test_what_exceeds_a_limit(limits, counts, exceeded):
    assert list(BlastRadius.parse(limits).exceeded(impact(**counts))) == exceeded
