"""The changes of clusters in one batch, column by column: numbers of one kind compress well, and are encoded at once.

A cluster is a vector of integers, see ``fleet_versions``. A change sets a vector, adds to some of its numbers, or
removes it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import gcd
from operator import sub
from typing import NamedTuple

import msgspec

from berthmaster.model.errors import DamagedLedgerError

REMOVE, ADD, SET = 0, 1, 2
"""The kinds of changes, in the order in which a reader applies those of one decision."""
BATCH_START = 0
"""The position before the first decision of a batch. Those of decisions start with 1."""
Kind = tuple[int, ...]
"""What changes have in common: ``REMOVE``; ``ADD`` and the positions in the vector; ``SET`` and its length."""
Row = tuple[int, ...]
"""A change: the position of its decision in the batch, the slot of its cluster, and its values."""
_LEAST, _MOST = -(2**63), 2**63 - 1
_Column = list[int | str]


class VectorChange(NamedTuple):
    """A change of a cluster.

    Attributes:
        kind: ``REMOVE``, ``ADD`` or ``SET``.
        slot: the slot of the cluster.
        positions: the positions in the vector to which ``values`` are added. Only of ``ADD``.
        values: the numbers to add, or the vector.
    """

    kind: int
    slot: int
    positions: Sequence[int]
    values: Sequence[int]


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    """Changes of one kind. ``keys`` holds the differences of ``decision * slots + slot``, which ascends."""

    kind: Kind
    keys: list[int]
    columns: list[_Column]


class FleetChanges(msgspec.Struct, frozen=True, array_like=True):
    """The changes of a batch.

    Attributes:
        whole: whether they start from a fleet without clusters. Otherwise they follow those of the batch before.
        slots: more than the highest slot.
        groups: the changes, by kind.
    """

    whole: bool
    slots: int
    groups: list[_Columns]

    @classmethod
    def of(cls, rows_of: Mapping[Kind, list[Row]], slots: int, *, whole: bool) -> "FleetChanges":
        """Encode changes. The rows of each kind are sorted."""
        return cls(whole, slots, [_columns(kind, rows, slots) for kind, rows in sorted(rows_of.items()) if rows])

    def by_decision(self) -> dict[int, list[VectorChange]]:
        """Return the changes by the position of their decision in the batch, in the order in which they apply.

        Raises:
            InputError: the changes are damaged.
        """
        found: dict[int, list[VectorChange]] = defaultdict(list)
        try:
            for group in self.groups:
                kind, *positions = group.kind
                columns = list(map(_numbers, group.columns))
                rows = zip(*columns, strict=True) if columns else [()] * len(group.keys)
                for key, values in zip(accumulate(group.keys), rows, strict=True):
                    decision, slot = divmod(key, self.slots)
                    found[decision].append(VectorChange(kind, slot, positions, values))
        except (ValueError, ZeroDivisionError):
            raise DamagedLedgerError("the fleet versions of a batch of the ledger are damaged") from None
        return dict(sorted(found.items()))


def _columns(kind: Kind, rows: list[Row], slots: int) -> _Columns:
    rows.sort()
    decisions, own_slots, *columns = zip(*rows, strict=True)
    keys = [decision * slots + slot for decision, slot in zip(decisions, own_slots, strict=True)]
    return _Columns(kind, [keys[0], *map(sub, keys[1:], keys)], list(map(_column, columns)))


def _column(numbers: Sequence[int]) -> _Column:
    """Divide numbers by what they have in common, which comes first. MessagePack has no integers above 64 bits."""
    divisor = gcd(*numbers) or 1
    column = [divisor, *(number // divisor for number in numbers)]
    return list(column) if min(column) >= _LEAST and max(column) <= _MOST else list(map(str, column))


def _numbers(column: _Column) -> list[int]:
    divisor, *numbers = map(int, column)
    return [number * divisor for number in numbers]
