import msgspec
import pytest
from fake_clock import FakeClock

from berthmaster.controllers.controller import ControllerLoad
from berthmaster.controllers.health import STUCK_S, Vitals, stale_s
from berthmaster.kube.informer import Informer
from berthmaster.kube.requests import Collection
from berthmaster.serving.probes import Readiness


class Toy:
    name = "toy"

    def __init__(self) -> None:
        self.now = ControllerLoad()

    def load(self) -> ControllerLoad:
        return self.now

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Well:
    """A process that is well until told otherwise."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.toy = Toy()
        self.leading = True
        self.election = ""
        self.informers = [Informer(Collection.of("v1", plural), len, self.clock) for plural in ("bindings", "clusters")]
        for informer in self.informers:
            informer.replace({})
            informer.confirm()
        self.vitals = Vitals(
            [self.toy], lambda: self.informers, lambda: self.leading, lambda: self.election, self.clock
        )


@pytest.fixture
def process() -> Well:
    return Well()


def test_well_it_is_alive_and_ready(process):
    assert process.vitals.dead() == ""
    assert process.vitals.health() == Readiness("", "leading")
    process.leading = False
    assert process.vitals.health() == Readiness("", "standing by"), "a standby is ready as well"


@pytest.mark.parametrize(
    ("load", "told"),
    [
        pytest.param(ControllerLoad(waiting=10_000), "", id="much to do is no illness"),
        pytest.param(ControllerLoad(longest_s=STUCK_S), "", id="slow work neither"),
        pytest.param(
            ControllerLoad(longest_s=STUCK_S + 1), "toy: work on one key is under way for 301 s", id="stuck work"
        ),
        pytest.param(ControllerLoad(dead_workers=1), "toy: 1 of its workers have ended", id="a worker that died"),
    ],
)
def test_only_what_a_new_process_would_mend_is_death(process, load, told):
    process.toy.now = load
    assert process.vitals.dead() == told
    assert not process.vitals.health().problem


def test_a_dead_election_is_death(process):
    process.election = "the lease was looked at 40 s ago"
    assert process.vitals.dead() == "the lease was looked at 40 s ago"


def test_what_is_not_listed_is_named(process):
    missing = Informer(Collection.of("v1", "policies"), len, process.clock)
    process.informers.append(missing)
    assert process.vitals.health().problem == "not synced: policies"
    missing.lose("404 not found")
    assert process.vitals.health().problem == "not synced: policies (404 not found)"
    assert process.vitals.dead() == ""


def test_what_is_lost_later_is_a_note(process):
    process.informers[0].lose("nobody answers")
    process.clock.pass_by(12)
    assert process.vitals.health() == Readiness("", "leading; bindings not watched since 12 s: nobody answers")
    assert [stale_s(each, process.clock) for each in process.informers] == [12.0, 0.0]


def test_changes_that_a_handler_failed_at_are_a_note(process):
    process.informers[0].subscribe(lambda *_: 1 // 0)
    process.informers[0].put(("", "a"), msgspec.Raw(b"{}"))
    told = "leading; 1 changes of bindings have to be told again: the log says why"
    assert process.vitals.health() == Readiness("", told)


def test_stopping_it_is_not_ready(process):
    process.vitals.stopping = True
    assert process.vitals.health() == Readiness("stopping")
