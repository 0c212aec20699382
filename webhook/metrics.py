"""The metrics of the webhook. ``berthmaster.runtime.metrics`` says when this module may be imported."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

REVIEWS: Final = Counter(
    "berthmaster_webhook_reviews_total",
    "Reviews by path, operation, verdict (allowed, denied, malformed) and dry run.",
    ["path", "operation", "verdict", "dry_run"],
)
SECONDS: Final = Histogram(
    "berthmaster_webhook_review_duration_seconds",
    "Time from a request's headers to its answer.",
    ["path"],
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5),
)
REFUSED: Final = Counter(
    "berthmaster_webhook_refused_requests_total",
    "Requests that were not reviews, by HTTP status of the answer.",
    ["status"],
)
RULE_HITS: Final = Counter("berthmaster_webhook_rule_findings_total", "Findings of the rules, by rule.", ["rule"])
CERTIFICATE_EXPIRY: Final = Gauge(
    "berthmaster_webhook_certificate_expiry_timestamp_seconds",
    "Expiry of the certificate in use.",
    multiprocess_mode="livemin",
)
HANDSHAKE_FAILURES: Final = Counter(
    "berthmaster_webhook_tls_handshake_failures_total",
    "Failed TLS handshakes by reason: refused, disconnected, timeout. The worker class gthread does not count them.",
    ["reason"],
)
CERTIFICATE_FAILURES: Final = Counter(
    "berthmaster_webhook_certificate_reload_failures_total",
    "New certificates and keys that could not be used.",
)
