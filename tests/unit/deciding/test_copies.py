"""When the copies of a workload count as healthy."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import msgspec.structs
import pytest
from builders import binding

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
from berthmaster.model.binding import AggregatedStatusItem, Binding, BindingStatus
from berthmaster.model.cluster import Condition
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.move import MovePhase, MoveReason, MoveState, MoveStrategy
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


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        pytest.param([item()], None, id="a healthy copy"),
        pytest.param([item("old")], "reports no status", id="no entry"),
        pytest.param([item(applied=False)], "not applied", id="not applied"),
        pytest.param([item(health="Unhealthy")], "Unhealthy", id="unhealthy"),
        pytest.param([item(health="")], "unknown", id="without a health"),
        pytest.param([item(status={**READY, "observedGeneration": 1})], "older generation", id="an older generation"),
        pytest.param(
            [item(status={**READY, "resourceTemplateGeneration": 4}), item("old")],
            "older template",
            id="older template",
        ),
        pytest.param([item(status={**READY, "readyReplicas": 3})], "3 of 4", id="too few replicas are ready"),
        pytest.param([item(status={"observedGeneration": 2})], "0 of 4", id="a status that leaves out zero replicas"),
        pytest.param([item(status=None)], "0 of 4", id="a Deployment without a status"),
        pytest.param([item(status={"replicas": "4"})], "0 of 4", id="a number that is no number"),
    ],
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


@pytest.mark.parametrize(
    ("works", "problem"),
    [
        pytest.param([work()], None, id="a healthy copy"),
        pytest.param([work("old")], "not written its Work", id="no Work"),
        pytest.param([work(deleted=True)], "still being removed", id="a Work that is being deleted is no copy"),
        pytest.param([work(replicas=2)], "2 of 4", id="a Work that asks for fewer replicas"),
        pytest.param([work(generation=4), work("old")], "older template", id="a Work with an older template"),
        pytest.param([work(generation=6)], "older template", id="a status about an older template"),
        pytest.param([work(readyReplicas=3)], "3 of 4", id="too few replicas are ready"),
    ],
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


@pytest.mark.parametrize(
    ("items", "loses"),
    [
        pytest.param([item("old"), item("new")], False, id="both are healthy"),
        pytest.param([item("old")], False, id="the new copies report nothing"),
        pytest.param([item("new")], True, id="the old copies report nothing"),
        pytest.param([item("old", status={"readyReplicas": 2}), item("new")], True, id="some old replicas are ready"),
        pytest.param([item("old", status=None), item("new", status=None)], False, id="no replica is ready anywhere"),
        pytest.param(
            [item("old"), item("new", status={**READY, "readyReplicas": 9})], False, id="more are ready than asked for"
        ),
    ],
)
def test_whether_a_rollback_loses_healthy_replicas(items: list[AggregatedStatusItem], *, loses: bool):
    assert rollback_loses_replicas(reporting(*items), MOVE) is loses
    breaks = msgspec.structs.replace(MOVE, strategy=MoveStrategy.BREAK_BEFORE_MAKE)
    assert not rollback_loses_replicas(reporting(*items), breaks)


@pytest.mark.parametrize(
    ("unhealthy", "loses"),
    [
        pytest.param("old", True, id="only the new copy is healthy"),
        pytest.param("new", False, id="only the old copy is healthy"),
    ],
)
def test_of_a_kind_without_replicas_healthy_copies_are_compared(unhealthy: str, *, loses: bool):
    items = [item(name, status=None, health="Unhealthy" if name == unhealthy else "Healthy") for name in ("old", "new")]
    move = msgspec.structs.replace(MOVE, source={"old": 0}, target={"new": 0})
    assert rollback_loses_replicas(reporting(*items, kind="ConfigMap"), move) is loses


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        pytest.param(T0, STATUS_LAG_S, id="the past"),
        pytest.param(None, 0.0, id="no time"),
        pytest.param(LATER + timedelta(days=1), 0.0, id="the future, after a step of a clock"),
    ],
)
def test_seconds_are_never_negative(moment: Any, seconds: float):
    assert seconds_since(moment, LATER) == seconds


@pytest.mark.parametrize(
    ("items", "kind", "missing"),
    [
        pytest.param([item(), item("old")], "Deployment", {}, id="all replicas are ready"),
        pytest.param([item(status={**READY, "readyReplicas": 1})], "Deployment", {"new": 3}, id="some are not ready"),
        pytest.param([item(status={"availableReplicas": 3})], "Deployment", {"new": 1}, id="only available ones"),
        pytest.param([item(status={"replicas": 4})], "Deployment", {"new": 4}, id="a status that leaves out zero"),
        pytest.param([item(status=None)], "Job", {}, id="a kind that counts no replicas"),
        pytest.param([item(status={"readyReplicas": 1})], "Own", {"new": 3}, id="another kind that counts replicas"),
        pytest.param([item(applied=False)], "Deployment", {}, id="not applied"),
        pytest.param([item("gone", status={})], "Deployment", {}, id="a cluster that is not assigned"),
    ],
)
def test_missing_replicas_are_the_same_in_what_the_extender_keeps(items, kind, missing):
    reported = reporting(*items, kind=kind)
    kept = KARMADA_BINDINGS[0].read(encode_json(reported))
    assert missing_replicas(reported) == missing_replicas(kept) == missing
