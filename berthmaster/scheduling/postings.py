"""Inverted indexes: which rows have a value."""

from collections.abc import Iterable

import numpy as np

from berthmaster.model.selector import Requirement
from berthmaster.scheduling.columns import BoolArray


class Postings:
    """For each key the rows that have it, by value. A row may have several values of one key."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, set[int]]] = {}

    def add(self, row: int, pairs: Iterable[tuple[str, str]]) -> None:
        """A row has these (key, value) pairs."""
        for key, value in pairs:
            self._rows.setdefault(key, {}).setdefault(value, set()).add(row)

    def discard(self, row: int, pairs: Iterable[tuple[str, str]]) -> None:
        """A row no longer has these pairs."""
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
        """The rows, as a mask of ``length``, of which some value satisfies a requirement.

        For a key with several values this is right for In, Exists and their negations, which ask for none of them.
        """
        values = self._rows.get(requirement.key, {})
        negated = requirement.operator in {"NotIn", "DoesNotExist"}
        mask = np.full(length, negated, dtype=np.bool_)
        for rows in self._satisfying(requirement, values):
            mask[list(rows)] = not negated
        return mask

    @staticmethod
    def _satisfying(requirement: Requirement, values: dict[str, set[int]]) -> list[set[int]]:
        match requirement.operator:
            case "In" | "NotIn":
                return [values[value] for value in requirement.values if value in values]
            case "Exists" | "DoesNotExist":
                return list(values.values())
            case _:
                return [rows for value, rows in values.items() if requirement.matches({requirement.key: value})]


class Interned:
    """One small number for each distinct value in use, so that a question about values is asked once for each.

    Attributes:
        values: by number. That of a value which nobody uses any more stays until its number is given to another.
    """

    __slots__ = ("_codes", "_free", "_users", "values")

    def __init__(self) -> None:
        self._codes: dict[object, int] = {}
        self._free: list[int] = []
        self._users: list[int] = []
        self.values: list[object] = []

    def take(self, value: object) -> int:
        """The number of a hashable value, for one more user."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = self._new_code(value)
        self._users[code] += 1
        return code

    def release(self, code: int) -> None:
        """A user of a number uses it no more."""
        self._users[code] -= 1
        if not self._users[code]:
            del self._codes[self.values[code]]
            self._free.append(code)

    def _new_code(self, value: object) -> int:
        if self._free:
            code = self._free.pop()
            self.values[code] = value
            return code
        self.values.append(value)
        self._users.append(0)
        return len(self.values) - 1
