"""Arrays with one entry for each cluster, derived from the fleet and brought up to date row by row.

A ``Journal`` remembers which rows changed. A ``Column`` holds the journal's version it is right for; when it is asked
again it recomputes only the rows that changed since, or everything when that is less work or the journal forgot.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)

_REMEMBERED_ROWS: Final = 4096
# One row costs Python calls, all rows a few vector operations: so many rows cost as much as all of them.
_ROWS_WORTH_A_RECOMPUTE: Final = 8
_CLUSTERS_A_ROW_IS_WORTH: Final = 256


class Journal:
    """Which rows changed, in order. ``version`` counts the changes."""

    __slots__ = ("_first_version", "_rows", "version")

    def __init__(self) -> None:
        self.version = 0
        self._first_version = 0
        self._rows: list[int] = []

    def record(self, row: int) -> None:
        """A row changed."""
        self._rows.append(row)
        self.version += 1
        if len(self._rows) > _REMEMBERED_ROWS:
            forgotten = _REMEMBERED_ROWS // 2
            del self._rows[:forgotten]
            self._first_version += forgotten

    def reset(self) -> None:
        """Every row may have changed, or rows were added: whatever was derived must be derived anew."""
        self._rows.clear()
        self.version += 1
        self._first_version = self.version

    def since(self, version: int) -> Sequence[int] | None:
        """The rows that changed after a version, or None if that is forgotten."""
        return self._rows[version - self._first_version :] if version >= self._first_version else None


class Column(ABC, Generic[Scalar]):
    """A derived array. ``current()`` is the array, right for this moment; it must not be kept or written to."""

    __slots__ = ("_values", "_version", "journal")

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._version = -1
        self._values: NDArray[Scalar] | None = None

    def current(self) -> NDArray[Scalar]:
        """The values of all rows."""
        if self._version != self.journal.version or self._values is None:
            self._values = self._refreshed()
            self._version = self.journal.version
        return self._values

    def _refreshed(self) -> NDArray[Scalar]:
        changed = self.journal.since(self._version) if self._values is not None else None
        if changed is None or self._values is None:
            return self.compute()
        rows = set(changed)
        if len(rows) > max(_ROWS_WORTH_A_RECOMPUTE, len(self._values) // _CLUSTERS_A_ROW_IS_WORTH):
            return self.compute()
        for row in rows:
            self._values[row] = self.compute_row(row)
        return self._values

    @abstractmethod
    def compute(self) -> NDArray[Scalar]:
        """All rows at once, in a new array."""

    @abstractmethod
    def compute_row(self, row: int) -> Any:  # noqa: ANN401 - the scalar that the array holds
        """One row: the definition that ``compute`` is a faster form of."""
