import pytest
from prometheus_client import REGISTRY

from berthmaster.controllers.binding_scheduler.metrics import SchedulingMetrics
from berthmaster.scheduling.karmada.trigger import Trigger


@pytest.mark.parametrize(
    ("trigger", "schedule_type"),
    [
        pytest.param(Trigger.SCALE, "ScaleSchedule", id="a scaling"),
        pytest.param(Trigger.FAILOVER, "ReconcileSchedule", id="a failover"),
        pytest.param(Trigger.FIRST, "ReconcileSchedule", id="the first scheduling"),
    ],
)
def test_an_attempt_is_counted_by_type_and_trigger(trigger, schedule_type):
    labels = {"result": "scheduled", "schedule_type": schedule_type, "trigger": trigger.value}
    name = "berthmaster_scheduler_schedule_attempts_total"
    before = REGISTRY.get_sample_value(name, labels) or 0
    SchedulingMetrics().attempted("scheduled", trigger, 0.1)
    assert REGISTRY.get_sample_value(name, labels) == before + 1
