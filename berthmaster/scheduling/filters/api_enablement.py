"""APIEnablement: the cluster must serve the workload's kind."""

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import BoolArray, Column
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import PlacementFilter
from berthmaster.scheduling.fleet import Fleet


class KindColumn(Column[np.bool_]):
    """Which rows serve a kind."""

    __slots__ = ("_fleet", "_kind")

    def __init__(self, fleet: Fleet, kind: tuple[str, str]) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._kind = kind

    def compute(self) -> BoolArray:
        """All rows: the question is asked once for each distinct set of kinds."""
        served = np.array([self._kind in kinds for kinds in self._fleet.kind_sets()], dtype=np.bool_)
        return served[self._fleet.kinds_code]

    def compute_row(self, row: int) -> bool:
        """One row."""
        return self._kind in self._fleet.kind_sets()[self._fleet.kinds_code[row]]


class APIEnablement(PlacementFilter):
    """A kind that is not reported is not served, even where the cluster's list is known to be incomplete.

    Karmada spares clusters that have the workload; KubeAdmiral, whose APIResources this is, does not.
    """

    name = "APIEnablement"

    def __init__(self, name: str = name, *, exempts_current: bool = True) -> None:
        self.name = name
        self.exempts_current = exempts_current

    def column(self, context: Context) -> KindColumn:
        """The rows that serve the kind."""
        return KindColumn(context.fleet, (context.request.api_version, context.request.kind))

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """Whether the kind is among those the cluster reports."""
        kind = (context.request.api_version, context.request.kind)
        return None if kind in cluster.enabled_kinds() else f"does not serve {kind[0]} {kind[1]}"
