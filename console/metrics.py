"""The metrics of the console. ``berthmaster.runtime.metrics`` says when this module may be imported.

Every label comes from a small fixed set, and never from the text of a client.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)

REQUESTS: Final = Counter(
    "berthmaster_console_requests_total",
    "Requests by page and status; the page is empty for unknown paths.",
    ["page", "status"],
)
REQUEST_SECONDS: Final = Histogram(
    "berthmaster_console_request_duration_seconds", "Duration of requests by page.", ["page"], buckets=_BUCKETS
)
STREAMS: Final = Gauge("berthmaster_console_event_streams", "Open streams of events.", multiprocess_mode="livesum")
SOURCE_FAILURES: Final = Counter(
    "berthmaster_console_source_failures_total",
    "Questions that the extender did not answer, by the status of its answer; 0 if there was none.",
    ["status"],
)
SOURCE_LOST: Final = Gauge(
    "berthmaster_console_source_lost", "1 while the extender cannot be asked.", multiprocess_mode="livemax"
)
SIGN_INS: Final = Counter(
    "berthmaster_console_sign_ins_total", "Attempts to sign in with a token or as a proxy, by result.", ["result"]
)
