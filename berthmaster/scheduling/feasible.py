"""The rows that pass all filters that look only at a placement and the workload's kind, kept up to date."""

from collections.abc import Mapping, Sequence

import numpy as np

from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import Filter, PlacementFilter
from berthmaster.scheduling.request import Request


class Feasible:
    """One group's, for one kind of workload."""

    def __init__(self, context: Context, filters: Sequence[Filter]) -> None:
        self._fleet = context.fleet
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
        self._journals = {context.fleet.structure, *(each.journal for each in columns)}
        self._version = -1
        self._rows: IntArray = np.zeros(0, dtype=np.int64)
        self._mask: BoolArray = np.zeros(0, dtype=np.bool_)
        self._rejected: Mapping[str, int] | None = None

    def rows_for(self, request: Request) -> IntArray:
        """The rows for a workload; those where it is already are asked what lets it stay. Not to be kept."""
        fleet = self._fleet
        # Versions only grow, so that their sum stands still only if all of them do.
        version = 0
        for journal in self._journals:
            version += journal.version
        if self._version != version:
            mask = fleet.occupied.copy()
            for _, column in self._columns:
                mask &= column.current()
            self._mask, self._rows, self._version = mask, mask.nonzero()[0], version
            self._rejected = None
        if not request.current:
            return self._rows
        spared = [row for name in request.current if (row := fleet.row_of.get(name)) is not None and self._spares(row)]
        return np.sort(np.append(self._rows, spared)) if spared else self._rows

    def rejected(self) -> Mapping[str, int]:
        """How many clusters each filter rules out that none before it does; as of the last ``rows_for``."""
        if self._rejected is None:
            mask, counts = self._fleet.occupied.copy(), {}
            for name, column in self._columns:
                left = mask & column.current()
                counts[name] = int(mask.sum() - left.sum())
                mask = left
            self._rejected = {name: count for name, count in counts.items() if count}
        return self._rejected

    def _spares(self, row: int) -> bool:
        """Whether a cluster keeps the workload although it would not be given it."""
        return not self._mask[row] and all(column.current()[row] for column in self._staying)
