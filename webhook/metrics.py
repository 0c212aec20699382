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
IMPACTS: Final = Counter(
    "berthmaster_webhook_impacts_total",
    "Questions for the impact of a change, by result and by the number of workloads that move.",
    ["result", "moved"],
)
IMPACT_SECONDS: Final = Histogram(
    "berthmaster_webhook_impact_duration_seconds",
    "Time that a review waited for the impact of a change.",
    ["result"],
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5),
)
IMPACT_BREAKER: Final = Gauge(
    "berthmaster_webhook_impact_breaker_open",
    "1 while the extender is not asked, because it failed several times.",
    multiprocess_mode="livemax",
)
GATE: Final = Counter(
    "berthmaster_webhook_blast_radius_total",
    "Decisions of the gate blast-radius, by result and dry run.",
    ["result", "dry_run"],
)
EVENTS: Final = Counter("berthmaster_webhook_events_total", "Events of the gate, by result.", ["result"])


def impact_answered(result: str, size: str, seconds: float, open_breakers: int) -> None:
    """Count an impact. ``webhook.impact.CountAnswer`` describes the arguments."""
    IMPACTS.labels(result, size).inc()
    IMPACT_SECONDS.labels(result).observe(seconds)
    IMPACT_BREAKER.set(open_breakers)
