"""MaintenanceWindow starts disruptive workloads on a cluster only while its maintenance window is open."""

from collections.abc import Callable
from datetime import UTC, datetime, time

from berthmaster.scheduling import Cluster, Context, Filter

NAMESPACE = "maintenance"
"""The namespace of the disruptive workloads."""
WINDOW = "example.com/maintenance-window"
"""The annotation of a cluster with its window, such as ``22:00-04:00``, in UTC. Without it the window is closed."""


def utc_now() -> datetime:
    """Return the current time. Tests replace this function."""
    return datetime.now(UTC)


class MaintenanceWindow(Filter):
    """A plain Filter, which runs in each decision: the time of day is unknown when a placement is compiled."""

    name = "MaintenanceWindow"
    phrase = "are outside their maintenance window"
    exempts_current = True  # workloads stay when the window closes

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self.now = now

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """Return why the window of a cluster is closed, or None if it is open."""
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
    """Return whether a time is in a window, which may cross midnight."""
    return opens <= now < closes if opens <= closes else now >= opens or now < closes
