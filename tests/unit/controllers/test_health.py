import msgspec
import pytest
from fake_clock import FakeClock
from kube_in_memory import ScriptedClient

from berthmaster.controllers.health import STUCK_S, ProcessHealth
from berthmaster.controllers.metrics import ControllerLoad, stale_s
from berthmaster.kube.informer import Informer
from berthmaster.kube.requests import Collection
from berthmaster.kube.source_check import UNCONFIRMED_S, SourceCheck
from berthmaster.serving.probes import Readiness


class Toy:
    name = "toy"

    def __init__(self) -> None:
        self.now = ControllerLoad()

    def load(self) -> ControllerLoad:
        return self.now

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Process:
    """A healthy process; the tests change its parts."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.toy = Toy()
        self.leading = True
        self.election = ""
        self.informers = [Informer(Collection.of("v1", plural), len, self.clock) for plural in ("bindings", "clusters")]
        for informer in self.informers:
            informer.replace({}.items())
            informer.mark_fresh()
        self.source = SourceCheck([each.collection for each in self.informers], self.clock)
        self.health = ProcessHealth(
            [self.toy], lambda: self.informers, lambda: self.leading, lambda: self.election, self.clock, self.source
        )


@pytest.fixture
def process() -> Process:
    return Process()


def test_a_healthy_process_is_alive_and_ready(process):
    assert process.health.dead() == ""
    assert process.health.readiness() == Readiness("", "leading")
    process.leading = False
    assert process.health.readiness() == Readiness("", "standby"), "a standby is ready as well"


@pytest.mark.parametrize(
    ("load", "problem"),
    [
        pytest.param(ControllerLoad(waiting=10_000), "", id="a long queue is healthy"),
        pytest.param(ControllerLoad(longest_s=STUCK_S), "", id="a slow reconcile is healthy"),
        pytest.param(
            ControllerLoad(longest_s=STUCK_S + 1),
            "toy: one reconcile has been running for 301 s",
            id="a stuck reconcile",
        ),
        pytest.param(ControllerLoad(dead_workers=1), "toy: 1 workers have ended", id="a dead worker"),
    ],
)
def test_only_problems_that_a_restart_solves_fail_liveness(process, load, problem):
    process.toy.now = load
    assert process.health.dead() == problem
    assert not process.health.readiness().problem


def test_a_dead_election_fails_liveness(process):
    process.election = "the lease was looked at 40 s ago"
    assert process.health.dead() == "the lease was looked at 40 s ago"


def test_informers_that_are_not_synced_are_named(process):
    missing = Informer(Collection.of("v1", "policies"), len, process.clock)
    process.informers.append(missing)
    assert process.health.readiness().problem == "not synced: policies"
    missing.mark_stale("404 not found")
    assert process.health.readiness().problem == "not synced: policies (404 not found)"
    assert process.health.dead() == ""


def test_a_lost_watch_is_a_note(process):
    process.informers[0].mark_stale("no response")
    process.clock.pass_by(12)
    assert process.health.readiness() == Readiness("", "leading; bindings not watched for 12 s: no response")
    assert [stale_s(each, process.clock) for each in process.informers] == [12.0, 0.0]


def test_an_api_server_without_current_objects_is_a_note(process):
    process.clock.pass_by(UNCONFIRMED_S)
    process.source.check(ScriptedClient({}))  # it responds with 404
    ready = process.health.readiness()
    assert not ready.problem
    assert ready.note.startswith("leading; the API server does not return current objects; check it and its etcd: ")
    assert stale_s(process.source, process.clock) == UNCONFIRMED_S


def test_events_whose_handler_failed_are_a_note(process):
    process.informers[0].subscribe(lambda *_: 1 // 0)
    process.informers[0].put(("", "a"), msgspec.Raw(b"{}"))
    note = "leading; 1 events of bindings failed and will be handled again, see the log"
    assert process.health.readiness() == Readiness("", note)


def test_a_stopping_process_is_not_ready(process):
    process.health.stopping = True
    assert process.health.readiness() == Readiness("stopping")
