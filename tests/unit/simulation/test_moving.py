"""Simulations of workloads that are in the middle of a move, wait for one, or have ended one."""

from datetime import UTC, datetime
from typing import Any

import pytest
from builders import binding, cluster, placement
from msgspec.structs import replace
from simulated_worlds import explained_in
from switched_on import world_of
from tables import cases

from berthmaster.deciding.config import DEFAULT_MOVES, MovesConfig
from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.deciding.rules import OWN
from berthmaster.manifests import Manifests
from berthmaster.model.binding import (
    APPLIED_PLACEMENT,
    AggregatedStatusItem,
    Binding,
    BindingStatus,
    GracefulEvictionTask,
)
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import with_status
from berthmaster.model.move import EVICTION_REASON, MOVE, MovePhase, MoveReason, MoveState, MoveStrategy, annotation_of
from berthmaster.model.taint import Taint
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import AddTaint, Down, Reschedule, Scale
from berthmaster.simulation.failures import DomainLoss, FailureDomain, Failures
from berthmaster.simulation.losses import running_after
from berthmaster.simulation.move_notes import move_note
from berthmaster.simulation.plan_answer import Assumptions
from berthmaster.simulation.plan_rows import why_moved
from berthmaster.simulation.planner import Simulation, plan, simulated
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change, World

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
WEB = ResourceName("default", "Deployment", "nginx")
SLOW = Taint("disk", "NoSchedule", "slow")
GROUPS = placement(
    clusterAffinities=[
        {"affinityName": "first", "clusterNames": ["a"]},
        {"affinityName": "second", "clusterNames": ["b"]},
        {"affinityName": "third", "clusterNames": ["c"]},
    ],
    replicaScheduling={"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
)


def state(**changed: Any) -> MoveState:
    values = {
        "reason": MoveReason.FAILBACK,
        "phase": MovePhase.SURGING,
        "source": {"b": 4},
        "target": {"a": 4},
        "source_group": "second",
        "target_group": "first",
        "started_at": T0,
        "since": T0,
        "until": datetime(2026, 1, 1, 0, 15, tzinfo=UTC),
    }
    return MoveState(**{**values, **changed})


def moving(move: MoveState | None, clusters: dict[str, int], applied: Any = GROUPS, **spec: Any) -> Binding:
    annotations = {APPLIED_PLACEMENT: encode_json(applied).decode()}
    if move is not None:
        annotations[MOVE] = annotation_of(move)
    return binding(
        replicas=4,
        clusters=clusters,
        placement=GROUPS,
        annotations=annotations,
        uid="u",
        status=BindingStatus(scheduler_observing_affinity_name="second", last_scheduled_time=T0),
        **spec,
    )


def task(cluster: str) -> GracefulEvictionTask:
    return GracefulEvictionTask(cluster, OWN, EVICTION_REASON, purge_mode="Directly", suppress_deletion=True)


def manifests(given: Binding) -> Manifests:
    return Manifests(clusters=[cluster(name, cpu="8", memory="8Gi") for name in "abc"], bindings=[given])


def world(given: Binding) -> World:
    return world_of(manifests(given))


def compared(given: Binding, *changes: Change) -> Simulation:
    return simulated(world(given), ChangeSet(edits=tuple(changes)), karmada_profile(), NOW)


def assignments(found: Simulation) -> list[dict[str, int]]:
    (planned,) = found.workloads
    return [each.assignment for each in (planned.before, planned.settled, planned.after)]


BOTH = {"a": 4, "b": 4}


def test_a_plan_says_that_a_workload_moves_because_its_move_ends():
    index = PlanIndex(world(moving(state(), BOTH)), karmada_profile())
    (move,) = plan(index, ChangeSet(edits=(AddTaint("b", SLOW),)), NOW).moves
    assert (move.after, move.reason) == ({"a": 4}, "its move (Failback) is under way and ends")


@cases(
    ("changes", "after"),
    {
        "without a change it ends with the target": ((), {"a": 4}),
        "a scale is decided from the target": ((Scale(WEB, 6),), {"a": 6}),
        "the loss of the target goes to the next group": ((Down("a"),), {"b": 4}),
        "the loss of the source changes nothing": ((Down("b"),), {"a": 4}),
        "a rescheduling starts at the first group": ((Reschedule(),), {"a": 4}),
    },
)
def test_a_move_under_way_is_shown_as_it_is_and_counted_as_ended(changes: tuple[Change, ...], after: dict[str, int]):
    found = compared(moving(state(), BOTH), *changes)
    assert assignments(found) == [BOTH, {"a": 4}, after]


BREAKING = state(strategy=MoveStrategy.BREAK_BEFORE_MAKE, phase=MovePhase.ADMITTED)


@cases(
    ("move", "written", "down", "after", "end"),
    {
        "new copies cannot become healthy": (state(), BOTH, "a", {"b": 4}, "is rolled back"),
        "new copies start before the loss is noticed": (BREAKING, {}, "a", {}, "waits"),
        "the old copies are gone before the loss is noticed": (BREAKING, {}, "b", {"a": 4}, "ends"),
        "a move that returns has no other place": (replace(BREAKING, returning=True), {}, "a", {"a": 4}, "ends"),
        "a failover": (replace(BREAKING, reason=MoveReason.FAILOVER), {}, "a", {}, "waits"),
    },
)
def test_what_a_loss_makes_of_a_move_if_nothing_evicts(
    move: MoveState, written: dict[str, int], down: str, after: dict[str, int], end: str
):
    default = world_of(manifests(moving(move, written)), assumptions=Assumptions())
    (planned,) = simulated(default, ChangeSet(edits=(Down(down),)), karmada_profile(), NOW).workloads
    assert planned.after.assignment == after
    assert why_moved(planned) == f"its move ({move.reason.value}) is under way and {end}"


def test_an_old_copy_that_is_lost_before_it_is_deleted_keeps_a_move_waiting():
    given = moving(BREAKING, {}, graceful_eviction_tasks=(task("b"),))
    given = with_status(given, aggregated_status=(AggregatedStatusItem("b", {"readyReplicas": 4}, applied=True),))
    default = world_of(manifests(given), assumptions=Assumptions())
    (planned,) = simulated(default, ChangeSet(edits=(Down("b"),)), karmada_profile(), NOW).workloads
    assert (planned.settled.assignment, planned.after.assignment) == ({"a": 4}, {})


SOAKING = state(phase=MovePhase.SOAKING, until=datetime(2026, 1, 1, 0, 10, 30, tzinfo=UTC))
HEALTHY = tuple(
    AggregatedStatusItem(name, {"replicas": 4, "readyReplicas": 4}, applied=True, health="Healthy") for name in "ab"
)


@cases(
    ("soaks", "configured", "after"),
    {
        "a soak that is over: the old copies are gone": (replace(SOAKING, until=NOW), DEFAULT_MOVES, {"a": 4}),
        "a soak that ends before the loss is noticed": (SOAKING, DEFAULT_MOVES, {"a": 4}),
        "a longer soak": (replace(SOAKING, until=datetime(2026, 1, 1, 0, 12, tzinfo=UTC)), DEFAULT_MOVES, {"b": 4}),
        "new copies that soak from now on": (state(), DEFAULT_MOVES, {"b": 4}),
        "new copies that soak for a short time": (state(), MovesConfig(defaults=MoveSettings(soak_s=20)), {"a": 4}),
    },
)
def test_the_loss_of_the_target_of_a_move_counts_when_it_is_noticed(
    soaks: MoveState, configured: MovesConfig, after: dict[str, int]
):
    given = with_status(moving(soaks, BOTH), aggregated_status=HEALTHY)
    found = world_of(manifests(given), assumptions=Assumptions(), moves=configured)
    (planned,) = simulated(found, ChangeSet(edits=(Down("a"),)), karmada_profile(), NOW).workloads
    impact = Failures(found, karmada_profile(), NOW).impact(DomainLoss(FailureDomain.CLUSTER, "a", ("a",)))
    assert planned.after.assignment == after
    assert impact.nowhere == ([] if after == {"b": 4} else [planned.resource])


def test_a_workload_that_must_not_run_twice_waits_for_a_copy_that_another_client_evicts():
    task = GracefulEvictionTask("b", "Test", "Test", purge_mode="Never", creation_timestamp=T0)
    given = moving(None, {}, graceful_eviction_tasks=(task,), scheduler_name="berthmaster")
    given = with_status(given, aggregated_status=HEALTHY[1:])
    for strategy, after in ((MoveStrategy.BREAK_BEFORE_MAKE, {}), (MoveStrategy.MAKE_BEFORE_BREAK, {"c": 4})):
        configured = MovesConfig(defaults=MoveSettings(strategy=strategy))
        found = world_of(manifests(given), assumptions=Assumptions(), moves=configured)
        (planned,) = simulated(found, ChangeSet(), karmada_profile(), NOW).workloads
        assert planned.after.assignment == after, strategy


def test_a_copy_that_an_override_makes_smaller_never_ends_its_move():
    given = with_status(moving(state(), BOTH, scheduler_name="berthmaster"), aggregated_status=HEALTHY)
    found = world_of(manifests(given), assumptions=Assumptions())
    smaller = replace(found, workloads=[replace(found.workloads[0], overridden={"a": 1})])
    (planned,) = simulated(smaller, ChangeSet(), karmada_profile(), NOW).workloads
    assert planned.after.assignment == {"b": 4}


def test_a_purge_that_waits_keeps_the_new_copies_of_a_move_from_starting():
    evicting = (GracefulEvictionTask("b", OWN, "Test", purge_mode="Directly", replicas=4),)
    given = moving(
        replace(BREAKING, reason=MoveReason.FAILOVER, source={}),
        {},
        graceful_eviction_tasks=evicting,
        scheduler_name="berthmaster",
    )
    given = with_status(given, aggregated_status=HEALTHY[1:])
    found = world_of(manifests(given), assumptions=Assumptions())
    (planned,) = (fleet := simulated(found, ChangeSet(edits=(Down("b"),)), karmada_profile(), NOW)).workloads
    (row,) = plan(PlanIndex(found, karmada_profile()), ChangeSet(edits=(Down("b"),)), NOW).unplaced
    assert (running_after(planned, fleet.hosts), row.nowhere, row.by_change) == ({}, True, True)


def test_a_move_that_waits_for_a_lost_cluster_leaves_its_workload_nowhere():
    default = world_of(manifests(moving(BREAKING, {})), assumptions=Assumptions())
    (row,) = plan(PlanIndex(default, karmada_profile()), ChangeSet(edits=(Down("a"),)), NOW).unplaced
    assert (row.nowhere, row.by_change) == (True, True)
    impact = Failures(default, karmada_profile(), NOW).impact(DomainLoss(FailureDomain.CLUSTER, "a", ("a",)))
    assert impact.nowhere == [row.resource]


def test_a_failure_starts_from_what_is_while_a_move_is_under_way():
    default = world_of(manifests(moving(state(), BOTH)), assumptions=Assumptions())
    failures = Failures(default, karmada_profile(), NOW)
    found = {name: failures.impact(DomainLoss(FailureDomain.CLUSTER, name, (name,))) for name in "ab"}
    index = PlanIndex(default, karmada_profile())
    losses = {name: plan(index, ChangeSet(edits=(Down(name),)), NOW).loss for name in "ab"}
    assert [each.stopped for each in found.values()] == [losses[name].replicas for name in "ab"] == [4, 4]


def test_an_edited_placement_is_decided_from_the_source():
    other = placement(clusterAffinities=[{"affinityName": "first", "clusterNames": ["a", "c"]}])
    found = compared(moving(state(), BOTH, applied=other))
    assert assignments(found)[1] == {"b": 4}


def test_a_move_that_another_client_disturbed_is_decided_from_what_is():
    found = compared(moving(state(), {"a": 4, "b": 4, "c": 1}))
    assert sum(assignments(found)[1].values()) == 4


def test_the_group_of_a_move_under_way_is_its_source_now_and_its_target_in_the_end():
    found = compared(moving(state(), BOTH))
    assert [found.workloads[0].before.group, found.workloads[0].settled.group] == ["second", "first"]


@pytest.mark.parametrize(
    ("move", "note"),
    [
        pytest.param(
            state(),
            "a move (Failback) to group first is under way: b:4 -> a:4, Surging, until 2026-01-01 00:15:00Z",
            id="under way",
        ),
        pytest.param(
            state(phase=MovePhase.ELIGIBLE, target={}, message="no place: none fits"),
            "it should move since 2026-01-01 00:00:00Z (Failback): no place: none fits",
            id="without a place",
        ),
        pytest.param(
            state(phase=MovePhase.STABILISING),
            "it should move since 2026-01-01 00:00:00Z (Failback); it would move to group first at "
            "2026-01-01 00:15:00Z",
            id="stabilising",
        ),
        pytest.param(
            state(phase=MovePhase.STABILISING, until=None, message="the window of the budget all opens at 02:00"),
            "it should move since 2026-01-01 00:00:00Z (Failback); it waits to move to group first: the window "
            "of the budget all opens at 02:00",
            id="waiting for a window",
        ),
        pytest.param(
            state(phase=MovePhase.ROLLED_BACK, held_down_until=NOW, message="not healthy in time"),
            "it does not move before 2026-01-01 00:10:00Z: not healthy in time",
            id="rolled back",
        ),
        pytest.param(
            state(phase=MovePhase.RELEASED),
            "it moved to group first at 2026-01-01 00:00:00Z (Failback)",
            id="released",
        ),
        pytest.param(
            state(reason=MoveReason.DRAIN, phase=MovePhase.ELIGIBLE, target={}, message="no place: none fits"),
            "it should move since 2026-01-01 00:00:00Z (Drain): no place: none fits",
            id="a drain without a place",
        ),
        pytest.param(None, "", id="no move"),
    ],
)
def test_what_users_read_about_a_move(move: MoveState | None, note: str):
    assert move_note(moving(move, {"b": 4})) == note


def test_an_invalid_record_is_reported():
    given = binding(annotations={MOVE: "{"})
    assert "invalid" in move_note(given)


def test_an_explanation_has_the_move_and_both_assignments():
    given = world(moving(state(), BOTH))
    found = explained_in(given, given.workloads[0], NOW)
    assert (found.present, found.clusters, found.group) == (BOTH, {"a": 4}, "first")
    assert any("under way" in note for note in found.notes)
