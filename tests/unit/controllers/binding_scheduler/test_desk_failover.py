"""When a binding is looked at for clusters that are not ready, and what is owed to it besides."""

import msgspec
import pytest
from builders import cluster
from decisions import AGGREGATED, DYNAMIC, asked
from fake_clock import FakeClock

from berthmaster.controllers.binding_scheduler.desk import Desk
from berthmaster.controllers.binding_scheduler.failover import FailoverOptions
from berthmaster.controllers.binding_scheduler.plan import Version
from berthmaster.controllers.binding_scheduler.step import Step
from berthmaster.model.binding import Binding
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.trigger import Trigger

TOLERATION_S = 300.0
KEY = "default", "web"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def desk(clock: FakeClock) -> Desk:
    return Desk(karmada_profile(), clock, FailoverOptions(TOLERATION_S))


def turn(desk: Desk, **ready: bool) -> None:
    """Clusters with ten cores each, ready or not."""
    for name, state in ready.items():
        desk.cluster_changed(cluster(name, cpu=10, ready=state))


def wanting(**fields: object) -> Binding:
    return asked(name="web", requests={"cpu": 1}, **fields)


def written(step: Step) -> Binding:
    """The binding as it is after a step's write."""
    assert step.write is not None
    return step.write.applied(step.binding, Version("2", 2))


def test_what_goes_to_a_cluster_that_is_not_ready_is_looked_at_once_it_counts_as_lost(desk: Desk, clock: FakeClock):
    turn(desk, a=False)
    clock.pass_by(100)
    step = desk.decide(KEY, wanting(replicas=2, scheduling=AGGREGATED))
    assert (step.clusters, step.again_s) == ({"a": 2}, TOLERATION_S - 100)


def test_what_goes_to_a_cluster_that_is_lost_already_is_looked_at_at_once(desk: Desk, clock: FakeClock):
    turn(desk, a=False)
    clock.pass_by(TOLERATION_S + 1)
    assert desk.decide(KEY, wanting(replicas=2, scheduling=AGGREGATED)).again_s == 0


def test_after_one_cluster_was_replaced_the_next_one_is_not_forgotten(desk: Desk, clock: FakeClock):
    turn(desk, a=True, b=True, c=True)
    binding = written(desk.decide(KEY, wanting(replicas=6, scheduling=DYNAMIC)))
    turn(desk, a=False)
    clock.pass_by(100)
    turn(desk, b=False)
    clock.pass_by(TOLERATION_S - 100)
    step = desk.decide(KEY, binding)
    assert step.trigger is Trigger.FAILOVER
    assert (step.clusters, step.again_s) == ({"b": 2, "c": 4}, 100)


def test_what_cannot_be_replaced_is_not_looked_at_again_and_again(desk: Desk, clock: FakeClock):
    turn(desk, a=False)
    binding = written(desk.decide(KEY, wanting(replicas=2, scheduling=AGGREGATED)))
    clock.pass_by(TOLERATION_S)
    step = desk.decide(KEY, msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, replicas=4)))
    assert (step.clusters, step.again_s) == ({"a": 4}, None)
    assert step.warning


def test_a_rescheduling_that_was_asked_for_is_done_after_the_failover(desk: Desk, clock: FakeClock):
    turn(desk, a=True, b=True, c=False)
    clock.pass_by(TOLERATION_S)
    requested = wanting(replicas=4, scheduling=DYNAMIC, fresh=True, clusters={"a": 2, "c": 2})
    step = desk.decide(KEY, requested)
    assert (step.trigger, step.again_s) == (Trigger.FAILOVER, 0)
    assert step.status_write(written(step), clock.now(), written(step)).last_scheduled_time is None
    assert step.tried, "people are told"
    assert desk.decide(KEY, written(step)).trigger is Trigger.RESCHEDULED
