"""The metrics of the binding scheduler.

Those that karmada-scheduler has too have its names after the prefix.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

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
