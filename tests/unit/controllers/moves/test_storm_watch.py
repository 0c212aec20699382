import json
from datetime import timedelta

import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from kube_in_memory import KubeInMemory
from prometheus_client import REGISTRY
from tables import cases

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves.storm_watch import StormWatch
from berthmaster.deciding.lease_record import BRAKE, RESUME
from berthmaster.deciding.storm_brake import BrakeSettings
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.lease import Lease, LeaseOptions

PATH = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/berthmaster-controllers"


class Process:
    """A process that holds the lease, and the clusters that it observes."""

    def __init__(self, api, clock, identity="one"):
        self.clock, self.api, self.events = clock, api, FakeMetrics()
        options = LeaseOptions("karmada-system", "berthmaster-controllers", identity)
        self.lease = Lease(api, options, clock)
        context = ControllerContext(api, clock, self.events, lease=self.lease)  # type: ignore[arg-type]
        self.watch = StormWatch(context, BrakeSettings())
        self.informer = context.informer(*KARMADA_CLUSTERS)
        self.watch.follow(self.informer)

    def lead(self):
        assert self.lease.try_acquire_or_renew()
        self.watch.begin()

    def put(self, *names, ready, since=None):
        for name in names:
            self.informer.put(("", name), cluster(name, since or self.clock.now(), ready=ready))

    def step(self, seconds=2.0):
        self.clock.pass_by(seconds)
        self.lease.try_acquire_or_renew()
        self.watch.tick()
        self.lease.try_acquire_or_renew()

    def resume(self, value):
        """Let a user end the brake."""
        self.api.objects[PATH]["metadata"]["annotations"][RESUME] = value
        self.api.put(PATH, self.api.objects[PATH])
        self.step()
        self.step()

    def successor(self, unready_s):
        """Return the next leader. It observes six clusters that are unready since a time."""
        following = Process(self.api, self.clock, "two")
        following.put(*names(6), ready=False, since=self.clock.now() - timedelta(seconds=unready_s))
        following.put(*names(4, 6), ready=True)
        following.lease.try_acquire_or_renew()
        self.clock.pass_by(20)
        following.lead()
        return following

    @property
    def reasons(self):
        return [content.reason for (content,) in self.events.calls_of("record")]

    def record(self):
        text = self.api.objects[PATH]["metadata"].get("annotations", {}).get(BRAKE)
        return None if text is None else json.loads(text)


def cluster(name, since, created=None, *, ready=False):
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": f"{since:%Y-%m-%dT%H:%M:%SZ}"}
    created = created or since - timedelta(days=30)
    metadata = {"name": name, "creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}"}
    return json.dumps({"metadata": metadata, "status": {"conditions": [condition]}}).encode()


def names(count, first=0):
    return [f"m{number}" for number in range(first, first + count)]


@cases(("silent_s", "braked"), {"a killed leader": (16, False), "an outage in which the leader ended": (60, True)})
def test_an_outage_that_ended_the_leader_engages_the_brake_of_the_next_one(silent_s, *, braked):
    api, clock = KubeInMemory(), FakeClock()
    first = Process(api, clock)
    first.lead()
    clock.pass_by(silent_s - 16)
    second = Process(api, clock, "two")
    assert not second.lease.try_acquire_or_renew()
    clock.pass_by(16)
    second.lead()
    assert bool(second.watch.reason()) is braked
    clock.pass_by(120)
    assert second.watch.reason() is None


@pytest.fixture
def process():
    found = Process(KubeInMemory(), FakeClock())
    found.put(*names(10), ready=True)
    found.lead()
    return found


def test_a_fleet_without_a_storm_writes_nothing_into_the_lease(process):
    process.put("m0", ready=False)
    process.step()
    assert process.record() is None
    assert process.reasons == []
    assert REGISTRY.get_sample_value("berthmaster_moves_storm_brake_engaged") == 0


def test_a_storm_is_recorded_and_reported(process):
    process.put(*names(6), ready=False)
    assert process.watch.reason() == "4 of 10 ready clusters turned unready within 300 s"
    process.step()
    record = process.record()
    assert (record["reason"], record["unready"]) == (process.watch.reason(), 6)
    assert process.reasons == ["StormBrakeEngaged"]


def test_the_end_of_a_storm_is_reported_and_clears_the_record(process):
    process.put(*names(6), ready=False)
    process.step()
    process.put(*names(6), ready=True)
    process.step(121)
    process.step()
    assert (process.watch.reason(), process.record()) == (None, None)
    assert process.reasons == ["StormBrakeEngaged", "StormBrakeReleased"]


@pytest.mark.parametrize("value", ['{"at":"2026-01-01T00:00:00Z","message":"datacenter is gone"}', "by hand"])
def test_a_user_ends_the_brake_by_an_annotation_of_the_lease(process, value):
    process.put(*names(6), ready=False)
    process.step()
    process.resume(value)
    assert process.watch.reason() is None
    assert process.reasons == ["StormBrakeEngaged", "StormBrakeResumed"]
    assert RESUME not in process.api.objects[PATH]["metadata"]["annotations"]
    assert set(process.record()) == {"resumedAt"}
    process.step(200)
    assert process.reasons == ["StormBrakeEngaged", "StormBrakeResumed"]


def test_the_next_leader_keeps_the_brake_engaged(process):
    process.put(*names(6), ready=False)
    process.step()
    process.clock.pass_by(2 * 86400)
    assert "previous leader" in process.successor(2 * 86400).watch.reason()


def test_the_next_leader_knows_that_a_user_accepted_the_loss(process):
    process.put(*names(6), ready=False)
    process.step()
    process.resume("yes")
    assert process.successor(60).watch.reason() is None


@cases(
    ("since_s", "created_s", "engaged"),
    {
        "they turned unready a minute ago": (60, 86400, True),
        "they joined a minute ago and were never ready": (60, 70, False),
        "the clock of another machine is ahead": (-60, 86400, True),
    },
)
def test_the_first_leader_judges_by_the_conditions(since_s, created_s, engaged):
    process = Process(KubeInMemory(), FakeClock())
    now = process.clock.now()
    for name in names(6):
        since, created = now - timedelta(seconds=since_s), now - timedelta(seconds=created_s)
        process.informer.put(("", name), cluster(name, since, created))
    process.put(*names(4, 6), ready=True)
    process.lead()
    assert (process.watch.reason() is not None) is engaged


def test_lost_contact_to_the_api_server_stops_moves(process):
    process.informer.mark_fresh()
    process.informer.mark_stale("connection refused")
    process.clock.pass_by(30)
    assert process.watch.reason() == "the API server is out of reach"
    process.informer.mark_fresh()
    assert process.watch.reason() == "the API server was out of reach for 30 s"
    process.clock.pass_by(120)
    assert process.watch.reason() is None


def test_a_deleted_cluster_is_forgotten(process):
    process.put(*names(6), ready=False)
    for name in names(6):
        process.informer.delete(("", name))
    process.clock.pass_by(121)
    assert process.watch.reason() is None
