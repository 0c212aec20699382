"""Shadow mode: decisions are compared with those of another scheduler, and nothing is written."""

import json
from typing import Any

import msgspec
import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC
from fake_clock import FakeClock
from kube_in_memory import KubeInMemory
from tables import cases

from berthmaster.controllers.binding_scheduler.shadow_controller import PAGE, ShadowScheduler
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.settings import GATES, ControllerSettings
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.requests import RESOURCE_BINDINGS
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import encode_json
from berthmaster.model.move import MOVE, MovePhase, MoveReason, MoveState
from berthmaster.runtime.feature_gates import FeatureGates

THEIRS = "default-scheduler"
APPLIED = "policy.karmada.io/applied-placement"


class Shadow:
    """A shadow scheduler of the bindings of Karmada's, with two clusters of 10 and 20 cores."""

    def __init__(self, **settings: Any) -> None:
        self.context = ControllerContext(KubeInMemory(), FakeClock(), None)  # type: ignore[arg-type] # no events
        gates = FeatureGates(GATES, {"SchedulingOvercommitProtection": False})
        self.scheduler = ShadowScheduler(
            self.context, ControllerSettings(**{"scheduler_name": THEIRS, "gates": gates, **settings})
        )
        self._version = 0
        self.clusters(a=10, b=20)

    def clusters(self, **cores: int) -> None:
        for name, count in cores.items():
            self._put_cluster(cluster(name, cpu=count))

    def _put_cluster(self, made: Cluster) -> None:
        self.context.informers[KARMADA_CLUSTERS[0]].put(("", made.name), msgspec.Raw(encode_json(made)))

    def binding(
        self, name: str = "web", *, scheduling: Any = DYNAMIC, answered: Any = None, failed: str = "", **spec: Any
    ) -> None:
        """Observe a version of a binding; ``answered`` is the assignment that the scheduler in charge has written."""
        self._version += 1
        placement = spec.pop("placement", None) or {"replicaScheduling": scheduling}
        annotations = {} if answered is None else {APPLIED: json.dumps(placement)}
        annotations |= spec.pop("annotations", {})
        condition = {"type": "Scheduled", "status": "False" if failed else "True", "reason": failed or "Success"}
        status: dict[str, Any] = {}
        if answered is not None or failed:
            status = {"conditions": [condition], "lastScheduledTime": f"2026-01-01T00:00:{self._version:02}Z"}
        clusters = [{"name": each, "replicas": count} for each, count in (answered or {}).items()]
        self.context.informers[RESOURCE_BINDINGS].put(("ns", name), msgspec.Raw(json.dumps({
            "metadata": {
                "name": name, "namespace": "ns", "uid": name, "resourceVersion": str(self._version),
                "generation": self._version, "annotations": annotations,
                "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
            },
            "spec": {
                "schedulerName": THEIRS,
                "resource": {
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": "ns", "uid": name,
                },
                "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
                "placement": placement, "clusters": clusters, **spec,
            },
            "status": status,
        }).encode()))  # fmt: skip

    def remove(self, name: str = "web") -> None:
        self.context.informers[RESOURCE_BINDINGS].delete(("ns", name))

    @property
    def report(self) -> dict[str, Any]:
        content_type, page = self.context.pages[PAGE]()
        assert content_type == "application/json"
        found: dict[str, Any] = json.loads(page)
        return found

    @property
    def results(self) -> dict[str, int]:
        return {name: count for name, count in self.report["bindings"].items() if count}


@pytest.fixture
def shadow() -> Shadow:
    return Shadow()


def test_an_equal_answer(shadow):
    shadow.binding()
    assert shadow.results == {"waiting": 1}
    shadow.binding(answered={"a": 1, "b": 2})
    assert shadow.results == {"same": 1}
    assert shadow.report["decisions"] == {"same": 1, "different": 0}


@cases(
    ("answered", "failed", "reason"),
    {
        "other replicas": ({"a": 2, "b": 1}, "", "replicas"),
        "other clusters": ({"b": 3}, "", "clusters"),
        "they find no cluster": ({}, "NoClusterFit", "only-ours"),
    },
)
def test_a_different_answer(shadow, answered, failed, reason):
    shadow.binding()
    shadow.binding(answered=answered, failed=failed)
    [found] = shadow.report["differences"]
    assert (found["name"], found["reason"], found["theirs"], found["ours"]) == (
        "web",
        reason,
        answered,
        {"a": 1, "b": 2},
    )
    assert shadow.report["reasons"][reason] == 1
    assert shadow.results == {"different": 1}


def test_an_answer_where_this_scheduler_finds_no_cluster(shadow):
    shadow.binding(placement={"clusterAffinity": {"clusterNames": ["none"]}})
    shadow.binding(placement={"clusterAffinity": {"clusterNames": ["none"]}}, answered={"a": 3})
    [found] = shadow.report["differences"]
    assert (found["reason"], found["ours"]) == ("only-theirs", {})
    assert "0/2 clusters are available" in found["message"]


def test_both_find_no_cluster(shadow):
    nowhere = {"clusterAffinity": {"clusterNames": ["none"]}}
    shadow.binding(placement=nowhere)
    shadow.binding(placement=nowhere, answered={}, failed="NoClusterFit")
    assert shadow.results == {"same": 1}


def test_a_field_of_a_newer_karmada_is_a_difference_of_its_own(shadow):
    shadow.binding(placement={"racks": 1})
    shadow.binding(placement={"racks": 1}, answered={"b": 3})
    assert shadow.report["reasons"]["unsupported"] == 1


def test_the_clusters_at_the_time_of_the_answer_count(shadow):
    shadow.binding(scheduling=AGGREGATED)
    shadow.clusters(b=2)
    shadow.binding(scheduling=AGGREGATED, answered={"a": 3})
    assert shadow.results == {"same": 1}


def test_a_scaled_binding_is_compared_again(shadow):
    shadow.binding()
    shadow.binding(answered={"a": 1, "b": 2})
    shadow.binding(answered={"a": 1, "b": 2}, replicas=6)
    shadow.binding(answered={"a": 2, "b": 4}, replicas=6)
    assert shadow.report["decisions"] == {"same": 2, "different": 0}
    assert shadow.results == {"same": 1}


def test_assigned_bindings_at_the_start_are_kept_or_compared():
    shadow = Shadow()
    shadow.binding("divided", answered={"a": 3})
    shadow.binding("copies", scheduling=DUPLICATED, answered={"a": 3, "b": 3})
    shadow.binding("fewer", scheduling=DUPLICATED, answered={"a": 3})
    assert shadow.results == {"kept": 1, "same": 1, "different": 1}
    assert [each["name"] for each in shadow.report["differences"]] == ["fewer"]


def test_a_later_equal_answer_removes_the_difference(shadow):
    shadow.binding()
    shadow.binding(answered={"b": 3})
    shadow.binding(answered={"b": 3}, replicas=4)
    shadow.binding(answered={"b": 4}, replicas=4)
    assert shadow.report["differences"] == []
    assert shadow.report["decisions"] == {"same": 1, "different": 1}


@cases(
    "change", {"of a third scheduler": {"schedulerName": "other"}, "suspended": {"suspension": {"scheduling": True}}}
)
def test_bindings_that_are_not_compared(shadow, change):
    shadow.binding(**change)
    shadow.binding(answered={"b": 3}, **change)
    assert shadow.results == {}


def test_a_deleted_binding_is_forgotten(shadow):
    shadow.binding()
    shadow.remove()
    assert shadow.results == {}


def test_what_the_other_scheduler_assigns_counts_with_overcommit_protection():
    shadow = Shadow(gates=FeatureGates(GATES))
    for name in ("one", "two"):
        shadow.binding(name, scheduling=AGGREGATED, replicas=15)
    shadow.binding("one", scheduling=AGGREGATED, replicas=15, answered={"b": 15})
    shadow.binding("two", scheduling=AGGREGATED, replicas=15, answered={"a": 10, "b": 5})
    assert shadow.results == {"same": 2}


@pytest.mark.parametrize(("phase", "results"), [("Surging", {}), ("HeldDown", {"waiting": 1})])
def test_a_binding_is_not_compared_while_it_moves(shadow, phase, results):
    move = MoveState(MoveReason.FAILBACK, MovePhase(phase), source={"a": 3}, target={"b": 3})
    shadow.binding()
    shadow.binding(annotations={MOVE: encode_json(move).decode()})
    assert shadow.results == results
