"""What handlers of the extender need: services of a given world, or of a control plane in memory that is watched."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from kube_in_memory import KubeInMemory
from waiting import wait_for

from berthmaster.kube.kinds import KARMADA_CLUSTERS, KARMADA_POLICIES
from berthmaster.manifests import Document, manifests_of
from berthmaster.model.decode import decode_json
from berthmaster.runtime.clock import Clock
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.world import World, world_of
from extender.protocols import native
from extender.protocols.problem import Refusal
from extender.protocols.route import Route
from extender.protocols.services import Call, Services
from extender.state.state import State
from extender.state.watch import WatchSource
from extender.state.workloads import BindingOptions

TEMPLATES = BindingOptions(templates=True)


def services_of(world: World | None = None, clock: Clock | None = None, **given: Any) -> Services:
    """Return services whose state is a world, if there is one. ``given`` are other arguments of ``Services``."""
    given = {"state": State(karmada_profile()), "metrics": FakeMetrics(), "log": logging.getLogger("test"), **given}
    made = Services(clock=clock or FakeClock(), **given)
    if world is not None:
        serve(made, world)
    return made


def serve(services: Services, world: World) -> None:
    """Replace the state of services by a world."""
    with services.state.updating(services.clock.now()) as cache:
        cache.replace(world)


def world_with(*objects: Any) -> World:
    """Return the world of manifests."""
    return world_of(manifests_of([Document("test", 0, "", each) for each in objects], "test"))


def route_of(path: str, method: str = "GET", **made: Any) -> Route:
    """Return a route of the native API; ``made`` are the arguments of its routes."""
    return next(each for each in native.routes(**made) if (each.path, each.method) == (path, method))


def asked(
    services: Services, route: Route, kind: Any = Any, /, *, within_s: float = 60.0, values: Any = None, **query: str
) -> Any:
    """Return the answer of a route, as a type; as a JSON value by default."""
    call = Call("1", services.clock.passed_s + within_s, query=query, path_values=values or {})
    return decode_json(kind, route.handler(services, call).body)


@contextmanager
def refusing(status: int, match: str | None = None) -> Iterator[Any]:
    """Expect a refusal with a status."""
    with pytest.raises(Refusal, match=match) as refused:
        yield refused
    assert refused.value.status == status


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
