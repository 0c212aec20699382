"""Which groups of clusters (regions) to spread over: Karmada's answer without its enumeration.

Karmada walks over all combinations of groups, those with fewer clusters first, and records a combination as soon as it
is long enough and has enough clusters; a recorded combination is not extended. Among the recorded it takes the one
with the largest weight, then the largest value, then the first found, and finally shortens it to a recorded prefix.
That is exponential in the number of groups.

What the walk records can be said without walking: in the walk's order, a sequence is recorded if its length is in
range, its values reach the target, and without its last group it was too short or its values fell short. The best
completion from group i on therefore depends on no more than how many groups are chosen so far and on the sum of their
values, capped at the target: a table of (groups x length x target) entries, filled from the last group to the first.
Recorded sequences are never prefixes of one another, so that "first found" means lexicographically smallest: on equal
terms, taking a group comes before passing it over.
"""

from typing import Final, NamedTuple

import numpy as np

from berthmaster.scheduling.columns import BoolArray, IntArray

_INT64_SAFE = 2**61
_COST_BEYOND_INT64: Final = 16
MAX_COST: Final = 2**28
"""The largest search: 256 MiB and a few seconds, while nobody else is answered."""


class ClusterGroup(NamedTuple):
    """Some clusters that are chosen together or not at all.

    Attributes:
        name: distinct among the groups.
        value: the number of clusters, at least 1.
        weight: how good the group is, not negative.
    """

    name: str
    value: int
    weight: int


def search_cost(groups: list[ClusterGroup], min_groups: int, max_groups: int, target: int) -> int:
    """How many entries the table has that ``select_groups`` fills; 0 if it need not, as there is no choice.

    Args: see ``select_groups``.
    """
    longest = min(max_groups, len(groups))
    if longest < min_groups or sum(group.value for group in groups) < target:
        return 0
    rows = 1 + (min_groups if longest == len(groups) else longest)
    each = _COST_BEYOND_INT64 if _combined_gains(groups).dtype == object else 1
    return len(groups) * rows * (1 + max(0, target)) * each


def select_groups(groups: list[ClusterGroup], min_groups: int, max_groups: int, target: int) -> list[ClusterGroup]:
    """The best choice of groups, heaviest first; empty if there is none.

    Args:
        groups: to choose from.
        min_groups: how many to choose at least, 1 or more.
        max_groups: how many to choose at most; 0 allows none.
        target: how many clusters they must have together.
    """
    if not search_cost(groups, min_groups, max_groups, target):
        return []
    in_walk_order = sorted(groups, key=lambda group: (group.value, -group.weight, group.name))
    best = _best_sequence(in_walk_order, min_groups, min(max_groups, len(groups)), max(0, target))
    heaviest_first = sorted(best, key=lambda group: (-group.weight, group.name))
    return _shortened(heaviest_first, min_groups, target)


def _best_sequence(groups: list[ClusterGroup], shortest: int, longest: int, target: int) -> list[ClusterGroup]:
    """The recorded sequence of the largest weight, then value, then the first in the walk; empty if there is none."""
    gains = _combined_gains(groups)
    taken = _fill_table(groups, gains, shortest, longest, target)
    last_row = len(taken[0]) - 1
    chosen: list[ClusterGroup] = []
    value = 0
    for index, group in enumerate(groups):
        if taken[index][min(len(chosen), last_row), value]:
            chosen.append(group)
            value = min(value + group.value, target)
            if len(chosen) >= shortest and value >= target:
                return chosen
    return []


def _combined_gains(groups: list[ClusterGroup]) -> IntArray | np.ndarray:
    """Weight and value of each group in one number that orders sums by weight first."""
    unit = sum(group.value for group in groups) + 1
    gains = [group.weight * unit + group.value for group in groups]
    return np.array(gains, dtype=np.int64 if sum(gains) < _INT64_SAFE else object)


def _fill_table(
    groups: list[ClusterGroup], gains: np.ndarray, shortest: int, longest: int, target: int
) -> list[BoolArray]:
    """For each group, and each (length, value) on arrival there, whether the best completion takes it.

    ``best[length, value]`` is the largest gain of the groups looked at so far that completes such a beginning. Where
    the upper bound on lengths bounds nothing, all that are long enough share the last row.
    """
    unbounded = longest == len(groups)
    last_row = shortest if unbounded else longest
    # What cannot be completed stays negative, whatever is gained on the way.
    best = np.full((last_row + 1, target + 1), -1 - gains.sum(), dtype=gains.dtype)
    # A beginning that is long enough and has reached the target is recorded: complete, nothing to gain.
    best[shortest:, target] = 0
    extensible = slice(None) if unbounded else slice(-1)
    longer = np.minimum(np.arange(last_row + 1) + 1, last_row)[extensible, None]
    values = np.arange(target + 1)
    taken: list[BoolArray] = []
    for index in range(len(groups) - 1, -1, -1):
        taking = best[longer, np.minimum(values + groups[index].value, target)] + gains[index]
        takes = np.zeros(best.shape, dtype=np.bool_)
        takes[extensible] = (taking >= best[extensible]) & (taking >= 0)
        best[extensible] = np.where(takes[extensible], taking, best[extensible])
        best[shortest:, target] = 0
        taken.append(takes)
    return taken[::-1]


def _shortened(heaviest_first: list[ClusterGroup], shortest: int, target: int) -> list[ClusterGroup]:
    """The shortest prefix that is recorded by itself, or all of it."""
    for length in range(shortest, len(heaviest_first)):
        prefix = heaviest_first[:length]
        value = sum(group.value for group in prefix)
        last_in_walk = max(group.value for group in prefix)
        if value >= target and (length == shortest or value - last_in_walk < target):
            return prefix
    return heaviest_first
