"""The time of the last scheduling: a decision that changes nothing else writes it, at most a few in each second."""

from datetime import datetime

from decisions import DUPLICATED
from faults import only, refuse
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector

from berthmaster.controllers.binding_scheduler.scheduling_times import PER_SECOND

WORKLOADS = 23


class Times:
    """A control plane whose duplicated workloads are scheduled at every event."""

    def __init__(self, count: int = WORKLOADS) -> None:
        self.cluster = cluster("m1")
        self.templates = [deployment(f"w{number}", 2) for number in range(count)]
        held = policy("p", selector(), schedulerName="berthmaster", placement={"replicaScheduling": DUPLICATED})
        self.stage = Stage(self.cluster, held, *self.templates)
        self.stage.run(60)

    def label(self, value: str) -> datetime:
        """Change a label of the cluster, which every workload may use, and return when."""
        self.stage.clock.pass_by(5)
        self.stage.edit(self.cluster, metadata={"labels": {"seen": value}})
        return self.stage.clock.now()

    def written_since(self, moment: datetime) -> int:
        """Return how many bindings have a time from a moment on."""
        bindings = [self.stage.binding(each) or {} for each in self.templates]
        return sum(datetime.fromisoformat(each["status"]["lastScheduledTime"]) >= moment for each in bindings)

    def latest(self) -> datetime:
        bindings = [self.stage.binding(each) or {} for each in self.templates]
        return max(datetime.fromisoformat(each["status"]["lastScheduledTime"]) for each in bindings)

    def versions(self) -> list[str]:
        return [(self.stage.binding(each) or {})["metadata"]["resourceVersion"] for each in self.templates]


def test_an_equal_decision_writes_its_time_and_no_more():
    times = Times(1)
    moment = times.label("once")
    times.stage.run(5)
    assert times.written_since(moment) == 1
    versions = times.versions()
    times.stage.run(60)
    assert times.versions() == versions, "a write of the time is no event"


def test_a_label_that_many_may_use_costs_few_writes_in_each_second():
    times = Times()
    moment, seen = times.label("many"), []
    for _ in range(WORKLOADS // PER_SECOND + 3):
        times.stage.run(1)
        seen.append(times.written_since(moment))
    assert max(after - before for before, after in zip([0, *seen], seen, strict=False)) <= PER_SECOND
    assert seen[-1] == WORKLOADS


def test_a_new_label_counts_for_those_that_still_wait():
    times = Times()
    times.label("first")
    times.stage.run(2)
    moment = times.label("second")
    times.stage.run(WORKLOADS // PER_SECOND + 3)
    assert times.written_since(moment) == WORKLOADS


def test_the_time_that_is_written_is_that_of_the_decision():
    times = Times()
    moment = times.label("many")
    times.stage.run(WORKLOADS // PER_SECOND + 3)
    assert times.written_since(moment) == WORKLOADS
    assert times.latest() == moment


def test_a_refused_write_of_the_time_does_not_make_it_later():
    times = Times(1)
    moment = times.label("once")
    times.stage.api.before = only(refuse(429), "PATCH", part="/status", times=3)
    times.stage.run(30)
    assert times.latest() == moment


def test_a_status_that_is_completed_later_has_the_time_of_the_scheduling():
    times = Times(1)
    times.stage.clock.pass_by(5)
    moment = times.stage.clock.now()
    times.stage.api.before = only(refuse(429), "PATCH", part="/status", times=3)
    times.stage.edit(times.templates[0], spec={"replicas": 3})
    times.stage.run(30)
    assert times.latest() == moment


def test_a_later_scheduling_counts_more_than_a_time_that_waits():
    times = Times(1)
    times.label("once")
    moment = times.stage.clock.now()
    times.stage.edit(times.templates[0], spec={"replicas": 3})
    times.stage.run(30)
    assert times.latest() >= moment
