"""The number of connections of each worker of a server, so that new ones are spread over the workers."""

import mmap
from typing import Final

_SLOT_BYTES: Final = 4
_EMPTY: Final = 0
_TOLERANCE: Final = 8


class ConnectionBalance:
    """The number of connections of each worker, in shared memory. Create it before workers are forked.

    All workers accept connections from one queue. A busy worker would take most of them and keep them, because control
    planes hold few connections for a long time. A worker therefore leaves a new connection, for a moment, to workers
    that have fewer.

    Each worker has a slot, by its number. A slot holds the number of connections plus one, or 0 without a worker. After
    many crashes two workers may share a slot. Then connections are less balanced, and there is no other effect.
    """

    def __init__(self, workers: int) -> None:
        self._size = 2 * workers  # old and new workers exist at the same time during a restart
        self._slots = memoryview(mmap.mmap(-1, self._size * _SLOT_BYTES)).cast("I")

    def report(self, worker: int, connections: int) -> None:
        self._slots[worker % self._size] = connections + 1

    def ended(self, worker: int) -> None:
        self._slots[worker % self._size] = _EMPTY

    def other_has_fewer(self, connections: int) -> bool:
        """Return whether one other worker has clearly fewer connections. Small differences do not count."""
        fewest = min(filter(None, self._slots), default=connections + 1) - 1
        return connections > fewest + fewest // _TOLERANCE
