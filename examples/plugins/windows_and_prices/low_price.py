"""LowPrice: of the clusters that fit, the cheaper ones first."""

from math import isfinite

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.scores import MAX_SCORE, Score

PRICE = "example.com/price-per-hour"
"""A cluster's label: what a node costs, ``0.35``. Without it a cluster counts as expensive."""
EXPENSIVE = 1.0


class LowPrice(Score):
    """100 for a cluster that costs nothing, 0 for one that costs ``EXPENSIVE`` or more."""

    name = "LowPrice"

    def score(self, context: Context, cluster: Cluster) -> int:  # noqa: ARG002 - the price is the same for every workload
        """How far below ``EXPENSIVE`` the price is."""
        try:
            price = float(cluster.metadata.labels.get(PRICE, EXPENSIVE))
        except ValueError:
            price = EXPENSIVE
        if not isfinite(price):
            price = EXPENSIVE
        return round(MAX_SCORE * (1 - min(max(price, 0.0), EXPENSIVE) / EXPENSIVE))
