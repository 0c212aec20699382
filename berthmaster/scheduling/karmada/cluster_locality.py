"""ClusterLocality: stay where it is."""

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.scores import MAX_SCORE, Score


class ClusterLocality(Score):
    """100 for a cluster that has the workload, even with no replicas."""

    name = "ClusterLocality"

    def score(self, context: Context, cluster: Cluster) -> int:
        """Whether the cluster is among the current ones."""
        return MAX_SCORE if cluster.name in context.request.current else 0

    def scores(self, context: Context, rows: IntArray) -> IntArray | None:
        """Only the current clusters are looked up."""
        current = context.request.current
        if not current:
            return None
        row_of = context.fleet.row_of
        return np.isin(rows, [row_of[name] for name in current if name in row_of]) * np.int64(MAX_SCORE)
