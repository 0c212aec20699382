"""The invariants of time lines find what they must find, and accept what a lost cluster explains."""

import pytest
from fleet.invariants import AFTERWARDS_S, LOOP_MOVES, MOVE_LIMIT_S, NOTICED_S, OUTAGE_LIMIT_S, Invariants

RUN = {
    "t": 0.0, "event": "run", "app": "web", "kind": "Deployment", "replicas": 4, "strategy": "", "duplicated": False
}  # fmt: skip


def counts(at_s, ready, lost=(), there=None):
    return {"t": at_s, "ready": {"web": ready}, "there": {"web": there or ready}, "lost": list(lost)}


def binding(at_s, wanted=4, **move):
    return {"t": at_s, "binding": "web", "wanted": wanted, "clusters": {}, "move": move, "gone": False}


def found(*lines, strategy=""):
    begin = [{**RUN, "strategy": strategy}, binding(0.5), counts(1.0, {"m1": 4})]
    return [problem for _, problem in Invariants().read([*begin, *lines])]


def test_a_fall_without_a_lost_cluster_is_a_violation():
    assert found(counts(2.0, {"m1": 3})) == ["web: 3 of 4 ready: was {'m1': 4}, is {'m1': 3}"]


def test_a_fall_after_the_return_of_a_cluster_is_a_violation():
    lost = [{"t": 2.0, "event": "kill", "cluster": "m1"}, counts(2.3, {}, lost=["m1"]), counts(30.0, {"m2": 4}, ["m1"])]
    back = [counts(60.0, {"m1": 4, "m2": 4}), {"t": 61.0, "event": "recover", "cluster": "m1"}]
    assert found(*lost, *back, counts(120.0, {"m1": 4})) == []
    assert found(*lost, *back, counts(120.0, {"m1": 4}), counts(134.0, {})) == [
        "web: 0 of 4 ready: was {'m1': 4}, is {}"
    ]


def test_a_lost_cluster_explains_only_its_own_pods():
    both = [counts(2.0, {"m1": 2, "m2": 2})]
    assert found(*both, counts(3.0, {"m2": 2}, lost=["m1"])) == []
    assert len(found(*both, counts(3.0, {"m2": 1}, lost=["m1"]))) == 1


def test_a_copy_whose_work_is_being_deleted_does_not_count():
    """Its pods in a cluster that was lost can end much later."""
    work = {"t": 2.5, "work": "web", "cluster": "m2", "state": "being deleted"}
    both = [counts(2.0, {"m1": 4, "m2": 4}), work]
    assert found(*both, counts(3.0, {"m1": 4})) == []
    assert found(*both, counts(3.0, {"m2": 4})) == ["web: 0 of 4 ready: was {'m1': 4, 'm2': 4}, is {}"]
    assert found(*both, {**work, "state": "alive"}, counts(3.0, {"m2": 4})) == []


def test_a_smaller_number_of_replicas_is_no_fall():
    assert found(binding(2.0, wanted=2), counts(3.0, {"m1": 2})) == []


@pytest.mark.parametrize(("strategy", "expected"), [("", 0), ("BreakBeforeMake", 1)])
def test_pods_in_two_clusters(strategy, expected):
    assert len(found(counts(2.0, {"m1": 4}, there={"m1": 4, "m2": 1}), strategy=strategy)) == expected


def test_pods_that_a_lost_cluster_still_has_do_not_begin_when_it_returns():
    """Nothing changes while it is lost, so there is no line."""
    lost = [counts(2.0, {"m2": 4}, lost=["m1"]), counts(2.0 + 3 * AFTERWARDS_S, {"m1": 4, "m2": 4})]
    assert found(*lost, strategy="BreakBeforeMake") == []


def test_an_outage_that_does_not_end_is_a_violation():
    lines = [counts(2.0, {}, lost=["m1"]), counts(2.5, {}), counts(3.0 + OUTAGE_LIMIT_S, {})]
    assert found(*lines, strategy="BreakBeforeMake") == ["web: fewer than 4 ready since 2 s"]


def test_a_move_that_does_not_end_is_a_violation():
    lines = [binding(2.0, phase="Surging"), binding(3.0 + MOVE_LIMIT_S, phase="Soaking")]
    assert found(*lines) == ["web: a move is under way since 2 s"]


def test_a_loop_of_moves_is_a_violation():
    loop = [binding(2.0 + turn, phase=phase) for turn in range(LOOP_MOVES + 1) for phase in ("Surging", "RolledBack")]
    assert found(*loop) == [f"web: {LOOP_MOVES + 1} moves within 180 s"]
    assert found(*loop[:-2]) == []


def test_a_rolling_update_of_a_stateful_set_takes_one_pod_in_each_cluster():
    edit = {"t": 3.0, "event": "edit", "app": "web"}
    begin = [{**RUN, "kind": "StatefulSet"}, binding(0.5), counts(1.0, {"m1": 2, "m2": 2})]
    assert Invariants().read([*begin, edit, counts(4.0, {"m1": 1, "m2": 1})]) == []
    assert len(Invariants().read([*begin, edit, counts(4.0, {"m1": 1})])) == 1
    assert Invariants().read([*begin, edit, {**edit, "t": 3.5}, counts(4.0, {"m1": 1})]) == [], "the next one does, too"


def test_a_flapping_cluster_causes_at_most_two_moves():
    moves = [binding(10.0 + turn, phase=phase) for turn in range(3) for phase in ("Surging", "Released")]
    flap = {"t": 2.0, "event": "flap", "cluster": "m1"}
    assert found(flap, *moves) == ["web: 3 moves since m1 flaps"]
    assert found(flap, *moves[:4]) == []
    assert found(flap, *moves[:4], {"t": 11.5, "event": "drain", "cluster": "m2"}, *moves[4:]) == []


def test_a_duplicated_application_may_leave_a_cluster_while_another_keeps_a_whole_copy():
    begin = [{**RUN, "duplicated": True}, binding(0.5), counts(1.0, {"m1": 4, "m2": 4}), counts(2.0, {"m2": 4})]
    assert Invariants().read(begin) == []
    assert [text for _, text in Invariants().read([*begin, counts(3.0, {"m2": 3})])] == [
        "web: 3 of 4 ready: was {'m2': 4}, is {'m2': 3}"
    ]


def test_a_deleted_cluster_explains_its_pods_until_it_has_joined_again():
    lost = [{"t": 2.0, "event": "forget", "cluster": "m1"}, counts(90.0, {})]
    assert found(*lost) == []
    back = [counts(100.0, {"m1": 4}), {"t": 101.0, "event": "rejoin", "cluster": "m1"}]
    assert len(found(*lost, *back, counts(140.0, {}))) == 1


@pytest.mark.parametrize(("lost_s", "expected"), [(5.0, 0), (5.0 + NOTICED_S, 1)])
def test_a_release_to_a_cluster_that_is_lost_is_explained_until_karmada_knows(lost_s, expected):
    both = [counts(2.0, {"m1": 4, "m2": 4}), counts(3.0, {"m1": 4}, lost=["m2"])]
    assert len(found(*both, counts(3.0 + lost_s, {}, lost=["m2"]))) == expected
