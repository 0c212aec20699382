"""Assignment: how many replicas each selected cluster gets (karmada ``assignment.go``, ``division_algorithm.go``).

Replicas are divided by static weight, by available replicas, or aggregated on few clusters. The division itself is
Webster's method (Sainte-Laguë) with Karmada's tie-breaking (karmada ``pkg/util/helper/webster.go``).

Karmada sorts weights with Go's ``sort.Sort``, and uses the first clusters of the result. If equal weights cross the
cut, their order decides which clusters are used. The sort is a pattern-defeating quicksort. Up to 12 elements it is an
insertion sort, which is stable. Above that it is not stable, but deterministic. The code here follows Go 1.19 and later
step by step.
"""

from heapq import heapify, heapreplace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berthmaster.model.division_strategy import Strategy
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.karmada.go_sort import STABLE_UP_TO, order_by_weight
from berthmaster.scheduling.karmada.selection import KarmadaPlacement
from berthmaster.scheduling.request import Request

FloatArray = NDArray[np.float64]
_FEW_CLUSTERS: Final = 16
# Up to this many uncertain seats a heap in Python is faster than rounds over all parties in numpy.
_SEATS_FOR_HEAP: Final = 96
_SEATS_A_ROUND: Final = 4


def assign(context: Context, compiled: KarmadaPlacement, selected: Candidates) -> dict[str, int] | Failure:
    """Return replicas by cluster, or why they cannot be assigned.

    A workload without replicas goes to every selected cluster, with 0 replicas. For a workload with replicas, clusters
    that get none are left out.
    """
    if not len(selected):
        none = "failed to assign replicas: no clusters available to schedule"
        return Failure(FailureKind.SELECT_FAILED, "the spread constraints select no cluster", none)
    request = context.request
    if not request.divides_replicas:
        return dict.fromkeys(selected.names(), 0)
    # The tiers follow the observed term, which a single clusterAffinity hides.
    if context.group.overflow is not None and compiled.placement.cluster_affinity is None:
        return _tier_by_tier(compiled, request, selected.ordered())
    return divide(compiled, request, selected, request.replicas)


def _tier_by_tier(compiled: KarmadaPlacement, request: Request, selected: Candidates) -> dict[str, int] | Failure:
    """Fill the group's own clusters first, then those of each overflow affinity in order."""
    assignment: dict[str, int] = {}
    remaining = request.replicas
    tiers = selected.tiers
    ordered = [selected.positions()] if tiers is None else [(tiers == each).nonzero()[0] for each in np.unique(tiers)]
    for positions in ordered:
        tier = selected.at(positions)
        replicas = min(remaining, int(tier.available.sum()))
        divided = divide(compiled, request, tier, replicas)
        if isinstance(divided, Failure):
            return divided
        assignment.update(divided)
        remaining -= replicas
        if not remaining:
            return assignment
    return Failure(
        FailureKind.INSUFFICIENT,
        f"{remaining} of {request.replicas} replicas fit neither in the group nor in its overflow",
        "failed to assign replicas: Clusters available replicas are not enough to schedule.",
    )


def divide(
    compiled: KarmadaPlacement, request: Request, selected: Candidates, replicas: int
) -> dict[str, int] | Failure:
    """Divide replicas over clusters. Clusters that get none are left out."""
    match compiled.strategy:
        case Strategy.DUPLICATED:
            return dict.fromkeys(selected.names(), replicas) if replicas else {}
        case Strategy.STATIC_WEIGHT:
            return _without_none(
                selected, divide_by_votes(request, selected, static_weights(compiled, selected), replicas)
            )
        case Strategy.DYNAMIC_WEIGHT | Strategy.AGGREGATED:
            return _by_capacity(compiled.strategy, request, selected, replicas)
        case _:
            return Failure(
                FailureKind.INSUFFICIENT,
                "replicaScheduling names no strategy: replicaSchedulingType must be Duplicated or Divided, and "
                "replicaDivisionPreference of the latter Aggregated or Weighted",
            )


def static_weights(compiled: KarmadaPlacement, selected: Candidates) -> IntArray:
    """Return the weight of each selected cluster. If no rule matches any of them, all have weight 1."""
    if compiled.weights is not None:
        weights = compiled.weights.current()[selected.rows]
        if weights.any():
            return weights
    return np.ones(len(selected), dtype=np.int64)


class CapacityDivision(NamedTuple):
    """The input of a division by capacity.

    Attributes:
        weights: the weight of each cluster. The sum of the weights limits the replicas.
        replicas: the number to assign. 0 if the current assignment stays.
        base: the replicas of each cluster that stay there. None for none.
    """

    clusters: Candidates
    weights: IntArray
    replicas: int
    base: IntArray | None


def capacity_division(request: Request, selected: Candidates, replicas: int) -> CapacityDivision:
    """Return the input of the strategies by capacity: all replicas in fresh mode, else only the difference."""
    if request.fresh:
        # Karmada adds the two in int32. With 0 replicas every cluster holds MaxInt32, so that assigned replicas make
        # the sum overflow and the group fails. With any other number of replicas the sum is small.
        return CapacityDivision(selected, selected.available.astype(np.int32), replicas, None)
    kept = selected.assigned
    assigned = 0 if kept is None else int(kept.sum())
    if kept is None or assigned <= replicas:
        return CapacityDivision(selected, selected.allocatable, replicas - assigned, kept)
    # Scaling down divides by the current replicas, in the order in which the binding lists the clusters.
    position_of = {name: position for position, name in enumerate(selected.names())}
    positions = np.array([position_of[name] for name in request.current if name in position_of], dtype=np.int64)
    return CapacityDivision(selected.at(positions), kept[positions], replicas, None)


def _by_capacity(strategy: Strategy, request: Request, selected: Candidates, replicas: int) -> dict[str, int] | Failure:
    """Divide by dynamic weight or aggregated. In steady mode replicas that are assigned stay where they are."""
    clusters, weights, missing, base = capacity_division(request, selected, replicas)
    if base is not None and not missing:
        return _without_none(clusters, base)
    available = int(weights.sum())
    if available < missing:
        upstream = f"failed to assign replicas: Clusters available replicas {available} are not enough to schedule."
        return Failure(FailureKind.INSUFFICIENT, _insufficient(missing, len(clusters), available), upstream)
    if strategy is Strategy.AGGREGATED:
        fewest = fewest_that_hold(clusters, weights, missing, base)
        seats = np.zeros(len(clusters), dtype=np.int64)
        seats[fewest] = divide_by_votes(request, clusters.at(fewest), weights[fewest], missing)
    else:
        seats = divide_by_votes(request, clusters, weights, missing)
    return _without_none(clusters, seats if base is None else seats + base)


def _insufficient(missing: int, clusters: int, available: int) -> str:
    replicas = "1 replica" if missing == 1 else f"{missing} replicas"
    selected = "the selected cluster holds" if clusters == 1 else f"the {clusters} selected clusters hold"
    return f"{replicas} must be assigned, but {selected} {available}"


def fewest_that_hold(clusters: Candidates, weights: IntArray, replicas: int, base: IntArray | None) -> IntArray:
    """Return the positions of the fewest clusters that hold all replicas, largest weight first.

    Clusters that have replicas in ``base`` come before all others.
    """
    if base is None and clusters.ordered_by(weights):
        # The order of the candidates is the order of the weights. Its first few clusters are usually enough.
        few = clusters.best(_FEW_CLUSTERS)
        sums = weights[few].cumsum()
        if sums[-1] >= replicas:
            return few[: int(sums.searchsorted(replicas)) + 1]
    positions = clusters.positions()
    listed = weights[positions]
    chosen, tied = _cut(positions[(-listed).argsort(kind="stable")], weights, replicas, base)
    if tied and len(listed) > STABLE_UP_TO and (listed[1:] > listed[:-1]).any():
        chosen, _ = _cut(positions[order_by_weight(listed.tolist())], weights, replicas, base)
    return chosen


def _cut(order: IntArray, weights: IntArray, replicas: int, base: IntArray | None) -> tuple[IntArray, bool]:
    """Return the shortest prefix of an order that holds all replicas, and whether equal weights cross its end."""
    if base is not None:
        has_some = base[order] > 0
        order = np.concatenate([order[has_some], order[~has_some]])
    end = int(weights[order].cumsum().searchsorted(replicas)) + 1
    return order[:end], end < len(order) and bool((weights[order[end:]] == weights[order[end - 1]]).any())


def divide_by_votes(request: Request, clusters: Candidates, weights: IntArray, replicas: int) -> IntArray:
    """Divide replicas over clusters by Webster's method."""
    rank = clusters.name_rank()
    return allocate(replicas, weights, -rank if breaks_ties_descending(request.uid) else rank)


def _without_none(clusters: Candidates, replicas: IntArray) -> dict[str, int]:
    positions = replicas.nonzero()[0]
    return dict(zip(clusters.names_at(positions), replicas[positions].tolist(), strict=True))


def breaks_ties_descending(uid: str) -> bool:
    """Return whether, for a workload with this UID, the larger name comes first on a tie: its FNV-1a hash is odd.

    The hash begins odd, and its factor is odd. Its lowest bit therefore changes with each odd byte, and no other.
    """
    return bool(uid) and sum(uid.encode()) % 2 == 0


def allocate(seats: int, votes: IntArray, tie_rank: IntArray) -> IntArray:
    """Give ``seats`` one by one to the party with the largest votes/(2*seats+1), in IEEE doubles.

    The quotients of a party fall strictly. The seats therefore are the largest of all quotients and can be found in
    bulk.

    Args:
        votes: the votes of each party, not negative.
        tie_rank: a distinct rank for each party. Of equal quotients the party with fewer seats comes first, then the
            smaller rank.

    Returns:
        The seats of each party, all 0 if there are no votes.
    """
    result = np.zeros(len(votes), dtype=np.int64)
    if seats < 1 or not votes.any():
        return result
    # Convert before comparing: different votes above 2**53 may be equal as doubles.
    quotas = votes.astype(np.float64)
    parties = _parties_in_reach(seats, quotas, tie_rank)
    quotas, ranks = quotas[parties], tie_rank[parties]
    given = _certain_seats(seats, quotas.tolist())
    if seats - sum(given) <= _SEATS_FOR_HEAP:
        result[parties] = _one_by_one(seats, given, quotas.tolist(), ranks.tolist())
    else:
        result[parties] = _in_rounds(seats, np.array(given, dtype=np.int64), quotas, ranks)
    return result


def _parties_in_reach(seats: int, votes: FloatArray, tie_rank: IntArray) -> IntArray:
    """Return the parties that can get a seat: the strongest ones, at most as many as there are seats."""
    if len(votes) <= seats:
        return np.arange(len(votes))
    threshold = np.partition(votes, -seats)[-seats]
    above, level = np.flatnonzero(votes > threshold), np.flatnonzero(votes == threshold)
    missing = seats - len(above)
    if missing < len(level):
        level = level[tie_rank[level].argpartition(missing - 1)[:missing]]
    return np.concatenate([above, level])


def _one_by_one(seats: int, given: list[int], votes: list[float], tie_rank: list[int]) -> list[int]:
    # A heap returns its smallest entry first, so the quotient is negated.
    heap = [
        (-vote / (2 * taken + 1), taken, rank, party, vote)
        for party, (taken, vote, rank) in enumerate(zip(given, votes, tie_rank, strict=True))
    ]
    heapify(heap)
    for _ in range(seats - sum(given)):
        _, taken, rank, party, vote = heap[0]
        taken += 1
        heapreplace(heap, (-vote / (2 * taken + 1), taken, rank, party, vote))
        given[party] = taken
    return given


def _in_rounds(seats: int, given: IntArray, votes: FloatArray, tie_rank: IntArray) -> IntArray:
    missing = seats - int(given.sum())
    while missing > 0:
        taken = _largest_quotients(missing, votes, given, tie_rank)
        given = given + taken
        missing -= int(taken.sum())
    return given


def _certain_seats(seats: int, votes: list[float]) -> list[int]:
    """Return the seats that each party is certain to get.

    With a divisor d a party earns floor((votes/d + 1) / 2) seats. With d = total / (2*seats - parties) all parties
    together earn no more seats than there are, so that each of these quotients is among the largest. Subtracting one
    seat from each party rules out rounding errors.
    """
    quota = 2 * seats - len(votes)
    if quota <= 0:
        return [0] * len(votes)
    inverse_divisor = quota / sum(votes)
    return [max(0, int((vote * inverse_divisor + 1) / 2) - 1) for vote in votes]


def _largest_quotients(count: int, votes: FloatArray, given: IntArray, tie_rank: IntArray) -> IntArray:
    """Return how many of the next ``count`` seats each party gets, possibly fewer than ``count`` in total.

    Each party competes with a fixed number of its next seats. If a party takes all of these, only the seats before its
    following quotient are certain. The caller asks again for the rest.
    """
    next_seats = given[:, None] + np.arange(_SEATS_A_ROUND)
    quotients = votes[:, None] / (2 * next_seats + 1)
    order = np.lexsort((np.repeat(tie_rank, _SEATS_A_ROUND), next_seats.ravel(), -quotients.ravel()))
    taken = np.bincount(order[:count] // _SEATS_A_ROUND, minlength=len(votes))
    exhausted = taken == _SEATS_A_ROUND
    if not exhausted.any():
        return taken
    following = votes[exhausted] / (2 * (given[exhausted] + _SEATS_A_ROUND) + 1)
    certain = order[:count][quotients.ravel()[order[:count]] > following.max()]
    return np.bincount(certain // _SEATS_A_ROUND, minlength=len(votes))
