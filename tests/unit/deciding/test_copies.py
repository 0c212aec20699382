"""When the copies of a workload count as healthy."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import msgspec.structs
from builders import binding
from tables import cases

from berthmaster.deciding.copies import (
    STATUS_LAG_S,
    missing_replicas,
    reported_copies,
    rollback_loses_replicas,
    seconds_since,
    unhealthy_by_report,
    unhealthy_by_works,
)
from berthmaster.kube.kinds import KARMADA_BINDINGS
from berthmaster.model import move
from berthmaster.model.binding import AggregatedStatusItem, Binding, BindingStatus, GracefulEvictionTask
from berthmaster.model.cluster import Condition
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.move import MovePhase, MoveReason, MoveState, MoveStrategy, annotation_of
from berthmaster.model.work import Copies, KarmadaWork, WorkStatus, copies_of

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATER = T0 + timedelta(seconds=STATUS_LAG_S)
READY = {"replicas": 4, "readyReplicas": 4, "generation": 2, "observedGeneration": 2, "resourceTemplateGeneration": 5}
MOVE = MoveState(MoveReason.FAILBACK, MovePhase.SURGING, source={"old": 4}, target={"new": 4}, since=T0)


def reporting(*items: AggregatedStatusItem, kind: str = "Deployment") -> Binding:
    given = binding(kind=kind, clusters={"old": 4, "new": 4})
    return msgspec.structs.replace(given, status=BindingStatus(aggregated_status=items))


def item(name: str = "new", **changed: Any) -> AggregatedStatusItem:
    return AggregatedStatusItem(
        **{"cluster_name": name, "status": READY, "applied": True, "health": "Healthy", **changed}
    )


@cases(
    ("items", "problem"),
    {
        "a healthy copy": ([item()], None),
        "no entry": ([item("old")], "reports no status"),
        "not applied": ([item(applied=False)], "not applied"),
        "unhealthy": ([item(health="Unhealthy")], "Unhealthy"),
        "without a health": ([item(health="")], "unknown"),
        "an older generation": ([item(status={**READY, "observedGeneration": 1})], "older generation"),
        "older template": ([item(status={**READY, "resourceTemplateGeneration": 4}), item("old")], "older template"),
        "too few replicas are ready": ([item(status={**READY, "readyReplicas": 3})], "3 of 4"),
        "a status that leaves out zero replicas": ([item(status={"observedGeneration": 2})], "0 of 4"),
        "a Deployment without a status": ([item(status=None)], "0 of 4"),
        "a number that is no number": ([item(status={"replicas": "4"})], "0 of 4"),
    },
)
def test_when_a_new_copy_counts_as_healthy(items: list[AggregatedStatusItem], problem: str | None):
    found = unhealthy_by_report(reporting(*items), MOVE, LATER)
    assert found == {} if problem is None else problem in found["new"]


def work(cluster: str = "new", *, deleted: bool = False, generation: int = 5, replicas: int = 4, **status: Any) -> Any:
    """Return a Work as Karmada writes it, and as the API server sends it."""
    manifest = {
        "metadata": {"annotations": {"resourcetemplate.karmada.io/generation": str(generation)}},
        "spec": {"replicas": replicas, "template": {"spec": {"terminationGracePeriodSeconds": 60}}},
    }
    metadata = {"name": "web", "namespace": f"karmada-es-{cluster}"}
    content = {
        "metadata": {**metadata, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})},
        "spec": {"workload": {"manifests": [manifest]}},
        "status": {
            "conditions": [{"type": "Applied", "status": "True"}],
            "manifestStatuses": [{"health": "Healthy", "status": {**READY, **status}}],
        },
    }
    return decode_json(KarmadaWork, msgspec.json.encode(content))


@cases(
    ("works", "problem"),
    {
        "a healthy copy": ([work()], None),
        "no Work": ([work("old")], "not written its Work"),
        "a Work that is being deleted is no copy": ([work(deleted=True)], "still being removed"),
        "a Work that asks for fewer replicas": ([work(replicas=2)], "2 of 4"),
        "a Work with an older template": ([work(generation=4), work("old")], "older template"),
        "a status about an older template": ([work(generation=6)], "older template"),
        "too few replicas are ready": ([work(readyReplicas=3)], "3 of 4"),
    },
)
def test_when_a_new_copy_counts_as_healthy_by_its_work(works: list[KarmadaWork], problem: str | None):
    found = unhealthy_by_works(reporting(), MOVE, copies_of(works))
    assert found == {} if problem is None else problem in found["new"]


def test_works_that_cannot_be_read_make_no_copy_healthy():
    assert unhealthy_by_works(reporting(), MOVE, Copies(problem="forbidden")) == {"new": "forbidden"}


def test_the_grace_period_of_a_copy_is_that_of_its_pods():
    assert copies_of([work()]).by_cluster["new"].grace_s == 60
    assert copies_of([KarmadaWork(metadata=ObjectMeta(namespace="karmada-es-a"))]).by_cluster["a"].grace_s == 30


def test_a_work_that_is_not_applied_has_the_message_of_its_condition():
    status = WorkStatus((Condition("Applied", "False", message="quota"),))
    found = copies_of([KarmadaWork(ObjectMeta(namespace="karmada-es-a"), status=status)]).by_cluster["a"].item
    assert (found.applied, found.applied_message) == (False, "quota")


def test_a_kind_without_replicas_is_healthy_by_its_health_alone():
    given = reporting(item(status=None), kind="ConfigMap")
    assert unhealthy_by_report(given, msgspec.structs.replace(MOVE, target={"new": 0}), LATER) == {}
    assert unhealthy_by_report(reporting(item(status={"phase": "x"}), kind="Widget"), MOVE, LATER) == {}


def test_a_status_directly_after_the_write_may_be_older():
    assert unhealthy_by_report(reporting(item()), MOVE, LATER - timedelta(seconds=1)).keys() == {"new"}
    soaking = msgspec.structs.replace(MOVE, phase=MovePhase.SOAKING, since=LATER)
    assert unhealthy_by_report(reporting(item()), soaking, LATER) == {}


def test_which_clusters_still_report_a_copy():
    assert reported_copies(reporting(item("b"), item("a")), ["a", "b", "c"]) == ["a", "b"]


@cases(
    ("items", "loses"),
    {
        "both are healthy": ([item("old"), item("new")], False),
        "the new copies report nothing": ([item("old")], False),
        "the old copies report nothing": ([item("new")], True),
        "some old replicas are ready": ([item("old", status={"readyReplicas": 2}), item("new")], True),
        "no replica is ready anywhere": ([item("old", status=None), item("new", status=None)], False),
        "more are ready than asked for": ([item("old"), item("new", status={**READY, "readyReplicas": 9})], False),
    },
)
def test_whether_a_rollback_loses_healthy_replicas(items: list[AggregatedStatusItem], *, loses: bool):
    assert rollback_loses_replicas(reporting(*items), MOVE) is loses


@cases(
    ("items", "phase", "unready", "loses"),
    {
        "the new copies are healthy": ([item("new")], MovePhase.SURGING, (), True),
        "some new replicas are ready": ([item("new", status={"readyReplicas": 1})], MovePhase.SOAKING, (), True),
        "no new replica is ready": ([item("new", status=None)], MovePhase.SURGING, (), False),
        "the old copies are reported although they are gone": ([item("old"), item("new")], MovePhase.SURGING, (), True),
        "the cluster of the new copies is not ready": ([item("new")], MovePhase.SURGING, ("new",), False),
        "there are no new copies yet": ([item("new")], MovePhase.ADMITTED, (), False),
    },
)
def test_with_break_before_make_each_healthy_new_replica_would_be_lost(
    items: list[AggregatedStatusItem], phase: MovePhase, unready: tuple[str, ...], *, loses: bool
):
    breaks = msgspec.structs.replace(MOVE, strategy=MoveStrategy.BREAK_BEFORE_MAKE, phase=phase)
    assert rollback_loses_replicas(reporting(*items), breaks, unready) is loses


@cases(
    ("unhealthy", "loses"),
    {"only the new copy is healthy": ("old", True), "only the old copy is healthy": ("new", False)},
)
def test_of_a_kind_without_replicas_healthy_copies_are_compared(unhealthy: str, *, loses: bool):
    items = [item(name, status=None, health="Unhealthy" if name == unhealthy else "Healthy") for name in ("old", "new")]
    move = msgspec.structs.replace(MOVE, source={"old": 0}, target={"new": 0})
    assert rollback_loses_replicas(reporting(*items, kind="ConfigMap"), move) is loses


@cases(
    ("moment", "seconds"),
    {
        "the past": (T0, STATUS_LAG_S),
        "no time": (None, 0.0),
        "the future, after a step of a clock": (LATER + timedelta(days=1), 0.0),
    },
)
def test_seconds_are_never_negative(moment: Any, seconds: float):
    assert seconds_since(moment, LATER) == seconds


@cases(
    ("items", "kind", "missing"),
    {
        "all replicas are ready": ([item(), item("old")], "Deployment", {}),
        "some are not ready": ([item(status={**READY, "readyReplicas": 1})], "Deployment", {"new": 3}),
        "only available ones": ([item(status={"availableReplicas": 3})], "Deployment", {"new": 1}),
        "a status that leaves out zero": ([item(status={"replicas": 4})], "Deployment", {"new": 4}),
        "a kind that counts no replicas": ([item(status=None)], "Job", {}),
        "another kind that counts replicas": ([item(status={"readyReplicas": 1})], "Own", {"new": 3}),
        "not applied": ([item(applied=False)], "Deployment", {}),
        "a cluster that is not assigned": ([item("gone", status={})], "Deployment", {}),
    },
)
def test_missing_replicas_are_the_same_in_what_the_extender_keeps(items, kind, missing):
    reported = reporting(*items, kind=kind)
    kept = KARMADA_BINDINGS[0].read(encode_json(reported))
    assert missing_replicas(reported) == missing_replicas(kept) == missing


@cases(
    ("items",),
    {
        "a healthy copy": ([item()],),
        "unhealthy": ([item(health="Unhealthy")],),
        "an older generation": ([item(status={**READY, "observedGeneration": 1})],),
    },
)
def test_the_copies_of_a_move_are_as_healthy_in_what_the_extender_keeps(items: Any):
    status = BindingStatus(aggregated_status=tuple(items))
    record = {"policy.berthmaster.io/move": annotation_of(MOVE)}
    moving = binding(clusters={"old": 4, "new": 4}, annotations=record, status=status)
    kept = KARMADA_BINDINGS[0].read(encode_json(moving))
    assert unhealthy_by_report(kept, MOVE, LATER) == unhealthy_by_report(moving, MOVE, LATER)


@cases(
    ("annotations", "clusters", "tasks", "kept"),
    {
        "at rest: what is assigned": ({}, {"new": 4}, (), [("new", "", {"readyReplicas": 4})]),
        "in a move: all, with their health": (
            {move.MOVE: "{}"}, {"new": 4}, (), [("new", "Healthy", READY), ("old", "Healthy", READY)],
        ),
        "evicted": ({}, {}, (GracefulEvictionTask("old"),), [("old", "", {"readyReplicas": 4})]),
    },
)  # fmt: skip
def test_the_extender_keeps_the_reports_that_the_course_of_a_move_reads(annotations, clusters, tasks, kept):
    found = binding(clusters=clusters, annotations=annotations, graceful_eviction_tasks=tasks)
    found = msgspec.structs.replace(found, status=BindingStatus(aggregated_status=(item(), item("old"))))
    reports = KARMADA_BINDINGS[0].read(encode_json(found)).status.aggregated_status
    assert [(each.cluster_name, each.health, each.status) for each in reports] == kept
