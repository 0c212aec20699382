"""The rows that pass all placement filters, kept up to date for one group and one kind of workload."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import Filter, PlacementFilter
from berthmaster.scheduling.request import Request

_OBJECT_BYTES: Final = 4096
_NOTHING: Final[BoolArray] = np.zeros(0, dtype=np.bool_)
_NO_ROWS: Final[IntArray] = np.zeros(0, dtype=np.int64)


class FeasibleRows:
    """The rows that pass all placement filters, for one group and one kind of workload, kept up to date.

    Its arrays count in the budget of the fleet. If the budget is exceeded, the group forgets it.

    Attributes:
        steps: the steps of computing it, see ``Work``. A decision takes them even if the result is known already.
    """

    def __init__(self, context: Context, filters: Sequence[Filter]) -> None:
        self._fleet = context.fleet
        self._group = context.group
        self._key = kind_of(context.request)
        self._columns: list[tuple[str, Column[np.bool_]]] = []
        self._staying: list[Column[np.bool_]] = []
        for plugin in filters:
            if isinstance(plugin, PlacementFilter):
                column = plugin.column(context)
                staying = plugin.staying(context, column)
                if column is not None:
                    self._columns.append((plugin.name, column))
                if staying is not None:
                    self._staying.append(staying)
        columns = [*(column for _, column in self._columns), *self._staying]
        unique = set(columns)
        self._journals = {context.fleet.structure, *(each.journal for each in unique)}
        self._version = -1
        self._rows: IntArray = _NO_ROWS
        self._mask: BoolArray = _NOTHING
        self._rejected: Mapping[str, int] | None = None
        self.steps = sum(column.steps(context.fleet.capacity) for column in unique)

    def rows_for(self, request: Request) -> IntArray:
        """Return the rows for a request, including current clusters that may keep the workload.

        The caller must not keep or change the array.
        """
        fleet = self._fleet
        # Versions only grow. Their sum is therefore unchanged only if all of them are.
        version = 0
        for journal in self._journals:
            version += journal.version
        if self._version != version:
            mask = fleet.occupied.copy()
            for _, column in self._columns:
                mask &= column.current()
            self._mask, self._rows, self._version = mask, mask.nonzero()[0], version
            self._rejected = None
            fleet.structure.arrays.admit(self, _OBJECT_BYTES + mask.nbytes + self._rows.nbytes)
        if not request.current:
            return self._rows
        kept = [row for name in request.current if (row := fleet.row_of.get(name)) is not None and self._may_stay(row)]
        return np.sort(np.append(self._rows, kept)) if kept else self._rows

    def release(self) -> None:
        """Make the group forget this object, so that its arrays are freed."""
        if self._group.feasible.get(self._key) is self:
            del self._group.feasible[self._key]

    def rejected(self) -> Mapping[str, int]:
        """Return how many clusters each filter rejects that no earlier filter rejects, as of the last ``rows_for``."""
        if self._rejected is None:
            mask, counts = self._fleet.occupied.copy(), {}
            for name, column in self._columns:
                left = mask & column.current()
                counts[name] = int(mask.sum() - left.sum())
                mask = left
            self._rejected = {name: count for name, count in counts.items() if count}
        return self._rejected

    def _may_stay(self, row: int) -> bool:
        """Return whether a cluster may keep the workload but could not get it now."""
        return not self._mask[row] and all(column.current()[row] for column in self._staying)


def kind_of(request: Request) -> tuple[str, str, bool]:
    """Return what a placement filter reads of a workload, besides its placement and its current clusters.

    Returns:
        The apiVersion and the kind of the workload, and whether it has replicas.
    """
    return request.api_version, request.kind, request.is_workload
