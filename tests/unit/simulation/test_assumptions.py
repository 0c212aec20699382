"""What a simulation assumes about failover, preemption and evictions."""

from datetime import UTC, datetime, timedelta

import pytest
from tables import cases

from berthmaster.controllers.settings import GATES, ControllerSettings, controllers_record
from berthmaster.deciding.lease_record import CONTROLLERS, ControllersRecord, lease_record, text_of
from berthmaster.model.binding import Binding, BindingSpec, GracefulEvictionTask, ObjectReference
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.taint import Taint, Toleration
from berthmaster.runtime.feature_gates import FeatureGates
from berthmaster.simulation.evictions import evicted_after_s
from berthmaster.simulation.plan_answer import Basis, Switch, assumptions

NOW = datetime(2026, 5, 1, tzinfo=UTC)
RUNNING = ControllersRecord("berthmaster", 300.0, preempts=True)
TAINTS = [Taint("a", "NoExecute"), Taint("b", "NoExecute")]


def binding(producer=""):
    resource = ObjectReference("apps/v1", "Deployment", "web", "shop")
    tasks = (GracefulEvictionTask("m1", producer),) if producer else ()
    return Binding(spec=BindingSpec(resource, graceful_eviction_tasks=tasks), metadata=ObjectMeta(name="web"))


@cases(
    ("asked", "record", "producer", "braked", "expected"),
    {
        "nothing is known": ("auto", None, "", False, (False, False, "", Basis.DEFAULT)),
        "failover recorded": ("auto", RUNNING, "", False, (False, False, "berthmaster", Basis.RECORDED)),
        "the storm brake holds it": ("auto", RUNNING, "", True, (False, False, "", Basis.BRAKED)),
        "off": ("auto", ControllersRecord("berthmaster"), "", False, (False, False, "", Basis.DEFAULT)),
        "Karmada evicts": ("auto", None, "TaintManager", False, (True, False, "", Basis.TASKS)),
        "another task": ("auto", None, "berthmaster", False, (False, False, "", Basis.DEFAULT)),
        "asked for": ("on", None, "", False, (True, True, "", Basis.ASKED)),
        "asked to leave out": ("off", RUNNING, "TaintManager", False, (False, False, "", Basis.ASKED)),
    },
)
def test_what_is_assumed_about_failover(asked, record, producer, braked, expected):
    found = assumptions(Switch(asked), Switch.AUTO, record, [binding(producer)], braked=braked)
    assert (found.evicts, found.taints_lost, found.replaces, found.failover_basis) == expected


@pytest.mark.parametrize(
    ("asked", "record", "preempts"),
    [("auto", None, False), ("auto", RUNNING, True), ("on", None, True), ("off", RUNNING, False)],
)
def test_what_is_assumed_about_preemption(asked, record, preempts):
    assert assumptions(Switch.AUTO, Switch(asked), record, []).preempts is preempts


@cases(
    ("spec", "runs"),
    {
        "held": ({"holderIdentity": "one", "renewTime": "2026-04-30T23:59:55Z"}, True),
        "released": ({"holderIdentity": "", "renewTime": "2026-04-30T23:59:55Z"}, False),
        "not renewed": ({"holderIdentity": "one", "renewTime": "2026-04-30T23:00:00Z"}, False),
        "empty": ({}, False),
    },
)
def test_only_controllers_that_run_count(spec, runs):
    gates = FeatureGates.parse("PolicyPreemption=true", GATES)
    settings = ControllerSettings(gates=gates, failover="not-ready")
    record = controllers_record(settings, ["binding-scheduler", "preemption"])
    lease = {"metadata": {"annotations": {CONTROLLERS: text_of(record)}}, "spec": spec}
    found = lease_record(lease).running(NOW)
    assert found == (record if runs else None)
    assert (record.scheduler, record.failover_after_s, record.preempts) == ("berthmaster", 300.0, True)
    assert "PolicyPreemption" in record.gates
    assert lease_record(lease).running(NOW + timedelta(minutes=5)) is None


def test_controllers_that_schedule_nothing_record_no_failover():
    record = controllers_record(ControllerSettings(failover="not-ready"), ["workload-rebalancer"])
    assert (record.scheduler, record.failover_after_s, record.preempts) == ("", None, False)


@cases(
    ("tolerations", "after_s"),
    {
        "none": ([], 0),
        "one of two taints": ([Toleration("a", "Exists")], 0),
        "every taint without a limit": ([Toleration(operator="Exists")], None),
        "with a limit": ([Toleration(operator="Exists", toleration_seconds=60)], 60),
        "a negative limit": ([Toleration(operator="Exists", toleration_seconds=-1)], 0),
        "the first one that tolerates a taint counts": (
            [Toleration("a", "Exists", toleration_seconds=60), Toleration(operator="Exists")],
            60,
        ),
        "the shortest limit counts": (
            [Toleration("a", "Exists", toleration_seconds=60), Toleration("b", "Exists", toleration_seconds=30)],
            30,
        ),
    },
)
def test_after_how_long_taints_evict(tolerations, after_s):
    assert evicted_after_s(TAINTS, tolerations) == after_s
