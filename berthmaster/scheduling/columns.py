"""Arrays with one entry per cluster, derived from the fleet and updated row by row, and the indexes they use.

A ``Journal`` records which rows changed. A ``Column`` stores the journal version that it matches. When it is read
again, it recomputes only the rows that changed since. It recomputes all rows if that is less work, or if the journal
no longer has the changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.selector import Requirement
from berthmaster.scheduling.bounded_cache import ArrayBudget
from berthmaster.scheduling.steps import PYTHON_STEPS, column_steps

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
DigestArray = NDArray[np.uint32]
Scalar = TypeVar("Scalar", bound=np.generic)
V = TypeVar("V", bound=Hashable)
_REMEMBERED_ROWS: Final = 4096
# One row costs Python calls, all rows cost a few vector operations. Above these numbers all rows are cheaper.
_ROWS_WORTH_A_RECOMPUTE: Final = 8
_ROW_STEPS: Final = 2
_VALUE_STEPS: Final = 10


class Journal:
    """The rows that changed, in order. ``version`` counts the changes.

    ``arrays``: bounds the bytes of the columns that follow this journal.
    """

    __slots__ = ("_first_version", "_rows", "arrays", "version")

    def __init__(self, arrays: ArrayBudget | None = None) -> None:
        self.version = 0
        self.arrays = arrays or ArrayBudget()
        self._first_version = 0
        self._rows: list[int] = []

    def record(self, row: int) -> None:
        self._rows.append(row)
        self.version += 1
        if len(self._rows) > _REMEMBERED_ROWS:
            forgotten = _REMEMBERED_ROWS // 2
            del self._rows[:forgotten]
            self._first_version += forgotten

    def reset(self) -> None:
        """Record that every row may have changed, or that rows were added: all columns recompute all rows."""
        self._rows.clear()
        self.version += 1
        self._first_version = self.version

    def since(self, version: int) -> Sequence[int] | None:
        """Return the rows that changed after a version, or None if the journal no longer has them."""
        return self._rows[version - self._first_version :] if version >= self._first_version else None


class Column(ABC, Generic[Scalar]):
    """A derived array. ``current()`` returns it, up to date. The caller must not keep or change it.

    The array counts in the budget of its journal. If the budget is exceeded, the array is dropped, and computed again
    when it is read.
    """

    clusters_a_row_is_worth = 256
    __slots__ = ("_values", "_version", "journal")

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._version = -1
        self._values: NDArray[Scalar] | None = None

    def current(self) -> NDArray[Scalar]:
        if self._version != self.journal.version or self._values is None:
            self._values = self._refreshed()
            self._version = self.journal.version
        return self._values

    def _refreshed(self) -> NDArray[Scalar]:
        known, changed = self._values, self.journal.since(self._version)
        if known is not None and changed is not None:
            rows = set(changed)
            if len(rows) <= max(_ROWS_WORTH_A_RECOMPUTE, len(known) // self.clusters_a_row_is_worth):
                known[list(rows)] = self.compute_rows(rows)
                return known
        values = self.compute()
        self.journal.arrays.admit(self, values.nbytes)
        return values

    def compute_rows(self, rows: Collection[int]) -> Sequence[Any] | NDArray[Scalar]:
        return [self.compute_row(row) for row in rows]

    def release(self) -> None:
        """Drop the array. ``current`` computes it again."""
        self._values = None

    def steps(self, rows: int) -> int:
        """Return the steps of ``compute`` for a number of rows; see ``Work``."""
        return column_steps(rows)

    @abstractmethod
    def compute(self) -> NDArray[Scalar]:
        """Compute all rows, in a new array."""

    @abstractmethod
    def compute_row(self, row: int) -> Any:  # noqa: ANN401 - the scalar that the array holds
        """Compute one row. This is the definition, ``compute`` must agree with it."""


class InvertedIndex:
    """For each key, the rows that have it, by value. A row may have several values of one key."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, set[int]]] = {}

    def add(self, row: int, pairs: Iterable[tuple[str, str]]) -> None:
        for key, value in pairs:
            self._rows.setdefault(key, {}).setdefault(value, set()).add(row)

    def discard(self, row: int, pairs: Iterable[tuple[str, str]]) -> None:
        for key, value in pairs:
            values = self._rows.get(key, {})
            rows = values.get(value)
            if rows is not None:
                rows.discard(row)
                if not rows:
                    del values[value]
                if not values:
                    del self._rows[key]

    def matching(self, requirement: Requirement, length: int) -> BoolArray:
        """Return a mask of ``length`` rows: those with a value that satisfies a requirement.

        For a key with several values only In, Exists and their negations are correct. A negation matches rows of which
        no value satisfies the positive form.
        """
        values = self._rows.get(requirement.key, {})
        negated = requirement.operator in {"NotIn", "DoesNotExist"}
        mask = np.full(length, negated, dtype=np.bool_)
        found = chain.from_iterable(self._satisfying(requirement, values))
        mask[np.fromiter(found, dtype=np.int64)] = not negated
        return mask

    def steps(self, requirement: Requirement, length: int) -> int:
        """Return the steps of ``matching``; see ``Work``."""
        values = self._rows.get(requirement.key, {})
        match requirement.operator:
            case "In" | "NotIn":
                found = sum(len(values[value]) for value in requirement.values if value in values)
                return column_steps(length) + _VALUE_STEPS * len(requirement.values) + _ROW_STEPS * found
            case "Exists" | "DoesNotExist":
                return column_steps(length) + _VALUE_STEPS * len(values) + _ROW_STEPS * length
            case _:
                return column_steps(length) + PYTHON_STEPS * len(values) + _ROW_STEPS * length

    @staticmethod
    def _satisfying(requirement: Requirement, values: dict[str, set[int]]) -> list[set[int]]:
        match requirement.operator:
            case "In" | "NotIn":
                return [values[value] for value in requirement.values if value in values]
            case "Exists" | "DoesNotExist":
                return list(values.values())
            case _:
                return [rows for value, rows in values.items() if requirement.matches({requirement.key: value})]


class InternedValues(Generic[V]):
    """A small number (code) for each distinct value in use, so that a question is asked once per distinct value.

    ``values``: by code. A value that is no longer in use stays until its code is assigned to another value.
    """

    __slots__ = ("_codes", "_free", "_users", "values")

    def __init__(self) -> None:
        self._codes: dict[V, int] = {}
        self._free: list[int] = []
        self._users: list[int] = []
        self.values: list[V] = []

    def take(self, value: V) -> int:
        """Return the code of a value, and count one more user of it."""
        code = self._codes.get(value)
        if code is None:
            if self._free:
                code = self._free.pop()
                self.values[code] = value
            else:
                code = len(self.values)
                self.values.append(value)
                self._users.append(0)
            self._codes[value] = code
        self._users[code] += 1
        return code

    def release(self, code: int) -> None:
        """Count one user of a code less. A code without users is free for another value."""
        self._users[code] -= 1
        if not self._users[code]:
            del self._codes[self.values[code]]
            self._free.append(code)
