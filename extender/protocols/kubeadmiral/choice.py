"""Which clusters of a group take a workload that KubeAdmiral places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

from berthmaster.model.cluster import NO_SCHEDULE, Cluster, repelling_taints
from berthmaster.model.meta import INT64_MAX
from berthmaster.scheduling.resources import Requests, free_amount
from extender.protocols.kubeadmiral.wire import SchedulingUnit

DIVIDE: Final = "Divide"

_NO_SCHEDULE: Final = frozenset({NO_SCHEDULE})
_MAX_STEPS: Final = 2048


@dataclass(frozen=True, slots=True)
class Ranked:
    """A cluster that select may choose from, with its score and how many replicas it takes.

    Attributes:
        cluster: with region and zones from its labels.
        score: what all score plugins gave it.
        minimum: replicas it gets at least; its maximum if that is less.
        room: replicas it takes at most, by its bounds and by what it has available.
    """

    cluster: Cluster
    score: int
    minimum: int
    room: int


def room_of(unit: SchedulingUnit, requests: Requests, cluster: Cluster, maximum: int | None) -> int:
    """How many replicas a cluster takes: what it runs already, and what fits its available resources, bounded.

    ``requests`` are those of the unit.

    One with a NoSchedule taint that is not tolerated keeps what it runs; KubeAdmiral gives it no more.
    """
    summary = cluster.status.resource_summary
    fits = INT64_MAX
    for name, amount in requests:
        free = free_amount(summary, name) if summary is not None else 0
        fits = min(fits, max(0, free) // amount)
    running = _running(unit, cluster.name)
    repelled = repelling_taints(cluster.spec.taints, unit.tolerations, _NO_SCHEDULE)
    fits = running if repelled else min(INT64_MAX, fits + running)
    return fits if maximum is None else min(fits, maximum)


def choose(unit: SchedulingUnit, members: Sequence[Ranked]) -> list[str] | str:
    """The clusters of a group that take the workload, the best first, or why they cannot.

    The best are tried first; if these do not hold all replicas, the roomiest are. A cluster that holds nothing, or less
    than its minimum, is none of them.
    """
    if not members:
        return "none of its clusters is left"
    limit = len(members) if unit.max_clusters is None else unit.max_clusters
    by_score = sorted(members, key=lambda each: (-each.score, each.cluster.name))
    if unit.scheduling_mode != DIVIDE or not unit.desired_replicas or limit <= 0:
        return [each.cluster.name for each in by_score[: max(0, limit)]]
    usable = [each for each in by_score if each.room >= max(1, each.minimum)]
    most = 0
    for order in _orders(usable, unit.desired_replicas, limit):
        chosen = _within_minima(order, unit.desired_replicas, limit)
        held = sum(each.room for each in chosen.values())
        if held >= unit.desired_replicas:
            return [each.cluster.name for each in by_score if each.cluster.name in chosen]
        most = max(most, held)
    return f"{min(limit, len(usable))} of its clusters hold {most} of {unit.desired_replicas} replicas"


def _running(unit: SchedulingUnit, name: str) -> int:
    """The replicas that a cluster has. One that has the workload and no number is sent as 0, and has all of them."""
    number = unit.current_replica_distribution.get(name)
    if number is None:
        return 0
    return number or unit.desired_replicas or 0


def _orders(usable: Sequence[Ranked], replicas: int, limit: int) -> Iterator[Sequence[Ranked]]:
    """Orders of which the first clusters are worth trying."""
    yield usable
    by_room = sorted(usable, key=lambda each: -each.room)
    yield by_room
    holding = _holding(by_room, replicas, limit)
    yield sorted(by_room, key=lambda each: each.cluster.name not in holding)


def _holding(by_room: Sequence[Ranked], replicas: int, limit: int) -> set[str]:
    """Clusters that hold all replicas, which are enough for their minima, by name; none if a bounded search finds none.

    The roomiest are not always among them, for their minima may leave too little for others.
    """
    rooms = [0, *accumulate(each.room for each in by_room)]
    branches = [_Branch(0, 0, replicas, 0, None)]
    for _ in range(_MAX_STEPS):
        if not branches:
            break
        branch = branches.pop()
        if branch.held >= replicas:
            return branch.names()
        place, chosen, left, held, _ = branch
        reachable = rooms[min(len(by_room), place + limit - chosen)] - rooms[place]
        if held + reachable < replicas:
            continue
        each = by_room[place]
        branches.append(branch._replace(place=place + 1))
        if each.minimum <= left:
            taken = each.cluster.name, branch.taken
            branches.append(_Branch(place + 1, chosen + 1, left - each.minimum, held + each.room, taken))
    return set()


class _Branch(NamedTuple):
    """A part of the search: whatever can still be added to some clusters.

    Attributes:
        place: from where on clusters have not been looked at.
        chosen: how many are taken.
        left: replicas that their minima leave.
        held: replicas that they hold.
        taken: the last of them and, in the same way, those before it.
    """

    place: int
    chosen: int
    left: int
    held: int
    taken: tuple[str, Any] | None

    def names(self) -> set[str]:
        """The clusters that are taken."""
        names, taken = set(), self.taken
        while taken is not None:
            name, taken = taken
            names.add(name)
        return names


def _within_minima(order: Sequence[Ranked], replicas: int, limit: int) -> dict[str, Ranked]:
    """The first clusters whose minima all replicas are enough for, by name."""
    chosen: dict[str, Ranked] = {}
    left = replicas
    for each in order:
        if len(chosen) < limit and each.minimum <= left:
            chosen[each.cluster.name] = each
            left -= each.minimum
    return chosen
