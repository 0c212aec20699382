"""Keeps the metrics of the fleet current: workloads by what is wrong, the worst loss, free and requested amounts."""

from typing import Final

from berthmaster.deciding.running import hosts_of
from berthmaster.kube.kinds import BINDINGS
from extender.protocols.native.fleet import amounts
from extender.protocols.services import Services
from extender.state.fleet_figures import RESOURCES, fleet_figures
from extender.state.problems import known_outages

_REFRESH_S: Final = 60.0


class FleetMetrics:
    """Computes the figures at most once a minute, and only after a change. One thread calls it."""

    def __init__(self) -> None:
        self._version = ""
        self._next_s = 0.0

    def refresh(self, services: Services) -> None:
        state, now_s = services.state, services.clock.monotonic_s()
        version = state.version
        if now_s < self._next_s or version == self._version or not (state.staleness.synced and state.watches(BINDINGS)):
            return
        self._version, self._next_s = version, now_s + _REFRESH_S
        with state.reading() as cache:
            clusters = cache.world.clusters
        hosts = hosts_of(clusters)
        with state.placed() as index:
            rows, outages = list(index.by_name()), known_outages(index, hosts)
            uses = {name: index.use(name) if state.observed is not None else None for name in clusters}
            found = {name: amounts(each, uses[name], RESOURCES) for name, each in clusters.items()}
        # The rows do not change. Looking at all of them takes long, and must not hold up questions.
        services.metrics.fleet(fleet_figures(rows, outages, clusters, hosts, found))
