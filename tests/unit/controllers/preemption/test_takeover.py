"""Who has a resource after the controller has looked at it."""

import json
from itertools import permutations

import pytest
from faults import lose, only
from preempting import READER, WEB, C, P, Stage, an_api, owner, policy, refusing, template

from berthmaster.controllers.preemption.takeover import ORPHAN_WAIT_S
from berthmaster.model.claims import Resource

WEB_KEY = Resource("apps/v1", "Deployment", "default", "web")
WEAK = policy("weak", 1, always=False)
STRONG = policy("strong", 2)
WEAK_C = policy("weak-c", 1, always=False, cluster_scoped=True)
STRONG_C = policy("strong-c", 2, cluster_scoped=True)


@pytest.mark.parametrize(
    ("holder", "challenger", "expected"),
    [
        pytest.param(WEAK, STRONG, "strong", id="a PropagationPolicy takes from one of lower priority"),
        pytest.param(policy("even", 2), STRONG, "even", id="but not from one of its own"),
        pytest.param(policy("top", 3, always=False), STRONG, "top", id="nor from one of a higher"),
        pytest.param(WEAK_C, policy("any", -9), "any", id="from a ClusterPropagationPolicy whatever the priority"),
        pytest.param(WEAK_C, STRONG_C, "strong-c", id="a ClusterPropagationPolicy takes from one of lower priority"),
        pytest.param(policy("even-c", 2, cluster_scoped=True), STRONG_C, "even-c", id="but not from its equal"),
        pytest.param(policy("p", -9, always=False), STRONG_C, "p", id="and never from a PropagationPolicy"),
        pytest.param(WEAK, policy("mild", 9, always=False), "weak", id="who does not preempt takes nothing"),
    ],
)
def test_who_has_it_in_the_end(holder, challenger, expected):
    stage = Stage(template(holder), holder, challenger)
    stage.work()
    assert owner(stage.web()) == expected
    assert stage.takeovers() == (expected != holder["metadata"]["name"])


def test_a_claim_is_written_as_the_detector_writes_it_and_guarded():
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
def test_it_changes_hands_once_however_many_want_it_in_whatever_order(order):
    wanting = [policy("a", 5), policy("b", 7), policy("c", 7), policy("d", 9, cluster_scoped=True)]
    stage = Stage(template(WEAK_C), WEAK_C, *(wanting[each] for each in order))
    stage.work()
    assert owner(stage.web()) == "b", "of the strongest the first by name"
    assert stage.takeovers() == 1


def test_what_is_nobodys_is_left_to_the_detector():
    stage = Stage(template(), STRONG)
    stage.work()
    assert owner(stage.web()) == ""


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="that is being deleted"),
        pytest.param(
            {"labels": {"resourcetemplate.karmada.io/claimed-by": "x", f"{P}permanent-id": "id-weak"}},
            id="that something else propagates",
        ),
    ],
)
def test_a_resource_is_left_alone(metadata):
    stage = Stage(template(WEAK, **metadata), WEAK, STRONG)
    assert set(stage.work()) == {"success"}
    assert owner(stage.web()) == "weak"


def test_a_resource_that_is_not_there_is_no_error():
    stage = Stage(WEAK, STRONG)
    assert set(stage.work()) == {"success"}
    assert stage.notebook.told == []


@pytest.mark.parametrize(
    ("challenger", "expected"),
    [
        pytest.param(policy("wide", 2, cluster_scoped=True, names=[READER]), "wide", id="by a cluster-wide policy"),
        pytest.param(policy("narrow", 9, names=[READER]), "weak-c", id="never by a PropagationPolicy"),
        pytest.param(
            policy("narrow", 9, names=[{**READER, "namespace": "default"}]), "weak-c", id="not even with its namespace"
        ),
        pytest.param(
            policy("wide", 2, cluster_scoped=True, names=[{**READER, "namespace": "default"}]),
            "weak-c",
            id="and not under a namespace that it does not have",
        ),
    ],
)
def test_a_cluster_scoped_resource_is_taken(challenger, expected):
    stage = Stage(template(WEAK_C, of=READER), WEAK_C, challenger)
    stage.work()
    assert owner(stage.get(template(of=READER))) == expected


def test_a_cluster_policy_without_the_namespace_takes_nothing_namespaced():
    wide = policy("wide", 2, cluster_scoped=True, names=[{**WEB, "name": "web"}, {**WEB, "name": "other"}])
    stage = Stage(template(WEAK_C), WEAK_C, wide)
    stage.work()
    assert owner(stage.web()) == "weak-c"


def test_a_binding_keeps_the_claim_that_it_shares_with_its_workload():
    of = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "name": "web-deployment"}
    api = an_api()
    api.served.add(of["apiVersion"], of["kind"], "resourcebindings")
    stage = Stage(template(WEAK, of=of), WEAK, policy("strong", 2, names=[of]), api=api)
    stage.work()
    assert owner(stage.get(template(of=of))) == "weak"


def test_a_kind_that_is_not_served_is_no_error():
    stage = Stage(WEAK, policy("strong", 2, names=[{"apiVersion": "example.io/v1", "kind": "Widget", "name": "w"}]))
    assert set(stage.work()) == {"success"}


@pytest.mark.parametrize(
    ("loser", "challenger", "expected"),
    [
        pytest.param(WEAK, STRONG, "weak", id="by one of the same kind it is left to the detector"),
        pytest.param(WEAK_C, STRONG_C, "weak-c", id="cluster-wide ones as well"),
        pytest.param(WEAK, STRONG_C, "weak", id="by a cluster-wide one of course"),
        pytest.param(WEAK_C, STRONG, "strong", id="a PropagationPolicy takes it whoever it was"),
    ],
)
def test_a_resource_of_a_policy_that_is_gone(loser, challenger, expected):
    stage = Stage(template(loser), challenger)
    assert set(stage.work()) == {"success" if expected == "strong" else "requeued"}
    assert owner(stage.web()) == expected


def test_a_policy_that_comes_back_weaker_loses_what_it_had():
    """Karmada's detector may not have set it free in between."""
    before = policy("strong-once", 9, always=False)
    stage = Stage(template(before), before, STRONG)
    stage.work()
    stage.remove(before)
    assert stage.work() == ["requeued"]
    stage.put(policy("strong-once", 1, always=False))
    stage.later(ORPHAN_WAIT_S)
    assert owner(stage.web()) == "strong"


def test_a_policy_without_a_permanent_id_claims_nothing_and_says_so_until_it_has_one():
    stage = Stage(template(WEAK), WEAK, policy("strong", 2, permanent_id=""))
    assert set(stage.work()) == {"success"}
    assert owner(stage.web()) == "weak"
    (told,) = stage.notebook.told
    assert (told.regarding.name, told.kind, told.reason) == ("strong", "Warning", "PreemptPolicyFailed")
    assert f"{P}permanent-id" in told.note

    stage.put(policy("strong", 2))
    stage.work()
    assert owner(stage.web()) == "strong"


def test_the_next_strongest_goes_before_one_without_a_permanent_id():
    stage = Stage(template(WEAK), WEAK, STRONG, policy("stronger", 3, permanent_id=""))
    stage.work()
    assert owner(stage.web()) == "strong"
    stage.put(policy("stronger", 3))
    stage.work()
    assert owner(stage.web()) == "stronger"


def test_a_conflict_means_to_look_again_and_to_decide_again():
    """Karmada's own controller was faster, for a stronger policy: nothing is left to take."""
    top = policy("top", 9, always=False)
    stage = Stage(template(WEAK), WEAK, STRONG, top)

    def interfere(request):
        if request.method == "PATCH" and owner(stage.web()) == "weak":
            stage.put(template(top))

    stage.api.before = interfere
    assert stage.work().count("conflict") == 1
    assert set(stage.later()) == {"success"}
    assert owner(stage.web()) == "top"
    assert stage.notebook.preemptions == [], "a conflict is neither a success nor a failure"
    assert stage.notebook.told == []


def test_a_conflict_over_something_else_only_delays():
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


def test_a_resource_that_goes_away_under_the_write_is_no_error():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.before = refusing(404)
    assert set(stage.work()) == {"success"}
    assert stage.notebook.preemptions == []


def test_a_refused_write_is_told_counted_and_tried_again():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.before = refusing(403)
    assert "error" in stage.work()
    assert [(each.regarding.kind, each.kind, each.reason) for each in stage.notebook.told] == [
        ("Deployment", "Warning", "PreemptPolicyFailed"),
        ("PropagationPolicy", "Warning", "PreemptPolicyFailed"),
    ]
    assert "403" in stage.notebook.told[0].note
    stage.later()
    assert owner(stage.web()) == "strong"
    assert stage.notebook.preemptions == ["error", "success"]


@pytest.mark.parametrize("away", [0, 3], ids=["that can be asked at once", "that is away for a while"])
def test_a_takeover_whose_answer_is_lost_is_told_once_it_is_seen_that_it_was_carried_out(away):
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.after = only(lose, "PATCH", times=1)
    assert "error" in stage.work()
    stage.api.before = refusing(503, method="GET", times=away)
    for _ in range(away + 1):
        stage.later()
    assert (owner(stage.web()), stage.takeovers()) == ("strong", 1)
    assert stage.notebook.preemptions == ["error", "success"]
    told = [each.regarding.name for each in stage.notebook.told if each.reason == "PreemptPolicySucceed"]
    assert told == ["web", "strong", "weak"]
    stage.look(WEB_KEY)
    stage.work()
    assert stage.notebook.preemptions == ["error", "success"], "not told twice"


def test_a_server_that_is_away_only_delays():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.api.before = refusing(503, method="GET", times=2)
    assert "error" in stage.work()
    stage.later()
    stage.later()
    assert owner(stage.web()) == "strong"


def test_everybody_is_told_who_took_what_from_whom_and_why():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.work()
    taken, winner, loser = stage.notebook.told
    assert [each.regarding.name for each in (taken, winner, loser)] == ["web", "strong", "weak"]
    assert {each.reason for each in stage.notebook.told} == {"PreemptPolicySucceed"}
    assert {each.kind for each in stage.notebook.told} == {"Normal"}
    assert (
        taken.note
        == winner.note
        == loser.note
        == (
            "PropagationPolicy default/strong took over Deployment default/web "
            "from PropagationPolicy default/weak: its priority is 2, the other's is 1"
        )
    )
    assert taken.regarding.uid == stage.web()["metadata"]["uid"]
    assert (winner.regarding.uid, loser.regarding.uid) == ("uid-of-strong", "uid-of-weak")
    assert (taken.related, winner.related, loser.related) == (winner.regarding, taken.regarding, taken.regarding)
    assert stage.notebook.preemptions == ["success"]


def test_between_kinds_the_kind_is_the_reason():
    stage = Stage(template(WEAK_C), WEAK_C, policy("any", -9))
    stage.work()
    assert stage.notebook.told[0].note.endswith("a PropagationPolicy precedes every ClusterPropagationPolicy")


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(policy("strong", 1), id="has fallen"),
        pytest.param(policy("strong", 2, always=False), id="does not preempt any more"),
        pytest.param(policy("strong", 2, names=[{**WEB, "name": "other"}]), id="names something else"),
        pytest.param(policy("strong", 2, permanent_id=""), id="has lost its id"),
        pytest.param(None, id="is gone"),
    ],
)
def test_what_was_heard_of_the_challenger_is_confirmed_before_the_write(now):
    stage = Stage(template(WEAK), WEAK, STRONG)
    if now is None:
        stage.remove(STRONG, heard=False)
    else:
        stage.put(now, heard=False)
    stage.work()
    assert owner(stage.web()) == "weak"


def test_what_was_heard_of_the_holder_is_confirmed_before_the_write():
    stage = Stage(template(WEAK), WEAK, STRONG)
    stage.put(policy("weak", 2, always=False), heard=False)
    stage.work()
    assert owner(stage.web()) == "weak"


def test_a_holder_that_was_not_heard_of_yet_is_asked_for():
    """The resource may be heard of before the policy that has claimed it."""
    stage = Stage(template(), STRONG)
    stage.work()
    stage.put(WEAK, heard=False)
    stage.put(template(WEAK))
    stage.look(WEB_KEY)
    stage.work()
    assert owner(stage.web()) == "strong"


def test_a_leftover_of_both_claims_belongs_to_the_propagation_policy():
    both = template(WEAK)
    both["metadata"]["annotations"][f"{C}name"] = "weak-c"
    both["metadata"]["labels"][f"{C}permanent-id"] = "id-weak-c"
    stage = Stage(both, WEAK, WEAK_C, STRONG_C, policy("even", 1))
    stage.work()
    assert owner(stage.web()) == "weak/weak-c", "which no ClusterPropagationPolicy takes from, and no equal"
    stage.put(STRONG)
    stage.work()
    assert owner(stage.web()) == "strong"


@pytest.mark.parametrize("name", ["../../../../api/v1/namespaces/kube-system/secrets/x", "..", "a/b"])
def test_a_name_that_leads_elsewhere_is_never_asked_for(name):
    stage = Stage(WEAK, policy("strong", 2, names=[{**WEB, "name": name}]))
    stage.work()
    assert stage.api.requests == []


def test_an_annotation_that_leads_elsewhere_is_never_asked_for():
    crooked = template(WEAK)
    crooked["metadata"]["annotations"][f"{P}name"] = "../../secrets/x"
    stage = Stage(crooked, WEAK, STRONG)
    assert set(stage.work()) == {"success"}
    assert not [request for request in stage.api.requests if "secrets" in request.path]
