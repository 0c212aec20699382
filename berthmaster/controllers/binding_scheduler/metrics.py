"""The binding scheduler's metrics. Metrics that karmada-scheduler has too have its names after the prefix."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from berthmaster.runtime import traces
from berthmaster.scheduling.karmada.trigger import Trigger

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

ATTEMPTS: Final = Counter(
    "berthmaster_scheduler_schedule_attempts", "Scheduling attempts.", ("result", "schedule_type", "trigger")
)
DURATION: Final = Histogram(
    "berthmaster_scheduler_e2e_scheduling_duration_seconds", "Time from the start of the decision to the last write.",
    ("result", "schedule_type"), buckets=_BUCKETS,
)  # fmt: skip
INCOMING: Final = Counter(
    "berthmaster_scheduler_queue_incoming_bindings", "Bindings added to the queue, by event.", ("event",)
)
PENDING: Final = Gauge("berthmaster_scheduler_pending_bindings", "Bindings in the queue, by part.", ("queue",))
ASSUMPTIONS: Final = Gauge(
    "berthmaster_scheduler_assumed_assignments", "Assignments that do not show in their cluster's status yet."
)


class SchedulingMetrics:
    """Counts what the binding scheduler does."""

    def attempted(self, result: str, trigger: Trigger, seconds: float) -> None:
        """Count a scheduling attempt, by the results and types of karmada-scheduler's metrics, and by the trigger."""
        schedule_type = "ScaleSchedule" if trigger is Trigger.SCALE else "ReconcileSchedule"
        ATTEMPTS.labels(result, schedule_type, trigger.value).inc()
        DURATION.labels(result, schedule_type).observe(seconds, traces.exemplar())

    def incoming(self, event: str) -> None:
        """Count a binding that was added to the queue, by the event's name in karmada-scheduler's metrics."""
        INCOMING.labels(event).inc()

    def waiting(self, lengths: dict[str, int], assumed: int) -> None:
        """Set the length of each part of the queue, and the number of assumed assignments."""
        for queue, count in lengths.items():
            PENDING.labels(queue).set(count)
        ASSUMPTIONS.set(assumed)
