"""The metrics of the extender. ``berthmaster.runtime.metrics`` says when this module may be imported."""

from datetime import datetime
from functools import cache
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.simulation.drift import FleetDrift

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
    """The metrics of requests. Every label comes from a small fixed set, and never from the text of a client."""

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


@cache
def _counter(metric: Counter, *labels: object) -> Counter:
    """Return the child of a metric. There are few of them, and ``labels`` takes longer than counting."""
    return metric.labels(*labels)


@cache
def _histogram(metric: Histogram, *labels: object) -> Histogram:
    return metric.labels(*labels)
