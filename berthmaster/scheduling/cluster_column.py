"""A column that asks every cluster by itself, for what no index answers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import Column, Journal, Scalar
from berthmaster.scheduling.fleet import Fleet


class ClusterColumn(Column[Scalar]):
    """What a function says of each cluster.

    Args:
        fleet: the clusters.
        journal: of the changes that can change the answer, one of the fleet's two.
        of: the function; it sees nothing but a cluster.
        nothing: what stands in free rows; its type is the column's.
    """

    __slots__ = ("_fleet", "_nothing", "_of")

    def __init__(self, fleet: Fleet, journal: Journal, of: Callable[[Cluster], Any], nothing: Scalar) -> None:
        super().__init__(journal)
        self._fleet = fleet
        self._of = of
        self._nothing = nothing

    def compute(self) -> NDArray[Scalar]:
        """All rows."""
        return np.array([self.compute_row(row) for row in range(self._fleet.capacity)], dtype=self._nothing.dtype)

    def compute_row(self, row: int) -> Any:  # noqa: ANN401 - the scalar that the array holds
        """One row."""
        cluster = self._fleet.clusters[row]
        return self._nothing if cluster is None else self._of(cluster)
