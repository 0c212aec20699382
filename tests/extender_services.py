"""What handlers of the extender need: services of a given world, or of a control plane in memory that is watched."""

import logging
from collections.abc import Callable
from typing import Any

from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from kube_in_memory import KubeInMemory
from waiting import wait_for

from berthmaster.kube.kinds import KARMADA_CLUSTERS, KARMADA_POLICIES
from berthmaster.runtime.clock import Clock
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.world import World
from extender.protocols.services import Services
from extender.state.state import State
from extender.state.watch import WatchSource
from extender.state.workloads import BindingOptions

TEMPLATES = BindingOptions(templates=True)


def services_of(world: World | None = None, clock: Clock | None = None, **given: Any) -> Services:
    """Return services whose state is a world, if there is one. ``given`` are other arguments of ``Services``."""
    given = {"state": State(karmada_profile()), "metrics": FakeMetrics(), **given}
    made = Services(log=logging.getLogger("test"), clock=clock or FakeClock(), **given)
    if world is not None:
        serve(made, world)
    return made


def serve(services: Services, world: World) -> None:
    """Replace the state of services by a world."""
    with services.state.updating(services.clock.now()) as cache:
        cache.replace(world)


class WatchedPlane:
    """Services that watch a control plane in memory."""

    def __init__(self, api: KubeInMemory, options: BindingOptions = TEMPLATES, clock: Clock | None = None) -> None:
        policies = KARMADA_POLICIES if options.templates else ()
        self.api, self.services = api, services_of(clock=clock)
        self.clock, self.state = self.services.clock, self.services.state
        self.source = WatchSource(lambda: api, KARMADA_CLUSTERS, policies, options, clock=self.clock)

    def start(self) -> None:
        """Start to watch, and wait until all objects are known."""
        self.source.start(self.state)
        self.wait(lambda: self.state.staleness.synced)

    def wait(self, check: Callable[[], object]) -> None:
        wait_for(check, lambda: self.state.staleness)

    def stop(self) -> None:
        self.api.cut_watches()
        self.source.stop()
