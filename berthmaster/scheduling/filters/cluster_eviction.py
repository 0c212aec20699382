"""ClusterEviction: not back to a cluster that the workload is being moved off."""

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import Filter


class ClusterEviction(Filter):
    """Karmada evicts by graceful eviction tasks, KubeAdmiral by custom migration; there this is ClusterEvicted."""

    name = "ClusterEviction"

    def __init__(self, name: str = name) -> None:
        self.name = name

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        """Nearly always there is no task."""
        evicted = context.request.evicted_from
        if not evicted:
            return rows
        row_of = context.fleet.row_of
        return rows[~np.isin(rows, [row_of[name] for name in evicted if name in row_of])]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """Whether the workload is being moved off it."""
        return "is being evicted of this workload" if cluster.name in context.request.evicted_from else None
