"""The metrics of the extender. ``berthmaster.runtime.metrics`` says when this module may be imported."""

from collections.abc import Iterator
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from berthmaster.native_api.fleet import FleetAmount
from berthmaster.scheduling.karmada.minimal import DriftKind
from berthmaster.simulation.drift import FleetDrift
from extender.state.fleet_figures import FleetFigures

_BUCKETS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
)  # fmt: skip

DECISIONS: Final = Counter(
    "berthmaster_extender_decisions_total",
    "Decisions by protocol, trigger and result.",
    ["protocol", "trigger", "result"],
)
STAGE_SECONDS: Final = Histogram(
    "berthmaster_extender_stage_duration_seconds",
    "Duration of the stages of a request: decode, decide, encode.",
    ["protocol", "stage"],
    buckets=_BUCKETS,
)
REQUESTS: Final = Counter(
    "berthmaster_extender_requests_total",
    "Requests by route and status; the route is empty for unknown paths.",
    ["protocol", "route", "status"],
)
REQUEST_SECONDS: Final = Histogram(
    "berthmaster_extender_request_duration_seconds",
    "Time from the headers of a request to its answer, or to the first piece of a stream.",
    ["protocol", "route"],
    buckets=_BUCKETS,
)
REJECTIONS: Final = Counter(
    "berthmaster_extender_rejected_clusters_total", "Clusters that filters rejected, by plugin.", ["plugin"]
)
DOUBTS: Final = Counter(
    "berthmaster_extender_answers_in_doubt_total",
    "Answers to requests that could not be decided.",
    ["protocol", "reason"],
)
CACHE_LOOKUPS: Final = Counter(
    "berthmaster_extender_cache_lookups_total",
    "Lookups in the caches of compiled placements (plan) and filter results (filter), by result (hit, miss).",
    ["cache", "result"],
)
CLUSTERS: Final = Gauge("berthmaster_extender_fleet_clusters", "Clusters in the fleet.", multiprocess_mode="livemin")
BINDINGS: Final = Gauge("berthmaster_extender_bindings", "Bindings in the state.", multiprocess_mode="livemin")
DRIFTED: Final = Gauge(
    "berthmaster_extender_drifted_workloads",
    "Workloads that do not satisfy their policies any more, by kind of drift; any counts each once.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)
DRIFT_MOVES: Final = Gauge(
    "berthmaster_extender_drift_moves",
    "Replicas that a repair of all drift would move: with the fewest moves (minimal), or from scratch (full).",
    ["repair"],
    multiprocess_mode="livemostrecent",
)
DRIFT_TIME: Final = Gauge(
    "berthmaster_extender_drift_timestamp_seconds",
    "Time at which the drift was computed.",
    multiprocess_mode="livemostrecent",
)
WRONG: Final = Gauge(
    "berthmaster_extender_fleet_workloads",
    "Workloads by what is wrong: no_copy (no copy runs), short, not_preferred (not in the first group), moving.",
    ["problem"],
    multiprocess_mode="livemostrecent",
)
WORST_LOSS: Final = Gauge(
    "berthmaster_extender_fleet_worst_loss_workloads",
    "Workloads whose last copies the loss of the worst cluster or region stops, without any failover.",
    ["domain"],
    multiprocess_mode="livemostrecent",
)
AMOUNTS: Final = Gauge(
    "berthmaster_extender_fleet_resources",
    "Amounts of a cluster or of all clusters of a region: free, or requested. CPU is in cores, memory in bytes.",
    ["domain", "name", "resource", "amount"],
    multiprocess_mode="livemostrecent",
)
MAX_CLUSTERS: Final = 500
"""The most clusters with amounts of their own. A larger fleet has those of its regions only."""
MAX_REGIONS: Final = 200
LOADED: Final = Gauge(
    "berthmaster_extender_state_timestamp_seconds",
    "Time at which the source last confirmed the state.",
    multiprocess_mode="livemin",
)
STALE: Final = Gauge(
    "berthmaster_extender_state_stale",
    "1 while the source is lost or unusable and the last valid state is in use.",
    multiprocess_mode="livemax",
)
SOURCE_FAILURES: Final = Counter(
    "berthmaster_extender_source_failures_total", "New states that could not be used.", ["source"]
)


class ServiceMetrics:
    """The metrics of requests and of the fleet.

    Every label comes from a small fixed set, or names a cluster or a region. None is the text of a client.
    """

    def __init__(self) -> None:
        self._amounts: set[tuple[str, str, str, str]] = set()

    def decided(self, protocol: str, trigger: str, result: str) -> None:
        """Count a decision: its trigger, and its result (``placed``, a ``FailureKind``, or another word)."""
        _counter(DECISIONS, protocol, trigger, result).inc()

    def took(self, protocol: str, stage: str, seconds: float) -> None:
        """Observe the duration of a stage of a request (``decode``, ``decide``, ``encode``)."""
        _histogram(STAGE_SECONDS, protocol, stage).observe(seconds)

    def rejected(self, plugin: str, clusters: int) -> None:
        _counter(REJECTIONS, plugin).inc(clusters)

    def doubted(self, protocol: str, reason: str) -> None:
        DOUBTS.labels(protocol, reason).inc()

    def answered(self, protocol: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request and its duration. ``route`` is empty for an unknown path."""
        _counter(REQUESTS, protocol, route, status).inc()
        _histogram(REQUEST_SECONDS, protocol, route).observe(seconds)

    def drifted(self, found: FleetDrift, computed_at: datetime) -> None:
        DRIFTED.labels("any").set(found.total.drifted)
        for kind in DriftKind:
            DRIFTED.labels(kind.value).set(found.kinds.get(kind.value, 0))
        DRIFT_MOVES.labels("minimal").set(found.total.moves)
        DRIFT_MOVES.labels("full").set(found.total.full_moves)
        DRIFT_TIME.set(computed_at.timestamp())

    def fleet(self, found: FleetFigures) -> None:
        """Set the figures of the fleet. What has left the fleet has 0: shared metrics cannot forget a label."""
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
    unit = 1000 if resource == "cpu" else 1
    yield "requested", requested / unit
    yield "free", (found.allocatable - requested) / unit


@cache
def _counter(metric: Counter, *labels: object) -> Counter:
    """Return the child of a metric. There are few of them, and ``labels`` takes longer than counting."""
    return metric.labels(*labels)


@cache
def _histogram(metric: Histogram, *labels: object) -> Histogram:
    return metric.labels(*labels)
