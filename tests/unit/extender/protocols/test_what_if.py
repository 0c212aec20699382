"""How long a simulation may take."""

import logging

import pytest
from builders import cluster
from fake_clock import FakeClock

from extender.protocols.native.what_if import WhatIf
from extender.protocols.native.wire import LabelChange, SimulateRequest
from extender.protocols.problem import Refusal
from extender.protocols.route import Call
from extender.protocols.services import Services
from extender.scheduling.plugins import built_in
from extender.scheduling.scheduler import Profile
from extender.simulation.world import World
from extender.state.state import State


class HurriedClock(FakeClock):
    """A second passes with each look at it."""

    def monotonic_s(self) -> float:
        self.pass_by(1)
        return super().monotonic_s()


def test_changes_are_made_only_as_long_as_there_is_time():
    clock, state = HurriedClock(), State(Profile(built_in()))
    with state.feeding(clock.now()) as memory:
        memory.take(World({"a": cluster("a")}, ()))
    services = Services(state, meter=None, log=logging.getLogger("test"), clock=clock)
    what_if = WhatIf()

    def simulate(changes):
        asked = SimulateRequest(tuple(LabelChange("a", "x", str(number)) for number in range(changes)))
        return what_if.simulate(services, Call("1", deadline_s=clock.passed_s + 5), asked)

    assert simulate(3).workloads == 0
    with pytest.raises(Refusal, match="not ready in time") as refused:
        simulate(1000)
    assert refused.value.status == 503
    assert simulate(3).workloads == 0, "and the next one has its turn"
