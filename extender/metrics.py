"""The metrics of the extender. ``berthmaster.runtime.metrics`` says when this module may be imported."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

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
    "Time of the stages of a request: decode, decide, encode.",
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
    "berthmaster_extender_rejected_clusters_total",
    "Clusters that filters rejected, by plugin.",
    ["plugin"],
)
DOUBTS: Final = Counter(
    "berthmaster_extender_answers_in_doubt_total",
    "Answers to requests that could not be judged.",
    ["protocol", "reason"],
)
CACHE_LOOKUPS: Final = Counter(
    "berthmaster_extender_cache_lookups_total",
    "Lookups in the caches of compiled placements, by cache and result (hit, miss).",
    ["cache", "result"],
)
CLUSTERS: Final = Gauge("berthmaster_extender_fleet_clusters", "Clusters in the fleet.", multiprocess_mode="livemin")
BINDINGS: Final = Gauge("berthmaster_extender_bindings", "Known bindings.", multiprocess_mode="livemin")
LOADED: Final = Gauge(
    "berthmaster_extender_state_timestamp_seconds",
    "Time at which a source last confirmed the state.",
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
CERTIFICATE_EXPIRY: Final = Gauge(
    "berthmaster_extender_certificate_expiry_timestamp_seconds",
    "Expiry of the certificate in use.",
    multiprocess_mode="livemin",
)
CREDENTIAL_FAILURES: Final = Counter(
    "berthmaster_extender_credential_reload_failures_total",
    "New certificates or token files that could not be used.",
    ["kind"],
)


class PrometheusServiceMetrics:
    """The metrics of handlers and of the middleware.

    It keeps the children of the metrics by their labels: ``labels`` takes longer than counting.
    """

    def __init__(self) -> None:
        self._decisions: dict[tuple[str, str, str], Counter] = {}
        self._stages: dict[tuple[str, str], Histogram] = {}
        self._rejections: dict[str, Counter] = {}
        self._requests: dict[tuple[str, str, int], Counter] = {}
        self._seconds: dict[tuple[str, str], Histogram] = {}

    def decided(self, protocol: str, trigger: str, result: str) -> None:
        key = protocol, trigger, result
        counter = self._decisions.get(key)
        if counter is None:
            counter = self._decisions[key] = DECISIONS.labels(*key)
        counter.inc()

    def took(self, protocol: str, stage: str, seconds: float) -> None:
        key = protocol, stage
        histogram = self._stages.get(key)
        if histogram is None:
            histogram = self._stages[key] = STAGE_SECONDS.labels(*key)
        histogram.observe(seconds)

    def rejected(self, plugin: str, clusters: int) -> None:
        counter = self._rejections.get(plugin)
        if counter is None:
            counter = self._rejections[plugin] = REJECTIONS.labels(plugin)
        counter.inc(clusters)

    def doubted(self, protocol: str, reason: str) -> None:
        DOUBTS.labels(protocol, reason).inc()

    def answered(self, protocol: str, route: str, status: int, seconds: float) -> None:
        key = protocol, route, status
        counter = self._requests.get(key)
        if counter is None:
            counter = self._requests[key] = REQUESTS.labels(protocol, route, str(status))
            self._seconds[protocol, route] = REQUEST_SECONDS.labels(protocol, route)
        counter.inc()
        self._seconds[protocol, route].observe(seconds)
