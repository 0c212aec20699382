"""The binding scheduler's metrics; where karmada-scheduler has the same, the rest of the name is the same."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

ATTEMPTS: Final = Counter(
    "berthmaster_scheduler_schedule_attempts", "Bindings that were tried.", ("result", "schedule_type")
)
DURATION: Final = Histogram(
    "berthmaster_scheduler_e2e_scheduling_duration_seconds", "From the decision to the last write.",
    ("result", "schedule_type"), buckets=_BUCKETS,
)  # fmt: skip
INCOMING: Final = Counter(
    "berthmaster_scheduler_queue_incoming_bindings", "Bindings that came into the queue, by what made them.", ("event",)
)
PENDING: Final = Gauge("berthmaster_scheduler_pending_bindings", "Bindings that wait.", ("queue",))
ASSUMPTIONS: Final = Gauge(
    "berthmaster_scheduler_assumed_assignments", "Assignments that do not show in their cluster's numbers yet."
)


ESTIMATES: Final = Counter(
    "berthmaster_scheduler_estimates", "Scheduler estimators that decisions asked, by what came of it.", ("result",)
)
ESTIMATING: Final = Histogram(
    "berthmaster_scheduler_estimating_duration_seconds", "How long decisions waited for estimators.", buckets=_BUCKETS
)
BROKEN_ESTIMATORS: Final = Gauge(
    "berthmaster_scheduler_broken_estimators", "Clusters whose estimator no decision waits for."
)


class PrometheusEstimatorMeter:
    """See ``berthmaster.controllers.estimators.estimators.Meter``."""

    def asked(self, result: str) -> None:
        """See ``Meter``."""
        ESTIMATES.labels(result).inc()

    def took(self, seconds: float) -> None:
        """See ``Meter``."""
        ESTIMATING.observe(seconds)

    def broken(self, clusters: int) -> None:
        """See ``Meter``."""
        BROKEN_ESTIMATORS.set(clusters)


class PrometheusMeter:
    """See ``Meter``."""

    def attempted(self, result: str, schedule_type: str, seconds: float) -> None:
        """See ``SchedulingMeter``."""
        ATTEMPTS.labels(result, schedule_type).inc()
        DURATION.labels(result, schedule_type).observe(seconds)

    def incoming(self, event: str) -> None:
        """See ``IncomingMeter``."""
        INCOMING.labels(event).inc()

    def waiting(self, lengths: dict[str, int], assumptions: int) -> None:
        """See ``Meter``."""
        for queue, count in lengths.items():
            PENDING.labels(queue).set(count)
        ASSUMPTIONS.set(assumptions)
