"""ClusterTerminating: not to a cluster that is being deleted, even if the workload is there."""

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import BoolArray, Column
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import PlacementFilter
from berthmaster.scheduling.fleet import Fleet


class SchedulableColumn(Column[np.bool_]):
    """Which rows hold a cluster that is not being deleted."""

    __slots__ = ("_fleet",)

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet

    def compute(self) -> BoolArray:
        """All rows."""
        return self._fleet.schedulable.copy()

    def compute_row(self, row: int) -> bool:
        """One row."""
        return bool(self._fleet.schedulable[row])


class ClusterTerminating(PlacementFilter):
    """In KubeAdmiral a plugin like others; Karmada passes such clusters over before any plugin."""

    name = "ClusterTerminating"

    def __init__(self, name: str = name) -> None:
        self.name = name

    def column(self, context: Context) -> SchedulableColumn:
        """The rows that stay."""
        return SchedulableColumn(context.fleet)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        """Whether its deletion has started."""
        return "is being deleted" if cluster.deleting else None
