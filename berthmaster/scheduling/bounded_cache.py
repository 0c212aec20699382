"""Caches with a limit of bytes, and the arrays that columns may keep."""

from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
ARRAY_BYTES: Final = 64 * 2**20
BYTES_OF_JSON: Final = 12
"""The bytes that a decoded and compiled document takes in memory, for each byte of its JSON."""
_ENTRY_BYTES: Final = 1024


class BoundedCache(Generic[K, T]):
    """A mapping that drops its oldest entries when their bytes exceed a limit. Not safe for several threads.

    ``bytes``: the bytes of all entries, as their sizes were given.
    """

    __slots__ = ("_entries", "_limit_bytes", "_sizes", "bytes", "get")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entries: dict[K, T] = {}
        self._sizes: dict[K, int] = {}
        self.bytes = 0
        self.get = self._entries.get

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: K, value: T, size_bytes: int) -> T:
        """Add an entry, or replace the one with the same key. An entry above the limit is not kept.

        Args:
            size_bytes: the bytes that the entry holds, without the fixed cost of an entry.

        Returns:
            The value.
        """
        size_bytes += _ENTRY_BYTES
        self._remove(key)
        if size_bytes > self._limit_bytes:
            return value
        while self.bytes + size_bytes > self._limit_bytes:
            self._remove(next(iter(self._entries)))
        self._entries[key] = value
        self._sizes[key] = size_bytes
        self.bytes += size_bytes
        return value

    def clear(self) -> None:
        self._entries.clear()
        self._sizes.clear()
        self.bytes = 0

    def _remove(self, key: K) -> None:
        size_bytes = self._sizes.pop(key, None)
        if size_bytes is not None:
            self.bytes -= size_bytes
            del self._entries[key]


class Releasable(Protocol):
    """Holds arrays that it can compute again."""

    def release(self) -> None:
        """Drop the arrays."""


class ArrayBudget:
    """Bounds the bytes of arrays that are derived from a fleet. Above the limit the oldest arrays are dropped."""

    __slots__ = ("_sizes", "bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = ARRAY_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._sizes: dict[Releasable, int] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def admit(self, holder: Releasable, size_bytes: int) -> None:
        """Count the arrays of a holder, in place of those that were counted before, and drop others for them."""
        self.bytes += size_bytes - self._sizes.pop(holder, 0)
        while self.bytes > self.limit_bytes and self._sizes:
            oldest = next(iter(self._sizes))
            self.bytes -= self._sizes.pop(oldest)
            oldest.release()
        self._sizes[holder] = size_bytes
