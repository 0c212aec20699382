"""Keeps the metrics of the fleet current: workloads by what is wrong, the worst loss, free and requested amounts.

``berthmaster.runtime.metrics`` says when this module may be imported.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from berthmaster.deciding.running import hosts_of
from berthmaster.kube.watch_options import BINDINGS
from berthmaster.native_api.fleet import FleetAmount
from extender.metrics import AMOUNTS, WORST_LOSS, WRONG
from extender.protocols.native.fleet import amounts
from extender.protocols.services import Services
from extender.state.fleet_figures import RESOURCES, FleetFigures, fleet_figures
from extender.state.problems import known_outages

_REFRESH_S: Final = 60.0
MAX_CLUSTERS: Final = 500
"""The most clusters with amounts of their own. A larger fleet has those of its regions only."""
MAX_REGIONS: Final = 200
_MILLI: Final = 1000


class FleetMetrics:
    """Computes the figures at most once a minute, and only after a change. One thread calls it.

    Labels name clusters and regions. None is the text of a client.
    """

    def __init__(self) -> None:
        self._version = ""
        self._next_s = 0.0
        self._amounts: set[tuple[str, str, str, str]] = set()

    def refresh(self, services: Services) -> None:
        state, now_s = services.state, services.clock.monotonic_s()
        version = state.version
        if now_s < self._next_s or version == self._version or not (state.staleness.synced and state.watches(BINDINGS)):
            return
        self._version, self._next_s = version, now_s + _REFRESH_S
        with state.reading() as cache:
            clusters = cache.world.clusters
        hosts, counts = hosts_of(clusters), state.copy_counts()
        with state.placed() as index:
            rows, outages = list(index.by_name()), known_outages(index, hosts, counts)
            uses = {name: index.use(name) if state.observed is not None else None for name in clusters}
            found = {name: amounts(each, uses[name], RESOURCES) for name, each in clusters.items()}
        # The rows do not change. Looking at all of them takes long, and must not hold up questions.
        self.show(fleet_figures(rows, outages, clusters, hosts, found, counts))

    def show(self, found: FleetFigures) -> None:
        """Set the metrics. What has left the fleet has 0: shared metrics cannot forget a label."""
        for problem, count in found.wrong.items():
            WRONG.labels(problem.value).set(count)
        for domain, loss in found.worst.items():
            WORST_LOSS.labels(domain).set(loss.workloads)
        shown = {("region", name): each for name, each in islice(found.regions.items(), MAX_REGIONS)}
        if len(found.clusters) <= MAX_CLUSTERS:
            shown |= {("cluster", name): each for name, each in found.clusters.items()}
        labels = {
            (domain, name, resource, amount): value
            for (domain, name), resources in shown.items()
            for resource, each in resources.items()
            for amount, value in _free_and_requested(resource, each)
        }
        for gone in self._amounts - labels.keys():
            AMOUNTS.labels(*gone).set(0)
        for key, value in labels.items():
            AMOUNTS.labels(*key).set(value)
        self._amounts |= labels.keys()


def _free_and_requested(resource: str, found: FleetAmount) -> Iterator[tuple[str, float]]:
    """Yield both amounts; nothing if the use is not reported. What is assigned on top counts as requested."""
    if found.used is None:
        return
    requested = found.used + (found.assumed or 0)
    unit = _MILLI if resource == "cpu" else 1
    yield "requested", requested / unit
    yield "free", (found.allocatable - requested) / unit
