"""Why a cluster is not ready, and since when, as its conditions say. Pure functions."""

from datetime import datetime

from berthmaster.model.cluster import Cluster, Condition
from berthmaster.model.meta import moment_of


def why_not_ready(cluster: Cluster) -> str:
    """Return what a cluster reports about why it is not ready; empty if it is ready."""
    if cluster.ready:
        return ""
    condition = _ready_condition(cluster)
    if condition is None:
        return "it reports no condition Ready"
    return condition.message or condition.reason or f"its condition Ready is {condition.status}"


def not_ready_since(cluster: Cluster) -> datetime | None:
    """Return since when a cluster is not ready or is being deleted; None if it is neither, or does not say it."""
    if cluster.ready:
        return cluster.metadata.deletion_timestamp
    condition = _ready_condition(cluster)
    return None if condition is None else moment_of(condition.last_transition_time)


def _ready_condition(cluster: Cluster) -> Condition | None:
    return next((each for each in cluster.status.conditions if each.type == "Ready"), None)
