"""Why a cluster is not ready, and since when, as its conditions say. Pure functions."""

from datetime import datetime

from berthmaster.model.cluster import Cluster


def why_not_ready(cluster: Cluster) -> str:
    """Return what a cluster reports about why it is not ready; empty if it is ready."""
    if cluster.ready:
        return ""
    condition = cluster.readiness
    if condition is None:
        return "it reports no condition Ready"
    return condition.message or condition.reason or f"its condition Ready is {condition.status}"


def not_ready_since(cluster: Cluster) -> datetime | None:
    """Return since when a cluster is not ready or is being deleted; None if it is neither, or does not say it."""
    if cluster.ready:
        return cluster.metadata.deletion_timestamp
    return cluster.ready_transition
