"""Integers as bytes: small numbers take one byte, and columns of numbers share their common divisor."""

from collections.abc import Sequence
from itertools import accumulate
from math import gcd

from berthmaster.model.errors import InputError


def put(out: bytearray, number: int) -> None:
    """Append a number that is not negative, seven bits a byte, the lowest first."""
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def put_ascending(out: bytearray, numbers: Sequence[int]) -> None:
    """Append ascending numbers that are not negative, as their count and their differences."""
    put(out, len(numbers))
    last = 0
    for number in numbers:
        put(out, number - last)
        last = number


def put_column(out: bytearray, numbers: Sequence[int]) -> None:
    """Append numbers of any sign. The reader knows their count."""
    divisor = gcd(*numbers)
    put(out, divisor)
    if not divisor:
        return
    for number in numbers:
        value = number // divisor
        put(out, value << 1 if value >= 0 else (-value << 1) - 1)


class IntegerReader:
    """Reads what the functions of this module wrote.

    All methods raise ``InputError`` if the bytes end too early.
    """

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        return self._take(1)[0]

    def ascending(self) -> list[int]:
        return list(accumulate(self._take(self.number())))

    def column(self, count: int) -> list[int]:
        divisor = self.number()
        if not divisor:
            return [0] * count
        return [
            (value >> 1) * divisor if not value & 1 else -((value + 1) >> 1) * divisor for value in self._take(count)
        ]

    def _take(self, count: int) -> list[int]:
        data, at, numbers = self._data, self._at, []
        try:
            for _ in range(count):
                byte = data[at]
                at += 1
                if byte > 127:
                    value, shift = byte & 127, 7
                    while (byte := data[at]) > 127:
                        value |= (byte & 127) << shift
                        shift += 7
                        at += 1
                    at += 1
                    byte = value | byte << shift
                numbers.append(byte)
        except IndexError:
            raise InputError("a fleet version of the ledger is cut off") from None
        self._at = at
        return numbers
