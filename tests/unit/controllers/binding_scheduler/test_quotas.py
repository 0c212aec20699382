"""Quotas, gates that are ignored, and metrics."""

import json
import logging
from typing import Any

import pytest
from builders import binding
from karmada_model.stage import Stage
from prometheus_client import REGISTRY
from tables import cases, data

from berthmaster.controllers.binding_scheduler.event_handlers import IGNORED_GATES, IgnoredGates
from berthmaster.controllers.binding_scheduler.reconciler import count_attempt
from berthmaster.controllers.settings import GATES
from berthmaster.kube.requests import APIRequest
from berthmaster.model.binding import Component, WorkloadAffinityGroups
from berthmaster.model.errors import ApiError
from berthmaster.runtime.feature_gates import FeatureGates
from berthmaster.scheduling.karmada.trigger import Trigger

NAMESPACE = "shop"
MEMBER, BINDING = data("quotas").values()


def quota(cpu: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "FederatedResourceQuota",
        "metadata": {"name": "limit", "namespace": namespace},
        "spec": {"overall": {"cpu": cpu}},
    }


class Refusing:
    """A control plane whose quota of three CPUs has refused a binding with four replicas for half a minute.

    Attributes:
        stage: the control plane.
        refused: whether the quota still refuses the binding.
        writes: the assignments that were sent.
    """

    def __init__(self) -> None:
        self.refused, self.writes = True, 0
        self.stage = Stage(MEMBER, quota("3"), quota("3", "bank"), only=())
        self.stage.api.before = self._check
        self.stage.put(BINDING)
        self.stage.run(30)
        self.writes = 0

    def assigned(self) -> bool:
        return "clusters" in (self.stage.get(BINDING) or {"spec": {}})["spec"]

    def _check(self, request: APIRequest) -> None:
        if request.method == "PATCH" and "clusters" in json.loads(request.body).get("spec", {}):
            self.writes += 1
            if self.refused:
                raise ApiError(403, "QuotaExceeded", "the quota is exceeded")


@pytest.fixture
def refusing() -> Refusing:
    return Refusing()


def test_a_looser_quota_retries_it_at_once(refusing: Refusing):
    refusing.refused = False
    refusing.stage.apply(quota("4"))
    refusing.stage.run(0.5)
    assert refusing.assigned()


def test_a_deleted_quota_retries_it_at_once(refusing: Refusing):
    refusing.refused = False
    refusing.stage.delete(quota("3"))
    refusing.stage.run(0.5)
    assert refusing.assigned()


@cases("change", {"a tighter quota": quota("2"), "another namespace": quota("9", "bank")})
def test_other_changes_retry_nothing(refusing: Refusing, change: dict[str, Any]):
    refusing.stage.apply(change)
    refusing.stage.run(0.5)
    assert refusing.writes == 0


def test_a_binding_that_is_refused_again_waits_for_its_backoff(refusing: Refusing):
    refusing.stage.apply(quota("4"))
    refusing.stage.run(9)
    assert refusing.writes == 1
    refusing.stage.run(2)
    assert refusing.writes == 2


GROUPED = binding(workload_affinity_groups=WorkloadAffinityGroups("app=x"))
COMPONENTS = binding(components=(Component("driver", 1),))


@cases(
    ("on", "found", "gates"),
    {
        "one gate, once": ({}, [GROUPED, GROUPED], ["WorkloadAffinity"]),
        "the gate is on": ({"WorkloadAffinity": True}, [GROUPED], []),
        "a gate that is on by default": ({}, [COMPONENTS, binding()], []),
        "two gates": (
            {"MultiplePodTemplatesScheduling": False},
            [COMPONENTS, GROUPED],
            ["MultiplePodTemplatesScheduling", "WorkloadAffinity"],
        ),
    },
)
def test_ignored_gates(caplog, on, found, gates):
    IGNORED_GATES.clear()
    observer = IgnoredGates(FeatureGates(GATES, on))
    with caplog.at_level(logging.WARNING, "berthmaster.binding_scheduler"):
        for each in found:
            observer.binding_changed(("ns", "web"), None, each)
        observer.binding_changed(("ns", "web"), found[0], None)
    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records] == [f"{gate}=true" for gate in gates]
    assert sorted(sample.labels["gate"] for metric in IGNORED_GATES.collect() for sample in metric.samples) == gates


@cases(
    ("trigger", "schedule_type"),
    {
        "a scaling": (Trigger.SCALE, "ScaleSchedule"),
        "a failover": (Trigger.FAILOVER, "ReconcileSchedule"),
        "the first scheduling": (Trigger.FIRST, "ReconcileSchedule"),
    },
)
def test_an_attempt_is_counted_by_type_and_trigger(trigger, schedule_type):
    labels = {"result": "scheduled", "schedule_type": schedule_type, "trigger": trigger.value}
    name = "berthmaster_scheduler_schedule_attempts_total"
    before = REGISTRY.get_sample_value(name, labels) or 0
    count_attempt("scheduled", trigger, 0.1)
    assert REGISTRY.get_sample_value(name, labels) == before + 1
