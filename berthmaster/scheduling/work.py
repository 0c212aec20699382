"""The work of a decision, counted in steps, and its bound.

A step is about ten nanoseconds. The engine adds the steps of each group from sizes alone: clusters, expressions, table
cells. It reads no clock, so equal input takes equal steps on every machine, whether results are cached or not.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

from berthmaster.model.errors import InputError
from berthmaster.model.validation import OPTION

UNBOUNDED: Final = 2**62
GROUP_STEPS: Final = 500
"""The steps of any group, however few clusters it has."""
CANDIDATE_STEPS: Final = 5
"""The steps of one cluster in columns: the scores, the estimate and the assigned replicas."""
PYTHON_STEPS: Final = 100
"""The steps of one call of Python code, such as one plugin for one cluster."""
AFFINITY_STEPS: Final = 1000
"""The steps of compiling one affinity."""
_ROWS_A_STEP: Final = 16
_COLUMN_STEPS: Final = 100


class TooLargeError(InputError):
    """A placement exceeds a limit, or a decision takes too many steps. It fails again until the input changes."""


class Work:
    """The steps of one request, over all its groups."""

    __slots__ = ("_check", "limit", "steps")

    def __init__(self, limit: int = UNBOUNDED, check: Callable[[], None] | None = None) -> None:
        """Start without steps.

        Args:
            check: called before each group. An exception that it raises, for example at a deadline, ends the decision.
        """
        self.steps = 0
        self.limit = limit
        self._check = check

    def begin_group(self) -> None:
        """Begin a group. Ends the decision with the exception of ``check``, if it raises one."""
        if self._check is not None:
            self._check()
        self.spend(GROUP_STEPS)

    def spend(self, steps: int) -> None:
        """Add steps, before or after they are done. Raises ``TooLargeError`` if the limit is exceeded."""
        self.steps += steps
        if self.steps > self.limit:
            raise TooLargeError(
                f"the decision takes more than {self.limit:,} steps; use fewer groups, overflow affinities, "
                f"expressions or regions, or raise steps in {OPTION}"
            )


def column_steps(rows: int) -> int:
    """Return the steps of one operation on a column."""
    return _COLUMN_STEPS + rows // _ROWS_A_STEP


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ARRAY_BYTES: Final = 64 * 2**20
BYTES_OF_JSON: Final = 12
"""The bytes that a decoded and compiled document takes in memory, for each byte of its JSON."""
_ENTRY_BYTES: Final = 1024


class BoundedCache(Generic[K, V]):
    """A mapping that drops its oldest entries when their bytes exceed a limit. Not safe for several threads."""

    __slots__ = ("_bytes", "_entries", "_limit_bytes", "_sizes", "get")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entries: dict[K, V] = {}
        self._sizes: dict[K, int] = {}
        self._bytes = 0
        self.get = self._entries.get

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes(self) -> int:
        """The bytes of all entries, as their sizes were given."""
        return self._bytes

    def add(self, key: K, value: V, size_bytes: int) -> V:
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
        while self._bytes + size_bytes > self._limit_bytes:
            self._remove(next(iter(self._entries)))
        self._entries[key] = value
        self._sizes[key] = size_bytes
        self._bytes += size_bytes
        return value

    def clear(self) -> None:
        self._entries.clear()
        self._sizes.clear()
        self._bytes = 0

    def _remove(self, key: K) -> None:
        size_bytes = self._sizes.pop(key, None)
        if size_bytes is not None:
            self._bytes -= size_bytes
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
