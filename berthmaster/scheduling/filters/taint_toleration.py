"""TaintToleration: every taint that keeps new workloads away must be tolerated."""

import numpy as np

from berthmaster.model.cluster import REPELLING_EFFECTS, Cluster, Toleration, repelling_taints
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import PlacementFilter
from berthmaster.scheduling.fleet import Fleet

NO_EFFECTS: frozenset[str] = frozenset()


def untolerated_counts(fleet: Fleet, tolerations: tuple[Toleration, ...], effects: frozenset[str]) -> IntArray:
    """How many taints of these effects each row has that are not tolerated.

    The question is asked once for each distinct tuple of taints.
    """
    counts = [len(repelling_taints(taints, tolerations, effects)) for taints in fleet.taint_tuples()]
    return np.array(counts, dtype=np.int64)[fleet.taint_code]


class TolerationColumn(Column[np.bool_]):
    """Which rows have no taint of some effects that these tolerations do not tolerate."""

    __slots__ = ("_effects", "_fleet", "_tolerations")

    def __init__(
        self, fleet: Fleet, tolerations: tuple[Toleration, ...], effects: frozenset[str] = REPELLING_EFFECTS
    ) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._tolerations = tolerations
        self._effects = effects

    def compute(self) -> BoolArray:
        """All rows."""
        tolerated: BoolArray = untolerated_counts(self._fleet, self._tolerations, self._effects) == 0
        return tolerated

    def compute_row(self, row: int) -> bool:
        """One row."""
        taints = self._fleet.taint_tuples()[self._fleet.taint_code[row]]
        return not repelling_taints(taints, self._tolerations, self._effects)


class TaintToleration(PlacementFilter):
    """NoSchedule and NoExecute taints keep a workload off; fewer, or none, drive it out of where it is.

    Args:
        driving_out: the effects that count for a cluster that has the workload: none in Karmada, where taints and
            evictions are another controller's, NoExecute in KubeAdmiral.
    """

    name = "TaintToleration"

    def __init__(self, driving_out: frozenset[str] = NO_EFFECTS) -> None:
        self.exempts_current = not driving_out
        self._driving_out = driving_out

    def column(self, context: Context) -> TolerationColumn:
        """The rows that the placement tolerates."""
        return TolerationColumn(context.fleet, context.plan.placement.cluster_tolerations)

    def staying(self, context: Context, column: Column[np.bool_] | None) -> Column[np.bool_] | None:
        """The rows that do not drive the workload out."""
        if self.exempts_current:
            return super().staying(context, column)
        return TolerationColumn(context.fleet, context.plan.placement.cluster_tolerations, self._driving_out)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The taints that are not tolerated."""
        stays = self._driving_out and cluster.name in context.request.current
        effects = self._driving_out if stays else REPELLING_EFFECTS
        taints = repelling_taints(cluster.spec.taints, context.plan.placement.cluster_tolerations, effects)
        return f"has untolerated taint {', '.join(map(str, taints))}" if taints else None
