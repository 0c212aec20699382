"""The metrics of the process that runs the controllers. It is one process and needs no shared folder."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from prometheus_client import Counter, Gauge, Histogram

from berthmaster.kube.informer import Informer
from berthmaster.kube.source_check import SourceCheck
from berthmaster.runtime.clock import Clock

_WORK_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LEADER: Final = Gauge("berthmaster_controllers_leader", "1 while this process leads.")
RECONCILES: Final = Counter(
    "berthmaster_controllers_reconciles_total",
    "Reconciles, by controller and result (success, requeued, conflict, error, crash).",
    ["controller", "result"],
)
RECONCILE_SECONDS: Final = Histogram(
    "berthmaster_controllers_reconcile_duration_seconds",
    "Duration of reconciles, by controller and result.",
    ["controller", "result"],
    buckets=_WORK_BUCKETS,
)
RETRIES: Final = Counter(
    "berthmaster_controllers_retries_total", "Retries after a failure, by controller.", ["controller"]
)
QUEUE_DEPTH: Final = Gauge(
    "berthmaster_controllers_queue_depth", "Keys in the queue, including those that wait for a time.", ["controller"]
)
LONGEST_WORK: Final = Gauge(
    "berthmaster_controllers_longest_work_seconds", "Age of the oldest running reconcile.", ["controller"]
)
EVENTS: Final = Counter(
    "berthmaster_controllers_events_total",
    "Events, by result: created, repeated (counted in a series), dropped, failed.",
    ["result"],
)
API_REQUESTS: Final = Counter(
    "berthmaster_controllers_api_requests_total",
    "Requests to the API server, by verb and status; 0 for no response, 200 for every success.",
    ["verb", "status"],
)
API_SECONDS: Final = Histogram(
    "berthmaster_controllers_api_request_duration_seconds",
    "Time from a request to the head of its response.",
    ["verb"],
    buckets=_WORK_BUCKETS,
)
TARGET: Final = Gauge(
    "berthmaster_controllers_target",
    "1, with the version of the API server and the releases of Karmada that its definitions are from.",
    ["kubernetes", "karmada"],
)
TARGET_UNKNOWN_FIELDS: Final = Gauge(
    "berthmaster_controllers_target_unknown_fields",
    "Placement fields in the definitions of Karmada that this version does not know.",
)
INFORMER_OBJECTS: Final = Gauge(
    "berthmaster_controllers_informer_objects", "Objects in the informers, by resource.", ["resource"]
)
INFORMER_STALE: Final = Gauge(
    "berthmaster_controllers_informer_stale_seconds",
    "Time since the watch of a resource was lost; 0 while it is watched.",
    ["resource"],
)
SOURCE_STALE: Final = Gauge(
    "berthmaster_controllers_source_stale_seconds",
    "Time since the API server last returned current objects; 0 unless the last checks failed.",
)


class ControllerLoad(NamedTuple):
    """How much a controller has to do.

    Attributes:
        waiting: keys in the queue, including those that wait for a time.
        longest_s: the age of the oldest running reconcile; 0 if none runs.
        dead_workers: workers that ended although the controller was not stopped.
    """

    waiting: int = 0
    longest_s: float = 0.0
    dead_workers: int = 0


def stale_s(source: Informer[Any] | SourceCheck, clock: Clock) -> float:
    """Return for how long an informer has had no watch, or a check has failed, in seconds; 0 if all is well."""
    since = source.stale_since
    return (clock.now() - since).total_seconds() if since is not None else 0.0


def observe_load(controller: str, load: Callable[[], ControllerLoad]) -> None:
    """Read the load of a controller at each scrape."""
    QUEUE_DEPTH.labels(controller).set_function(lambda: load().waiting)
    LONGEST_WORK.labels(controller).set_function(lambda: load().longest_s)


def count_request(verb: str, status: int, seconds: float) -> None:
    """Count a request to the API server; ``status`` is 0 if no response arrived."""
    API_REQUESTS.labels(verb, str(status)).inc()
    API_SECONDS.labels(verb).observe(seconds)
