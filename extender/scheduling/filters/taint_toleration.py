"""TaintToleration: every taint that keeps new workloads away must be tolerated."""

import numpy as np

from extender.scheduling.columns import BoolArray, Column
from extender.scheduling.context import Context
from extender.scheduling.filters import PlacementFilter
from extender.scheduling.fleet import Fleet
from fleet.model.cluster import Cluster
from fleet.model.taint import Toleration, repelling_taints


class TolerationColumn(Column[np.bool_]):
    """Which rows have no taint that these tolerations do not tolerate."""

    __slots__ = ("_fleet", "_tolerations")

    def __init__(self, fleet: Fleet, tolerations: tuple[Toleration, ...]) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._tolerations = tolerations

    def compute(self) -> BoolArray:
        """All rows: the question is asked once for each distinct tuple of taints."""
        tuples = self._fleet.taint_tuples()
        tolerated = np.array([not repelling_taints(taints, self._tolerations) for taints in tuples], dtype=np.bool_)
        return tolerated[self._fleet.taint_code]

    def compute_row(self, row: int) -> bool:
        """One row."""
        taints = self._fleet.taint_tuples()[self._fleet.taint_code[row]]
        return not repelling_taints(taints, self._tolerations)


class TaintToleration(PlacementFilter):
    """NoSchedule and NoExecute taints keep a workload off, unless it is there already."""

    name = "TaintToleration"
    exempts_current = True

    def column(self, context: Context) -> TolerationColumn:
        """The rows that the placement tolerates."""
        return TolerationColumn(context.fleet, context.plan.placement.cluster_tolerations)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The taints that are not tolerated."""
        taints = repelling_taints(cluster.spec.taints, context.plan.placement.cluster_tolerations)
        return f"has untolerated taint {', '.join(map(str, taints))}" if taints else None
