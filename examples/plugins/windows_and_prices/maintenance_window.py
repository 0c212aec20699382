"""MaintenanceWindow: disruptive workloads start on a cluster only while its maintenance window is open."""

from collections.abc import Callable
from datetime import UTC, datetime, time

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import Filter

NAMESPACE = "maintenance"
"""Workloads of this namespace are the disruptive ones."""
WINDOW = "example.com/maintenance-window"
"""A cluster's annotation: ``22:00-04:00``, in UTC. Without it the window is never open."""


def utc_now() -> datetime:
    """The time that the scheduler runs with; tests pass another."""
    return datetime.now(UTC)


class MaintenanceWindow(Filter):
    """The time of day is not known when a placement is compiled, so this is a plain Filter, asked at each decision."""

    name = "MaintenanceWindow"
    exempts_current = True  # what runs there already is not thrown out when the window closes

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self.now = now

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """Whether the cluster's window is open."""
        if context.request.namespace != NAMESPACE:
            return None
        window = cluster.metadata.annotations.get(WINDOW, "")
        if not window:
            return "has no maintenance window"
        try:
            opens, closes = map(time.fromisoformat, window.split("-"))
        except ValueError:
            return f"has a maintenance window that cannot be read: {window!r}"
        return None if _is_open(self.now().time(), opens, closes) else f"is outside its maintenance window {window}"


def _is_open(now: time, opens: time, closes: time) -> bool:
    """Whether a time is in a window, which may go across midnight."""
    return opens <= now < closes if opens <= closes else now >= opens or now < closes
