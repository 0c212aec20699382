"""The clusters that fit, with what selection and assignment need of them."""

from typing import Final

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.fleet import MAX_CLUSTERS, Fleet

_NO_ROWS: Final[IntArray] = np.zeros(0, dtype=np.int64)


_NAME_BITS: Final = (MAX_CLUSTERS - 1).bit_length()


_AVAILABLE_BITS: Final = 33  # the sum of two int32: available and assigned replicas


_MAX_KEY_SCORE: Final = 2 ** (62 - _NAME_BITS - _AVAILABLE_BITS) - 1


# Below this many clusters a whole sort costs less than finding the first ones.
_SORT_WHOLE_BELOW: Final = 64


class Candidates:
    """Some clusters that fit, as parallel arrays, with their scores and available replicas.

    Candidates that ``at`` returned are in selection order. All others are in no particular order.

    The selection order is: overflow order ascending, score descending, available replicas descending, name ascending.
    Karmada uses all of it. KubeAdmiral's candidates have no overflow order and no available replicas. Most decisions
    need only the first few clusters, so the order is computed only as far as a stage asks for it.

    Attributes:
        scores: the sum of all score plugins. None if all are 0.
        tiers: the overflow order. None if all are 0.
    """

    __slots__ = ("_fleet", "_picked", "allocatable", "assigned", "rows", "scores", "tiers")

    def __init__(
        self,
        fleet: Fleet,
        rows: IntArray,
        allocatable: IntArray,
        assigned: IntArray | None = None,
        scores: IntArray | None = None,
        tiers: IntArray | None = None,
    ) -> None:
        self._fleet = fleet
        self._picked = False
        self.rows = rows
        self.allocatable = allocatable
        self.assigned = assigned
        self.scores = scores
        self.tiers = tiers

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def available(self) -> IntArray:
        """Replicas that fit, including those that are already assigned."""
        return self.allocatable if self.assigned is None else self.allocatable + self.assigned

    def names(self) -> list[str]:
        return self._fleet.names(self.rows)

    def clusters(self) -> list[Cluster]:
        every = self._fleet.clusters
        return [cluster for row in self.rows.tolist() if (cluster := every[row]) is not None]

    def names_at(self, positions: IntArray) -> list[str]:
        return self._fleet.names(self.rows[positions])

    def name_rank(self) -> IntArray:
        return self._fleet.name_rank()[self.rows]

    def regions(self) -> list[str]:
        regions = self._fleet.regions.values
        return [regions[code] for code in self._fleet.region_code[self.rows].tolist()]

    def at(self, positions: IntArray) -> "Candidates":
        picked = Candidates(
            self._fleet,
            self.rows[positions],
            self.allocatable[positions],
            None if self.assigned is None else self.assigned[positions],
            None if self.scores is None else self.scores[positions],
            None if self.tiers is None else self.tiers[positions],
        )
        picked._picked = True
        return picked

    def ordered(self) -> "Candidates":
        """Return all candidates in selection order, or best first if none were picked yet."""
        return self if self._picked else self.at(self.best(len(self)))

    def positions(self) -> IntArray:
        """Return the positions of all candidates in the order of ``ordered``."""
        return np.arange(len(self)) if self._picked else self.best(len(self))

    def ordered_by(self, weights: IntArray) -> bool:
        """Return whether ``best`` orders by these weights first, largest first."""
        return weights is self.allocatable and not (
            self._picked or self.assigned is not None or self.scores is not None or self.tiers is not None
        )

    def with_scores(self, scores: IntArray) -> "Candidates":
        """Return the same candidates with other scores, in no particular order."""
        return Candidates(self._fleet, self.rows, self.allocatable, self.assigned, scores, self.tiers)

    def best(self, count: int) -> IntArray:
        """Return the positions of the first ``count`` candidates in the order, best first."""
        if self.tiers is not None or (self.scores is not None and _overflows(self.scores)):
            return self._lexical_order()[:count]
        # One distinct integer per cluster. A larger one is better.
        key = (self.available << _NAME_BITS) - self.name_rank()
        if self.scores is not None:
            key += self.scores << (_NAME_BITS + _AVAILABLE_BITS)
        return largest(key, count)

    def _lexical_order(self) -> IntArray:
        keys = [self.name_rank(), -self.available]
        if self.scores is not None:
            keys.append(-self.scores)
        if self.tiers is not None:
            keys.append(self.tiers)
        return np.lexsort(keys)


def _overflows(scores: IntArray) -> bool:
    """Return whether a score is too large for a key, or negative, which is large when read without a sign."""
    return bool(np.maximum.reduce(scores.view(np.uint64), initial=0) > _MAX_KEY_SCORE)


def largest(keys: IntArray, count: int) -> IntArray:
    """Return the positions of the ``count`` largest of some distinct keys, largest first."""
    if count < 1:
        return np.zeros(0, dtype=np.int64)
    if len(keys) <= _SORT_WHOLE_BELOW or 4 * count >= len(keys):
        return keys.argsort()[: -count - 1 : -1]
    top = keys.argpartition(-count)[-count:]
    return top[keys[top].argsort()[::-1]]
