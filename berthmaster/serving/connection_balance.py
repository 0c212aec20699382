"""How many connections each worker has, for all of them to see.

All workers accept from one queue. The one that is awake would take most, and keep them: control planes hold on to few
connections for long. So a worker leaves a new one, for a moment, to those that have fewer.
"""

import mmap
from typing import Final

_SLOT_BYTES: Final = 4
_NOBODY: Final = 0
_SOME_MORE: Final = 8


class Crew:
    """Made before workers are forked. Each has a slot, by its number; a slot holds its connections plus one.

    After many crashes two workers may have the same slot. The balance suffers then, and nothing else.
    """

    def __init__(self, workers: int) -> None:
        self._size = 2 * workers  # the old and the new ones while they are replaced
        self._slots = memoryview(mmap.mmap(-1, self._size * _SLOT_BYTES)).cast("I")

    def tell(self, worker: int, connections: int) -> None:
        """A worker has so many."""
        self._slots[worker % self._size] = connections + 1

    def ended(self, worker: int) -> None:
        """A worker is no more."""
        self._slots[worker % self._size] = _NOBODY

    def others_should(self, connections: int) -> bool:
        """Whether a new one should go to another worker than one that has so many. Among many, few do not matter."""
        fewest = min(filter(None, self._slots), default=connections + 1) - 1
        return connections > fewest + fewest // _SOME_MORE
