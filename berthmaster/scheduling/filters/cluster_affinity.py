"""ClusterAffinity: the cluster must be one that the group means."""

from functools import reduce

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import BoolArray, Column
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import PlacementFilter
from berthmaster.scheduling.group import AffinityColumn


class AnyAffinityColumn(Column[np.bool_]):
    """Which rows at least one of several affinities means."""

    __slots__ = ("_columns",)

    def __init__(self, columns: list[AffinityColumn]) -> None:
        super().__init__(columns[0].journal)
        self._columns = columns

    def compute(self) -> BoolArray:
        """All rows."""
        return reduce(np.logical_or, [column.current() for column in self._columns])

    def compute_row(self, row: int) -> bool:
        """One row."""
        return any(column.current()[row] for column in self._columns)


class ClusterAffinity(PlacementFilter):
    """The group's own affinity, or for workloads with replicas one of its overflow affinities.

    KubeAdmiral's placement is one such affinity, by name; there this is the plugin PlacementFilter.
    """

    name = "ClusterAffinity"

    def __init__(self, name: str = name) -> None:
        self.name = name

    def column(self, context: Context) -> Column[np.bool_] | None:
        """The rows that the group means."""
        columns = _candidates(context)
        return AnyAffinityColumn(columns) if len(columns) > 1 else next(iter(columns), None)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """What of the group's own affinity does not hold."""
        columns = _candidates(context)
        if not columns or any(column.term.matches(cluster) for column in columns):
            return None
        return columns[0].term.mismatch(cluster)


def _candidates(context: Context) -> list[AffinityColumn]:
    group = context.group
    if group.own is None:
        return []
    return [group.own, *((group.overflow or ()) if context.request.is_workload else ())]
