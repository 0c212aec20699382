"""Filter plugins: which clusters a workload may go to at all.

A filter is defined by ``reason``: why one cluster is ruled out, or None. Everything else is how to say the same about
all clusters at once.
"""

from abc import ABC, abstractmethod

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import Column, IntArray
from berthmaster.scheduling.context import Context


class Filter(ABC):
    """A filter plugin.

    Attributes:
        name: by which it is switched on and off and named in reasons.
        exempts_current: clusters that already have the workload pass.
    """

    name: str
    exempts_current: bool = False

    @abstractmethod
    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """Why the workload may not go to a cluster: the end of a sentence that starts with its name; None if it may."""

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        """The rows, out of these, whose clusters pass. Asked in each decision."""
        clusters = context.fleet.clusters
        passing = [self._passes(context, clusters[row]) for row in rows.tolist()]
        return rows[np.array(passing, dtype=np.bool_)]

    def _passes(self, context: Context, cluster: Cluster | None) -> bool:
        if cluster is None:
            return False
        if self.exempts_current and cluster.name in context.request.current:
            return True
        return self.reason(context, cluster) is None


class PlacementFilter(Filter):
    """A filter that looks at nothing of the workload but its kind, its placement, whether it has replicas, where it is.

    It answers with columns, which are kept for as long as the placement is in use.
    """

    @abstractmethod
    def column(self, context: Context) -> Column[np.bool_] | None:
        """The rows that pass; None if all do. ``context.request`` is one of many that the column will serve.

        The column's journal says when it is looked at again: ``context.fleet.structure`` for everything about a
        cluster but its resource numbers, ``context.fleet.resources.journal`` for these.
        """

    def staying(self, context: Context, column: Column[np.bool_] | None) -> Column[np.bool_] | None:  # noqa: ARG002 - for subclasses
        """The rows that pass if the workload is there already, no fewer than those of ``column``; None if all do."""
        return None if self.exempts_current else column
