"""How a move goes on if time passes: the steps of the controllers, with copies that become healthy where they can."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from builders import binding, cluster, placement
from msgspec.structs import replace
from switched_on import world_of
from tables import cases

from berthmaster.deciding.move_course import Surmise, course_of, is_moving
from berthmaster.manifests import Manifests
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, GracefulEvictionTask, Suspension
from berthmaster.model.cluster import Condition
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import with_status
from berthmaster.model.move import (
    EVICTION_REASON,
    MOVE,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    annotation_of,
    as_moved,
    move_of,
)
from berthmaster.model.taint import Taint
from berthmaster.scheduling.fleet import fleet_of
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.plan_answer import Assumptions
from berthmaster.simulation.scheduling_cycle import run

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
DUPLICATED = placement(replicaScheduling={"replicaSchedulingType": "Duplicated"})
DIVIDED = placement(replicaScheduling={"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})
LOST = Taint("cluster.karmada.io/not-ready", "NoSchedule")
BREAKS = MoveStrategy.BREAK_BEFORE_MAKE


def drain(source: dict[str, int], target: dict[str, int], **changed: Any) -> MoveState:
    state = MoveState(
        MoveReason.DRAIN, MovePhase.SURGING, source=source, target=target, started_at=T0, since=T0,
        until=datetime(2026, 1, 1, 0, 15, tzinfo=UTC),
    )  # fmt: skip
    return replace(state, **changed)


def moving(state: MoveState | None, clusters: dict[str, int], asked: Any = DIVIDED, **spec: Any) -> Binding:
    annotations = {APPLIED_PLACEMENT: encode_json(asked).decode()}
    if state is not None:
        annotations[MOVE] = annotation_of(state)
    spec = {"replicas": 2, "scheduler_name": "berthmaster", **spec}
    given = binding(clusters=clusters, placement=asked, annotations=annotations, uid="u", **spec)
    return with_status(given, last_scheduled_time=T0)


def scheduler(unready: Sequence[str] = (), deleting: Sequence[str] = (), names: str = "abc") -> Scheduler:
    clusters = [cluster(name, cpu="8", memory="8Gi") for name in names]
    found = [
        replace(with_status(each, conditions=(Condition("Ready", "False"),)), spec=replace(each.spec, taints=(LOST,)))
        if each.name in unready
        else each
        for each in clusters
    ]
    gone = [
        replace(each, metadata=replace(each.metadata, deletion_timestamp=T0)) if each.name in deleting else each
        for each in found
    ]
    return Scheduler(fleet_of(gone), karmada_profile())


@cases(
    ("state", "clusters", "unready", "after"),
    {
        "all new copies can run": (drain({"a": 2}, {"b": 2}), {"a": 2, "b": 2}, "", {"b": 2}),
        "the new cluster is not ready": (drain({"a": 2}, {"b": 2}), {"a": 2, "b": 2}, "b", {"a": 2}),
        "the old cluster is not ready": (drain({"a": 2}, {"b": 2}), {"a": 2, "b": 2}, "a", {"b": 2}),
        "the old copies go first": (drain({"a": 2}, {"b": 2}, strategy=BREAKS), {"b": 2}, "", {"b": 2}),
        "the old copies went first, and the new cluster is not ready": (
            drain({"a": 2}, {"b": 2}, strategy=BREAKS), {"b": 2}, "b", {"a": 2}
        ),
    },
)  # fmt: skip
def test_a_move_ends_where_its_copies_can_run(
    state: MoveState, clusters: dict[str, int], unready: str, after: dict[str, int]
):
    found = course_of(scheduler(unready), moving(state, clusters), NOW, Surmise())
    assert as_moved(found.binding).assignment == after
    assert found.ends_as_recorded == (after == state.target)
    assert found.trigger is Trigger.NONE


def test_a_move_without_a_place_to_go_or_to_return_to_keeps_all_copies_except_those_of_a_deleted_cluster():
    state = drain({"a": 2, "b": 2}, {"a": 2})
    asked = placement(
        clusterAffinity={"clusterNames": ["a", "b"]}, replicaScheduling={"replicaSchedulingType": "Duplicated"}
    )
    found = course_of(scheduler("b", "a"), moving(state, {"a": 2, "b": 2}, asked), NOW, Surmise())
    assert found.binding.assignment == {"b": 2}
    assert is_moving(found.binding)


def test_a_move_that_waits_with_a_copy_of_a_deleted_cluster_leaves_only_that_one():
    state = drain({"a": 2, "b": 2, "c": 2}, {"b": 2, "c": 2, "d": 2}, strategy=BREAKS, phase=MovePhase.ADMITTED)
    given = moving(state, {"b": 2, "c": 2}, DUPLICATED, suspension=Suspension(dispatching=True))
    found = course_of(scheduler("c", "c", "abcd"), given, NOW, Surmise())
    assert found.binding.assignment == {"b": 2}
    assert is_moving(found.binding)


def test_healthy_new_copies_stay_beside_one_that_cannot_start():
    state = drain({"b": 1, "c": 1}, {"a": 1, "b": 1}, strategy=BREAKS)
    task = GracefulEvictionTask("c", producer="berthmaster", reason=EVICTION_REASON, purge_mode="Directly")
    given = moving(state, {"a": 1, "b": 1}, graceful_eviction_tasks=(task,))
    found = course_of(scheduler("a"), given, NOW, Surmise())
    assert found.binding.assignment == {"a": 1, "b": 1}


@cases(
    "record",
    {
        "another client has changed the assignment": annotation_of(drain({"a": 2}, {"b": 2})),
        "the record is invalid": "{",
    },
)
def test_a_move_that_cannot_continue_leaves_no_record(record: str):
    given = moving(None, {"c": 2}, DUPLICATED)
    annotations = {**given.metadata.annotations, MOVE: record}
    given = replace(given, metadata=replace(given.metadata, annotations=annotations))
    found = course_of(scheduler(), given, NOW, Surmise())
    assert found.binding.assignment == {"a": 2, "b": 2, "c": 2}
    assert found.trigger is Trigger.RECONCILE
    assert MOVE not in found.binding.metadata.annotations or not is_moving(found.binding)


def test_the_deletion_of_a_cluster_is_no_failure_of_the_move_to_it():
    state = drain({"c": 2}, {"a": 1, "b": 1}, phase=MovePhase.RELEASED)
    given = moving(state, {"a": 1, "b": 1})
    found = course_of(scheduler(deleting="a"), given, NOW, Surmise())
    assert found.trigger is Trigger.FAILOVER
    record = move_of(found.binding)
    assert record is None or not record.failures


JOB: Mapping[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "nginx"}, "spec": {}}
CLAIMING: Mapping[str, Any] = {
    "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "nginx"},
    "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("template", "why"),
    [
        pytest.param(JOB, "clusters share the completions of the Job", id="a Job that clusters share"),
        pytest.param(CLAIMING, "the data in data would stay behind on a", id="a StatefulSet with volumes"),
        pytest.param({**CLAIMING, "spec": {}}, "", id="a StatefulSet without volumes"),
    ],
)
def test_a_simulation_knows_what_keeps_a_workload_on_a_lost_cluster(template: Mapping[str, Any], why: str):
    kind, version = template["kind"], template["apiVersion"]
    given = moving(None, {"a": 1, "b": 1}, kind=kind, api_version=version)
    assumed = Assumptions(replaces="berthmaster", replaced_after_s=60)
    fleet = [each for each in scheduler("a").fleet.clusters if each is not None]
    world = world_of(Manifests(clusters=fleet, bindings=[given]), assumptions=assumed)
    world = replace(world, workloads=[replace(each, template=template) for each in world.workloads])
    _, (found,) = run(world, karmada_profile(), NOW)
    assert ("a" in found.assignment) == bool(why)
    assert any(why in note for note in found.workload.notes) == bool(why)
