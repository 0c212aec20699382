"""LowPrice prefers clusters with a low price."""

from math import isfinite

from berthmaster.scheduling import MAX_SCORE, Cluster, Context, Score

PRICE = "example.com/price-per-hour"
"""The label of a cluster with the price of a node, such as ``0.35``. A cluster without it counts as expensive."""
EXPENSIVE = 1.0


class LowPrice(Score):
    """Give 100 to a cluster that costs nothing, 0 to one that costs ``EXPENSIVE`` or more."""

    name = "LowPrice"

    def score(self, context: Context, cluster: Cluster) -> int:  # noqa: ARG002 - the price is the same for every workload
        """Return how far the price is below ``EXPENSIVE``, in percent."""
        try:
            price = float(cluster.metadata.labels.get(PRICE, EXPENSIVE))
        except ValueError:
            price = EXPENSIVE
        if not isfinite(price):
            price = EXPENSIVE
        return round(MAX_SCORE * (1 - min(max(price, 0.0), EXPENSIVE) / EXPENSIVE))
