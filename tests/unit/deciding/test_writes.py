"""The writes for a decision."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from builders import binding, placement
from tables import cases

from berthmaster.deciding import writes
from berthmaster.model.applied_placement import encoded_placement
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, BindingStatus, GracefulEvictionTask
from berthmaster.model.cluster import Condition
from berthmaster.model.move import APPLIED_AFFINITY

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
AT_NOW = "2026-01-02T03:04:05Z"
EARLIER = "2026-01-01T00:00:00Z"
ANYWHERE = placement(replicaScheduling={"replicaSchedulingType": "Duplicated"})
GROUPS = placement(clusterAffinities=[{"affinityName": "a"}, {"affinityName": "b"}])
SCHEDULED = writes.SchedulingResult(writes.SUCCESS, "scheduled to m1:1")


def stored(**fields: Any) -> Binding:
    made = binding(**fields)
    metadata = msgspec.structs.replace(made.metadata, resource_version="7", generation=3)
    return msgspec.structs.replace(made, metadata=metadata)


def condition(status: str = "True", reason: str = writes.SUCCESS, message: str = SCHEDULED.message) -> Condition:
    return Condition("Scheduled", status, reason, message, EARLIER)


def unchanged_status(**status: Any) -> BindingStatus:
    fields = {
        "scheduler_observed_generation": 3,
        "last_scheduled_time": datetime(2026, 1, 1, tzinfo=UTC),
        "conditions": (condition(),),
    }
    return BindingStatus(**{**fields, **status})


def test_a_first_assignment_writes_clusters_placement_and_group_together():
    write = writes.assignment_write(stored(), GROUPS, {"m2": 1, "m1": 2}, "a")
    assert write.patch(stored()) == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {
                APPLIED_PLACEMENT: encoded_placement(GROUPS),
                APPLIED_AFFINITY: writes.applied_affinity("a", {"m1": 2, "m2": 1}),
            },
        },
        "spec": {"clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]},
    }


def test_an_existing_assignment_needs_no_write():
    before = stored(clusters={"m1": 1}, annotations={APPLIED_PLACEMENT: encoded_placement(ANYWHERE)})
    assert writes.assignment_write(before, ANYWHERE, {"m1": 1}, "") is None


def test_another_placement_with_the_same_result_writes_only_the_annotation():
    before = stored(clusters={"m1": 1}, annotations={APPLIED_PLACEMENT: "{}"})
    write = writes.assignment_write(before, ANYWHERE, {"m1": 1}, "")
    assert "spec" not in write.patch(before)


def test_removing_all_clusters_sends_null():
    before = stored(clusters={"m1": 1})
    write = writes.assignment_write(before, ANYWHERE, {}, "")
    assert write.patch(before)["spec"] == {"clusters": None}


def test_the_annotation_of_an_unused_group_is_removed():
    before = stored(annotations={APPLIED_AFFINITY: "a@1"})
    write = writes.assignment_write(before, ANYWHERE, {"m1": 1}, "")
    assert write.patch(before)["metadata"]["annotations"][APPLIED_AFFINITY] is None
    assert APPLIED_AFFINITY not in write.applied(before, writes.Version("8", 4)).metadata.annotations


def test_evictions_are_added_to_existing_ones():
    before = stored(graceful_eviction_tasks=(GracefulEvictionTask("old"),))
    write = writes.assignment_write(before, ANYWHERE, {"m1": 1}, "", (GracefulEvictionTask("lost"),))
    tasks = write.patch(before)["spec"]["gracefulEvictionTasks"]
    assert [task["fromCluster"] for task in tasks] == ["old", "lost"]


def test_a_written_binding_needs_no_further_write():
    before = stored()
    write = writes.assignment_write(before, GROUPS, {"m1": 1}, "b")
    after = write.applied(before, writes.Version("8", 4))
    assert writes.assignment_write(after, GROUPS, {"m1": 1}, "b") is None
    status = writes.status_write(after, SCHEDULED, NOW, refresh=True)
    assert not writes.status_write(status.applied(after, writes.Version("9", 4)), SCHEDULED, NOW, refresh=False)


@cases(
    ("status", "annotation", "group"),
    {
        "without an annotation the status counts": ("a", None, "a"),
        "the annotation of this assignment is newer": ("a", writes.applied_affinity("b", {"m1": 1}), "b"),
        "the annotation of another assignment is outdated": ("a", writes.applied_affinity("b", {"m2": 1}), "a"),
        "a missing status is completed": ("", writes.applied_affinity("b", {"m1": 1}), "b"),
        "an invalid annotation is ignored": ("a", "nonsense", "a"),
    },
)
def test_the_group_of_an_assignment_survives_a_lost_status(status: str, annotation: str | None, group: str):
    known = stored(
        clusters={"m1": 1},
        annotations={APPLIED_AFFINITY: annotation} if annotation else {},
        status=BindingStatus(scheduler_observing_affinity_name=status),
    )
    assert writes.effective(known).status.scheduler_observing_affinity_name == group


@cases(
    ("result", "status", "refresh", "written"),
    {
        "an unchanged binding: nothing": (SCHEDULED, unchanged_status(), False, {}),
        "the same assignment again: the time": (SCHEDULED, unchanged_status(), True, {"lastScheduledTime": AT_NOW}),
        "another generation: the generation": (
            SCHEDULED,
            unchanged_status(scheduler_observed_generation=2),
            False,
            {"schedulerObservedGeneration": 3},
        ),
        "another group: its name": (
            writes.SchedulingResult(writes.SUCCESS, SCHEDULED.message, "b"),
            unchanged_status(scheduler_observing_affinity_name="a"),
            False,
            {"schedulerObservingAffinityName": "b"},
        ),
        "a failure: the condition only": (
            writes.SchedulingResult("NoClusterFit", "0 of 1"),
            unchanged_status(),
            False,
            {
                "conditions": [
                    {
                        "type": "Scheduled",
                        "status": "False",
                        "reason": "NoClusterFit",
                        "message": "0 of 1",
                        "lastTransitionTime": AT_NOW,
                    }
                ]
            },
        ),
        "another reason with the same status keeps the transition time": (
            writes.SchedulingResult("Unschedulable", "no room"),
            unchanged_status(
                conditions=(condition("False", "NoClusterFit", "0 of 1"),), scheduler_observed_generation=1
            ),
            False,
            {
                "conditions": [
                    {
                        "type": "Scheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "no room",
                        "lastTransitionTime": EARLIER,
                    }
                ]
            },
        ),
    },
)
def test_the_status_write_has_only_changed_fields(
    *, result: writes.SchedulingResult, status: BindingStatus, refresh: bool, written: dict[str, Any]
):
    write = writes.status_write(stored(status=status), result, NOW, refresh=refresh)
    assert bool(write) == bool(written)
    assert write.patch(stored())["status"] == written


def test_other_conditions_stay():
    others = Condition("FullyApplied", "True", "Applied", "all", EARLIER)
    write = writes.status_write(stored(status=BindingStatus(conditions=(others,))), SCHEDULED, NOW, refresh=True)
    assert [each["type"] for each in write.patch(stored())["status"]["conditions"]] == ["FullyApplied", "Scheduled"]


def test_a_slow_clock_does_not_reschedule_forever():
    triggered = datetime(2026, 6, 1, tzinfo=UTC)
    before = stored(reschedule_triggered_at=triggered, status=unchanged_status())
    assert before.reschedule_requested
    write = writes.status_write(before, SCHEDULED, NOW, refresh=True)
    assert not write.applied(before, writes.Version("8", 3)).reschedule_requested


LAST_WRITE = {APPLIED_AFFINITY: writes.applied_affinity("b", {"m1": 1})}


@cases(
    ("given", "group"),
    {
        "as the status says": ({"placement": GROUPS}, "a"),
        "as the last write says, while the status is stale": ({"placement": GROUPS, "annotations": LAST_WRITE}, "b"),
        "none in a placement without groups": ({"placement": ANYWHERE}, ""),
        "none without an assignment": ({"placement": GROUPS, "clusters": {}}, ""),
    },
)
def test_the_group_of_an_assignment(given: dict[str, Any], group: str):
    status = BindingStatus(scheduler_observing_affinity_name="a")
    assert writes.assigned_group(stored(**{"clusters": {"m1": 1}, "status": status, **given})) == group
