"""Groups of clusters in order, for KubeAdmiral: which group a cluster is in, and which group holds a workload.

KubeAdmiral has no groups. An object asks for them with the annotation ``policy.berthmaster.io/cluster-affinities``, a
JSON list of Karmada's ClusterAffinityTerms. FederatedClusters have no provider, region or zones, so that field
selectors see what labels say of these (``topology.kubernetes.io/region``, ``topology.kubernetes.io/zone``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from extender.protocols.kubeadmiral.wire import Member, SchedulingUnit
from extender.scheduling.resources import left_of, requests_of
from fleet.errors import FieldError
from fleet.model.affinity import AffinityTerm
from fleet.model.base import INT64_MAX
from fleet.model.cluster import Cluster, ClusterSpec, ClusterStatus
from fleet.model.decode import convert, decode_json, unknown_fields
from fleet.model.federated_cluster import as_summary
from fleet.model.placement import ClusterAffinityTerm
from fleet.model.taint import NO_SCHEDULE, repelling_taints
from fleet.model.validity import affinity_errors

ANNOTATION: Final = "policy.berthmaster.io/cluster-affinities"
REGION_LABEL: Final = "topology.kubernetes.io/region"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
DIVIDE: Final = "Divide"

_PATH: Final = f"metadata.annotations[{ANNOTATION}]"
_NO_SCHEDULE: Final = frozenset({NO_SCHEDULE})
_KEPT: Final = 256
_MAX_STEPS: Final = 4096
_Terms: Final[Any] = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Group:
    """A group of clusters.

    Attributes:
        name: the affinity's name.
        tiers: what it means itself, then what widens it, in order, where that does not hold the workload.
    """

    name: str
    tiers: tuple[AffinityTerm, ...]

    def tier(self, cluster: Cluster) -> int | None:
        """The first tier that means a cluster; None if the group does not."""
        return next((index for index, term in enumerate(self.tiers) if term.matches(cluster)), None)


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


def groups_of(annotations: Mapping[str, str]) -> tuple[Group, ...]:
    """The groups that an object asks for; none if it asks for none.

    Raises:
        FieldError: the annotation is no list of terms, names a group twice, has an unknown field, or a broken selector.
            The last two would mean other clusters than their author did: all, or none.
    """
    text = annotations.get(ANNOTATION)
    return () if text is None else _parsed(text)


def place_of(groups: Sequence[Group], cluster: Cluster) -> int | None:
    """How many tiers, of all groups in order, come before the first that means a cluster; None if none does."""
    before = 0
    for group in groups:
        tier = group.tier(cluster)
        if tier is not None:
            return before + tier
        before += len(group.tiers)
    return None


def located(member: Member) -> Cluster:
    """A cluster as groups see it, with region and zones as its labels say."""
    labels = member.metadata.labels
    zone = labels.get(ZONE_LABEL)
    return Cluster(
        member.metadata,
        spec=ClusterSpec(
            region=labels.get(REGION_LABEL, ""),
            zones=(zone,) if zone is not None else (),
            taints=member.spec.taints,
        ),
        status=ClusterStatus(resource_summary=as_summary(member.status.resources)),
    )


def room_of(unit: SchedulingUnit, cluster: Cluster, maximum: int | None) -> int:
    """How many replicas a cluster takes: what it runs already, and what fits its available resources, bounded.

    One with a NoSchedule taint that is not tolerated keeps what it runs; KubeAdmiral gives it no more.
    """
    summary = cluster.status.resource_summary
    fits = INT64_MAX
    for name, amount in requests_of(unit.resource_request):
        free = left_of(summary, name) if summary is not None else 0
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


@lru_cache(maxsize=_KEPT)
def _parsed(text: str) -> tuple[Group, ...]:
    try:
        raw = decode_json(_Terms, text)
        terms = convert(tuple[ClusterAffinityTerm, ...], raw)
        for index, (term, entry) in enumerate(zip(terms, raw, strict=True)):
            for error in _term_errors(term, entry):
                raise error.below(f"[{index}]")
    except FieldError as error:
        raise error.below(_PATH) from None
    names = [term.affinity_name for term in terms]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise FieldError(_PATH, f"{doubled!r} names two groups; accepted are distinct names")
    return tuple(
        Group(term.affinity_name, (AffinityTerm(term), *map(AffinityTerm, term.overflow_affinities or ())))
        for term in terms
    )


def _term_errors(term: ClusterAffinityTerm, raw: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from unknown_fields(ClusterAffinityTerm, raw)
    yield from affinity_errors(term)
    for index, overflow in enumerate(term.overflow_affinities or ()):
        for error in affinity_errors(overflow):
            yield error.below(f"overflowAffinities[{index}]")


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
    holding = {each.cluster.name for each in _holding(by_room, replicas, limit)}
    yield sorted(by_room, key=lambda each: each.cluster.name not in holding)


def _holding(by_room: Sequence[Ranked], replicas: int, limit: int) -> tuple[Ranked, ...]:
    """Clusters that hold all replicas, which are enough for their minima; none if a bounded search finds none.

    The roomiest are not always among them, for their minima may leave too little for others.
    """
    rooms = [0, *accumulate(each.room for each in by_room)]
    branches: list[tuple[int, tuple[Ranked, ...], int, int]] = [(0, (), replicas, 0)]
    for _ in range(_MAX_STEPS):
        if not branches:
            break
        place, chosen, left, held = branches.pop()
        if held >= replicas:
            return chosen
        reachable = rooms[min(len(by_room), place + limit - len(chosen))] - rooms[place]
        if held + reachable < replicas:
            continue
        each = by_room[place]
        branches.append((place + 1, chosen, left, held))
        if each.minimum <= left:
            branches.append((place + 1, (*chosen, each), left - each.minimum, held + each.room))
    return ()


def _within_minima(order: Sequence[Ranked], replicas: int, limit: int) -> dict[str, Ranked]:
    """The first clusters whose minima all replicas are enough for, by name."""
    chosen: dict[str, Ranked] = {}
    left = replicas
    for each in order:
        if len(chosen) < limit and each.minimum <= left:
            chosen[each.cluster.name] = each
            left -= each.minimum
    return chosen
