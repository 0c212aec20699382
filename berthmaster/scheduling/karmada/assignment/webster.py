"""Webster's method (Sainte-Laguë) with Karmada's ties (karmada ``pkg/util/helper/webster.go``)."""

from heapq import heapify, heapreplace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berthmaster.scheduling.columns import IntArray

FloatArray = NDArray[np.float64]

# Up to this many uncertain seats a heap in Python is faster than rounds over all parties in numpy.
_SEATS_FOR_HEAP: Final = 96
_SEATS_A_ROUND: Final = 4


def allocate(seats: int, votes: IntArray, tie_rank: IntArray) -> IntArray:
    """Give ``seats``, one after the other, to the party with the largest votes/(2*seats+1), as IEEE doubles.

    A party's quotients fall strictly, so that the seats given are simply the largest of all quotients, and can be
    found in bulk.

    Args:
        seats: how many there are.
        votes: of each party, not negative.
        tie_rank: distinct; of equal quotients the one with fewer seats goes first, then the smaller rank.

    Returns:
        The seats of each party; none at all if nobody has votes.
    """
    result = np.zeros(len(votes), dtype=np.int64)
    if seats < 1 or not votes.any():
        return result
    # Converted before anything is compared: votes above 2**53 that differ may be equal as doubles.
    quotas = votes.astype(np.float64)
    parties = _parties_in_reach(seats, quotas, tie_rank)
    quotas, ranks = quotas[parties], tie_rank[parties]
    given = _certain_seats(seats, quotas.tolist())
    if seats - sum(given) <= _SEATS_FOR_HEAP:
        result[parties] = _one_by_one(seats, given, quotas.tolist(), ranks.tolist())
    else:
        result[parties] = _in_rounds(seats, np.array(given, dtype=np.int64), quotas, ranks)
    return result


def fnv1a_32(data: bytes) -> int:
    """The FNV-1a hash, 32 bits."""
    digest = 0x811C9DC5
    for byte in data:
        digest = (digest ^ byte) * 0x01000193 & 0xFFFFFFFF
    return digest


def breaks_ties_descending(uid: str) -> bool:
    """Whether, for a workload of this UID, the larger name goes first among equals."""
    return bool(uid) and fnv1a_32(uid.encode()) % 2 == 1


def _parties_in_reach(seats: int, votes: FloatArray, tie_rank: IntArray) -> IntArray:
    """The parties that can get a seat: the strongest ones, no more of them than there are seats."""
    if len(votes) <= seats:
        return np.arange(len(votes))
    threshold = np.partition(votes, -seats)[-seats]
    above, level = np.flatnonzero(votes > threshold), np.flatnonzero(votes == threshold)
    room = seats - len(above)
    if room < len(level):
        level = level[tie_rank[level].argpartition(room - 1)[:room]]
    return np.concatenate([above, level])


def _one_by_one(seats: int, given: list[int], votes: list[float], tie_rank: list[int]) -> list[int]:
    # The quotient is negated: a heap gives its smallest entry first.
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
    """Seats that each party surely gets.

    With a divisor d a party earns floor((votes/d + 1) / 2) seats; with d = total / (2*seats - parties) all parties
    together earn no more than there are, so that each of these quotients is among the largest. One seat less for each
    party keeps rounding out of it.
    """
    quota = 2 * seats - len(votes)
    if quota <= 0:
        return [0] * len(votes)
    inverse_divisor = quota / sum(votes)
    return [max(0, int((vote * inverse_divisor + 1) / 2) - 1) for vote in votes]


def _largest_quotients(count: int, votes: FloatArray, given: IntArray, tie_rank: IntArray) -> IntArray:
    """How many of the next ``count`` seats each party gets.

    Each party stands for a few of its next seats. Should one take all it stands for, only the seats given before its
    next quotient are certain; the caller asks again for the rest.
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
