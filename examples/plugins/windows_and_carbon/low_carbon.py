"""LowCarbon prefers clusters whose electricity causes little carbon dioxide."""

import numpy as np

from berthmaster.scheduling import MAX_SCORE, Cluster, Context, IntArray, RelativeScore

CARBON = "example.com/carbon-intensity"
"""The label of a cluster with the grams of carbon dioxide for one kWh, such as ``85``."""
UNKNOWN = 1000
"""The grams of a cluster without a valid label, and the most that count."""


class LowCarbon(RelativeScore):
    """Give 100 to the clusters with the fewest grams of those that fit, and 0 to those with the most."""

    name = "LowCarbon"

    def counts(self, context: Context, rows: IntArray) -> IntArray:
        """Return the grams of each row."""
        clusters = context.fleet.clusters
        found = [_grams(cluster) for row in rows.tolist() if (cluster := clusters[row]) is not None]
        return np.array(found, dtype=np.int64)

    def normalised(self, counts: IntArray) -> IntArray:
        """Return the scores: how far the grams of each cluster are below the most, in percent of the whole range."""
        most, fewest = int(counts.max()), int(counts.min())
        return MAX_SCORE * (most - counts) // max(1, most - fewest)


def _grams(cluster: Cluster) -> int:
    text = cluster.metadata.labels.get(CARBON, "")
    return min(int(text), UNKNOWN) if text.isascii() and text.isdecimal() and len(text) < 10 else UNKNOWN
