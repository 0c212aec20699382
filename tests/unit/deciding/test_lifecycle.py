"""The steps of a move, as pure functions. tests/contract/controllers/test_moves.py plays whole moves."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec.structs
import pytest
from builders import binding, placement
from tables import cases

from berthmaster.deciding import lifecycle
from berthmaster.deciding.lifecycle import CopiesChange, Surroundings
from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.deciding.moves import ended_record
from berthmaster.model.binding import AggregatedStatusItem, Binding, BindingStatus, GracefulEvictionTask
from berthmaster.model.meta import with_spec
from berthmaster.model.move import EVICTION_REASON, MovePhase, MoveReason, MoveState, MoveStrategy
from berthmaster.model.move_refusal import Cause
from berthmaster.model.template_facts import TemplateFacts
from berthmaster.model.work import Copies, CopyOfWorkload

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = MoveSettings(soak_s=60, deadline_s=900, hold_down_s=600, max_hold_down_s=86400)
HEALTHY = AggregatedStatusItem("new", {"replicas": 4, "readyReplicas": 4}, applied=True, health="Healthy")


COPIES = Copies({"new": CopyOfWorkload(deleting=False, replicas=4, generation=1, grace_s=30, item=HEALTHY)})


def around(seconds: float = 0, **changed: Any) -> Surroundings:
    return Surroundings(SETTINGS, at(seconds), "me", **{"copies": COPIES, **changed})


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def state(phase: MovePhase = MovePhase.SURGING, **changed: Any) -> MoveState:
    values = {"source": {"old": 4}, "target": {"new": 4}, "source_group": "g2", "target_group": "g1", "since": T0}
    return MoveState(MoveReason.FAILBACK, phase, **{"until": at(900), **values, **changed})


def reporting(*items: AggregatedStatusItem) -> Binding:
    given = binding(replicas=4, clusters={"old": 4, "new": 4})
    return msgspec.structs.replace(given, status=BindingStatus(aggregated_status=items))


def test_a_move_begins_with_old_and_new_copies_in_the_group_of_the_old_ones():
    step = lifecycle.begun(reporting(), state(MovePhase.ADMITTED), around())
    assert (step.state.phase, step.state.until) == (MovePhase.SURGING, at(900))
    assert (step.clusters, step.group, step.tasks) == ({"old": 4, "new": 4}, "g2", None)


@cases(
    ("given", "items", "seconds", "phase", "clusters"),
    {
        "it surges until its deadline": (state(), [], 899, "Surging", None),
        "at the deadline it is rolled back": (state(), [], 900, "RolledBack", {"old": 4}),
        "health at the deadline counts": (state(), [HEALTHY], 900, "Soaking", None),
        "it soaks for the whole time": (state(MovePhase.SOAKING, until=at(60)), [HEALTHY], 59, "Soaking", None),
        "then it is released": (state(MovePhase.SOAKING, until=at(60)), [HEALTHY], 60, "Released", {"new": 4}),
        "unhealthy while soaking": (state(MovePhase.SOAKING, until=at(60)), [], 30, "RolledBack", {"old": 4}),
        "a new template surges again": (state(MovePhase.SOAKING, until=at(60), template="1"), [], 30, "Surging", None),
        "an overdue move ends when it can": (state(overdue=True, until=at(9)), [], 930, "RolledBack", {"old": 4}),
        "an overdue move whose copies are healthy soaks": (state(overdue=True), [HEALTHY], 950, "Soaking", None),
        "a stalled move of an earlier version is judged": (state(until=None), [], 10**6, "RolledBack", {"old": 4}),
    },
)
def test_the_next_phase(given: MoveState, items: list[AggregatedStatusItem], seconds: int, phase: str, clusters: Any):
    step = lifecycle.advanced(reporting(*items), given, around(seconds))
    assert (step.state.phase.value, step.clusters) == (phase, clusters)


@pytest.mark.parametrize("given", [state(), state(MovePhase.SOAKING, until=at(60))])
def test_a_move_without_a_whole_source_stalls_keeps_both_and_gives_its_budget_back(given: MoveState):
    step = lifecycle.advanced(reporting(), given, around(900, returnable=False))
    assert (step.state.phase, step.state.until, step.clusters) == (MovePhase.SURGING, at(900), None)
    assert (step.change, step.state.is_counted) == (CopiesChange.STALLED, False)
    again = lifecycle.advanced(reporting(), step.state, around(930, returnable=False))
    assert (again.state.until, again.change) == (at(900), CopiesChange.NONE), "it is reported once"


def test_a_target_that_has_an_old_cluster_again_removes_the_task_of_that():
    """Karmada would delete the copy that is assigned."""
    tasks = tuple(GracefulEvictionTask(each, producer="me", reason=EVICTION_REASON) for each in ("old", "other"))
    given = state(strategy=MoveStrategy.BREAK_BEFORE_MAKE, source={"old": 4, "other": 4})
    moving = with_spec(binding(replicas=4, clusters={"new": 4}), graceful_eviction_tasks=tasks)
    step = lifecycle.retargeted(moving, given, {"new": 4, "old": 1}, "g1", around())
    assert (step.clusters, step.tasks) == ({"new": 4, "old": 1}, tasks[1:])


def test_a_move_is_not_rolled_back_to_copies_that_are_less_healthy_than_the_new_ones():
    partly = AggregatedStatusItem("new", {"replicas": 4, "readyReplicas": 2}, applied=True, health="Unhealthy")
    soaking = state(MovePhase.SOAKING, until=at(60))
    stalled = lifecycle.advanced(reporting(partly), soaking, around(30))
    assert (stalled.state.phase, stalled.clusters, stalled.change) == (MovePhase.SURGING, None, CopiesChange.STALLED)
    assert stalled.wait_s == pytest.approx(30), "it looks again"
    old = AggregatedStatusItem("old", {"replicas": 4, "readyReplicas": 2}, applied=True, health="Unhealthy")
    returned = lifecycle.advanced(reporting(partly, old), stalled.state, around(60))
    assert (returned.state.phase, returned.clusters) == (MovePhase.ROLLED_BACK, {"old": 4})


@cases(
    ("seconds", "until"),
    {"far from the deadline nothing is written": (100, 900), "the deadline does not run out": (899, 899 + 900)},
)
def test_under_the_storm_brake_nothing_is_released_or_rolled_back(seconds: int, until: int):
    for items in ([], [HEALTHY]):
        step = lifecycle.advanced(reporting(*items), state(), around(seconds, braked="storm"))
        assert (step.state.phase, step.state.until, step.clusters) == (MovePhase.SURGING, at(until), None)


def test_a_time_in_the_future_counts_as_the_present():
    step = lifecycle.advanced(reporting(), state(since=at(3600), until=at(4500)), around())
    assert (step.state.since, step.state.until, step.wait_s) == (T0, at(900), 0.0)


def test_a_move_that_turns_around_has_a_deadline_that_lasts():
    """That of the way out was for the grace period of other pods."""
    old = CopyOfWorkload(deleting=True, replicas=4, generation=1, grace_s=120, item=HEALTHY)
    leaving = state(
        MovePhase.ADMITTED, strategy=MoveStrategy.BREAK_BEFORE_MAKE, until=at(1020), deadline_at=at(1020),
        termination_s=120,
    )  # fmt: skip
    step = lifecycle.rolled_back(reporting(), leaving, around(copies=Copies({"old": old})), "why")
    assert (step.state.returning, step.state.termination_s) == (True, 0)
    assert lifecycle.plausible(step.state, SETTINGS, at(0)) == step.state


def test_a_move_that_turns_around_knows_the_grace_period_of_new_copies_whose_works_are_gone():
    """Karmada deletes the Works of a Cluster that is being deleted."""
    started = state(strategy=MoveStrategy.BREAK_BEFORE_MAKE, termination_s=120)
    step = lifecycle.rolled_back(reporting(), started, around(copies=Copies({})), "why")
    assert (step.state.returning, step.state.termination_s) == (True, 120)


def test_each_failure_holds_down_twice_as_long_up_to_a_limit():
    assert [lifecycle.hold_down_s(failures, SETTINGS) for failures in (1, 2, 3, 8, 9, 1000)] == [
        600, 1200, 2400, 76800, 86400, 86400,
    ]  # fmt: skip
    step = lifecycle.rolled_back(reporting(), state(failures=1), around(), "why")
    assert (step.state.failures, step.state.held_down_until, step.group) == (2, at(1200), "g2")
    assert lifecycle.flapped(state(failures=2), SETTINGS, T0, "why").held_down_until == at(2400)


@cases(
    ("given", "over"),
    {
        "it has lasted": (state(MovePhase.RELEASED, until=at(0)), True),
        "it has not lasted yet": (state(MovePhase.RELEASED, until=at(1)), False),
        "it is held down": (state(MovePhase.RELEASED, until=at(0), held_down_until=at(9)), False),
        "a failure is not over by itself": (state(MovePhase.HELD_DOWN, until=at(0)), False),
    },
)
def test_when_a_record_is_over(given: MoveState, *, over: bool):
    assert lifecycle.is_over(given, T0) is over


def test_a_rebalanced_workload_may_be_rebalanced_again_after_three_hold_downs():
    given = msgspec.structs.replace(state(MovePhase.SOAKING, until=at(0)), reason=MoveReason.REBALANCE)
    step = lifecycle.advanced(reporting(HEALTHY), given, around())
    assert (step.state.phase, step.state.until, step.state.rebalance_after) == (MovePhase.RELEASED, at(1800), at(1800))


@cases(
    ("given", "left"),
    {
        "a drain waits no more": (state(MovePhase.STABILISING, rebalance_after=at(9)), at(9)),
        "a failback was released, and has lasted": (
            state(MovePhase.RELEASED, until=at(0), rebalance_after=at(9)), at(9),
        ),
        "the time is over": (state(MovePhase.STABILISING, rebalance_after=at(0)), None),
        "it was never rebalanced": (state(MovePhase.STABILISING), None),
    },
)  # fmt: skip
def test_the_record_of_a_later_move_that_ends_leaves_the_rest_of_a_rebalance_if(
    given: MoveState, left: datetime | None
):
    found = ended_record(given, T0)
    expected = (MoveReason.REBALANCE, MovePhase.RELEASED, left, left)
    assert (left is None and found is None) or (
        found is not None and (found.reason, found.phase, found.until, found.rebalance_after) == expected
    )


@cases(
    ("assignment", "replicas", "divided", "expected"),
    {
        "enough for all": ({"a": 4, "b": 2}, 9, True, {"a": 4, "b": 2}),
        "the largest first, then the last by name": ({"a": 4, "b": 2}, 3, True, {"a": 2, "b": 1}),
        "none": ({"a": 4, "b": 2}, 0, True, {"a": 0, "b": 0}),
        "copies have the number each": ({"a": 4, "b": 4}, 2, False, {"a": 2, "b": 2}),
        "many replicas cost nothing": ({"a": 10**9, "b": 10**9}, 3, True, {"a": 2, "b": 1}),
    },
)
def test_an_assignment_is_reduced(assignment: Any, replicas: int, *, divided: bool, expected: Any):
    assert lifecycle.reduced(assignment, replicas, divided=divided) == expected


def test_a_new_target_starts_the_time_again_and_keeps_the_old_copies():
    step = lifecycle.retargeted(
        msgspec.structs.replace(reporting(), spec=msgspec.structs.replace(reporting().spec, replicas=2)),
        state(MovePhase.SOAKING),
        {"new": 2},
        "g1",
        around(50),
    )
    assert (step.state.phase, step.state.until) == (MovePhase.SURGING, at(950))
    assert step.clusters == {"old": 2, "new": 2}


def test_a_duplicated_workload_keeps_all_replicas_of_each_old_copy_for_another_target():
    asked = placement(replicaScheduling={"replicaSchedulingType": "Duplicated"})
    given = binding(replicas=4, clusters={"old": 4, "older": 4, "new": 4}, placement=asked)
    step = lifecycle.retargeted(given, state(source={"old": 4, "older": 4}), {"newer": 4}, "g1", around(50))
    assert step.clusters == {"newer": 4, "old": 4, "older": 4}


@cases(
    ("deleting", "cause"),
    {"its cluster stays": ((), Cause.VOLUMES.value), "its cluster is being deleted": (("new",), "")},
)
def test_a_copy_with_a_volume_keeps_a_move_unless_its_cluster_is_being_deleted(deleting: tuple[str, ...], cause: str):
    mounted = msgspec.structs.replace(COPIES.by_cluster["new"], facts=TemplateFacts(own_claims=("data",)))
    there = around(50, copies=Copies({"new": mounted}), deleting=deleting)
    step = lifecycle.retargeted(reporting(), state(), {"newer": 4}, "g1", there)
    assert step.state.cause == cause


@cases(
    ("given", "until"),
    {
        "while it surges the first deadline holds": (state(deadline_at=at(900)), 900),
        "a move that soaks gets one more": (state(MovePhase.SOAKING, until=at(880), deadline_at=at(900)), 850 + 900),
        "but not without end": (state(MovePhase.SOAKING, until=at(880), deadline_at=at(-900)), SETTINGS.soak_s),
        "an overdue one gets one": (state(overdue=True, deadline_at=at(0), until=at(0)), 850 + 900),
    },
)
def test_the_deadline_of_another_target(given: MoveState, until: int):
    step = lifecycle.retargeted(reporting(), given, {"newer": 4}, "g1", around(850))
    assert step.state.until == at(until)


def test_times_are_whole_seconds():
    assert lifecycle.later(T0 + timedelta(milliseconds=999), 1) == at(1)
