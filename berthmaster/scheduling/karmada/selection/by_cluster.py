"""Selection by a constraint on clusters (karmada ``select_clusters_by_cluster.go``)."""

import numpy as np

from berthmaster.model.placement import SpreadConstraint
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.decision import Failure, FailureKind


def select_by_cluster(constraint: SpreadConstraint, needed: int | None, candidates: Candidates) -> Candidates | Failure:
    """The best ``maxGroups`` clusters, changed as little as it takes to hold ``needed`` replicas.

    None needs no room at all.
    """
    if len(candidates) < constraint.min_groups:
        return Failure(
            FailureKind.SELECT_FAILED,
            f"{len(candidates)} of the clusters fit, the spread constraint asks for at least {constraint.min_groups}",
        )
    count = max(0, min(len(candidates), constraint.max_groups))
    if needed is None:
        return candidates.at(candidates.best(count))
    chosen = candidates.best(count)
    if count and int(candidates.available[chosen].sum()) < needed:
        chosen = _with_more_room(candidates, count, needed)
    room = int(candidates.available[chosen].sum())
    if not count or room < needed:
        limit = "maxGroups is not set, which allows none" if not count else f"{count} clusters hold {room} at most"
        return Failure(FailureKind.SELECT_FAILED, f"{needed} replicas are wanted, but {limit}")
    return candidates.at(chosen)


def _with_more_room(candidates: Candidates, count: int, needed: int) -> np.ndarray:
    """Trade selected clusters, the last first, for the roomiest of the rest, until there is room for all replicas.

    Each selected cluster is looked at once, and traded only for one that has more room than itself.
    """
    order = candidates.best(len(candidates))
    chosen, rest = order[:count].copy(), order[count:].copy()
    available = candidates.available
    room = int(available[chosen].sum())
    for slot in range(count - 1, -1, -1):
        if room >= needed or not len(rest):
            break
        # argmax finds the first of equals, which is the best of them in the order.
        roomiest = int(available[rest].argmax())
        gain = int(available[rest[roomiest]] - available[chosen[slot]])
        if gain > 0:
            chosen[slot], rest[roomiest] = rest[roomiest], chosen[slot]
            room += gain
    return chosen
