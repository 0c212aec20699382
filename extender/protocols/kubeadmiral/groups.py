"""Ordered groups of clusters for KubeAdmiral.

KubeAdmiral has no groups. An object defines them in the annotation ``policy.berthmaster.io/cluster-affinities``, a JSON
list of Karmada's ClusterAffinityTerms. A FederatedCluster has no provider, region or zones: field selectors use the
labels ``topology.kubernetes.io/region`` and ``topology.kubernetes.io/zone`` instead.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from berthmaster.model.cluster import (
    NO_SCHEDULE,
    REGION_LABEL,
    ZONE_LABEL,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Toleration,
)
from berthmaster.model.decode import convert, decode_json, unknown_fields
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.kubeadmiral import (
    ClusterSelectorTerm,
    FederatedClusterResources,
    FederatedClusterSpec,
    as_summary,
)
from berthmaster.model.meta import INT64_MAX, Int64, ObjectMeta, Quantity, Value, with_spec
from berthmaster.model.policy import AffinityTerm, ClusterAffinityTerm, Placement
from berthmaster.model.validation import DEFAULT_LIMITS, PlacementLimits, affinity_errors, placement_excess
from berthmaster.scheduling.columns import AFFINITY_STEPS, CANDIDATE_STEPS, Work
from berthmaster.scheduling.fleet import AffinityColumn, Fleet
from berthmaster.scheduling.resources import Requests, free_amount


class PlacementPreferences(Value, frozen=True):
    """The limits and the weight of a cluster. KubeAdmiral never sends a priority."""

    min_replicas: Int64 = 0
    max_replicas: Int64 | None = None
    weight: Int64 | None = None


class ClusterPlacement(Value, frozen=True):
    """A cluster of the policy's placement list."""

    cluster: str
    preferences: PlacementPreferences = PlacementPreferences()


class PluginSchedulingUnit(Value, frozen=True):
    """The object to schedule. ``desired_replicas`` is set in mode Divide only. Lists are in random order."""

    api_version: str = ""
    kind: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    scheduling_mode: str = ""
    desired_replicas: Int64 | None = None
    resource_request: dict[str, Quantity] = {}
    current_clusters: tuple[str, ...] = ()
    current_replica_distribution: dict[str, Int64] = {}
    cluster_selector: dict[str, str] = {}
    cluster_affinity: tuple[ClusterSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    max_clusters: Int64 | None = None
    placements: tuple[ClusterPlacement, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class MemberStatus(Value, frozen=True):
    """The part of a cluster's status that groups use."""

    resources: FederatedClusterResources = FederatedClusterResources()


class Member(Value, frozen=True):
    """The part of a FederatedCluster that groups use. The hundreds of resource kinds are not decoded."""

    metadata: ObjectMeta
    spec: FederatedClusterSpec = FederatedClusterSpec()
    status: MemberStatus = MemberStatus()


class ClusterRequest(Value, frozen=True):
    """A filter or score request: one cluster."""

    scheduling_unit: PluginSchedulingUnit
    cluster: Member


class ClusterScore(Value, frozen=True):
    """A cluster with the sum of its scores."""

    cluster: Member
    score: Int64 = 0


class SelectRequest(Value, frozen=True):
    """A select request: all remaining clusters. The list is required: an absent list must not select nothing."""

    scheduling_unit: PluginSchedulingUnit
    cluster_scores: tuple[ClusterScore, ...]


class FilterResponse(Value, frozen=True, omit_defaults=False):
    """Whether the cluster may be selected. An error rejects it."""

    selected: bool
    error: str = ""


class ScoreResponse(Value, frozen=True, omit_defaults=False):
    """The score of the cluster. KubeAdmiral requires an integer literal, and scales the best score to 100."""

    score: int
    error: str = ""


class SelectResponse(Value, frozen=True, omit_defaults=False):
    """The selected clusters, the best first. An empty list places nothing; an error changes nothing."""

    selected_cluster_names: list[str]
    error: str = ""


ANNOTATION: Final = "policy.berthmaster.io/cluster-affinities"

_PATH: Final = f"metadata.annotations[{ANNOTATION}]"
_SMALL_LENGTH: Final = 8192
_SMALL_KEPT: Final = 256
_LARGE_KEPT: Final = 8
_MAX_LENGTH: Final = 256 * 1024  # Kubernetes' limit for all annotations of an object together
_FEW: Final = 16
_LIST: Final = "clusterAffinities"
_Terms: Final[Any] = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class AffinityGroup:
    """A group of clusters. ``tiers`` is the affinity itself, then its overflow affinities in order."""

    name: str
    tiers: tuple[AffinityTerm, ...]

    def tier(self, cluster: Cluster) -> int | None:
        return next((index for index, term in enumerate(self.tiers) if term.matches(cluster)), None)


def groups_of(annotations: Mapping[str, str], limits: PlacementLimits = DEFAULT_LIMITS) -> tuple[AffinityGroup, ...]:
    """Return the groups in the annotations of an object; empty without the annotation.

    Raises:
        FieldError: the annotation is not a list of terms, is larger than the limits, or has a duplicate name, an
            unknown field or an invalid selector. With the last two, a group could match all clusters, or none.
    """
    text = annotations.get(ANNOTATION)
    if text is None:
        return ()
    if len(text) > _MAX_LENGTH:
        raise FieldError(_PATH, f"has {len(text)} characters; accepted are at most {_MAX_LENGTH}")
    return _small(text, limits) if len(text) <= _SMALL_LENGTH else _large(text, limits)


def group_of(groups: Sequence[AffinityGroup], cluster: Cluster) -> tuple[int, str] | None:
    """Return the number of tiers before the first that matches a cluster, and its group; None if no tier matches."""
    before = 0
    for group in groups:
        tier = group.tier(cluster)
        if tier is not None:
            return before + tier, group.name
        before += len(group.tiers)
    return None


def tiers_by(
    groups: Sequence[AffinityGroup], clusters: Sequence[Cluster], work: Work
) -> Callable[[AffinityGroup], Sequence[int | None]]:
    """Return a function from a group to the tier of each cluster in it; None for a cluster that is not in the group.

    Few parts of groups, or few clusters, are compared one by one. Of many the columns of a fleet are faster.

    Args:
        work: counts the steps of each call. The function raises TooLargeError above its limit.
    """
    parts = sum(_parts(term) for group in groups for term in group.tiers)
    if len(clusters) <= _FEW or parts <= _FEW:
        return lambda group: [group.tier(cluster) for cluster in clusters]
    fleet = Fleet(clusters)
    rows = np.array([fleet.row_of[cluster.name] for cluster in clusters], dtype=np.int64)

    def tiers_of(group: AffinityGroup) -> Sequence[int | None]:
        found = np.full(len(rows), len(group.tiers), dtype=np.int64)
        for tier in range(len(group.tiers) - 1, -1, -1):
            column = AffinityColumn(fleet, group.tiers[tier])
            work.spend(AFFINITY_STEPS + column.steps(fleet.capacity) + CANDIDATE_STEPS * len(rows))
            found[column.compute()[rows]] = tier
        return [tier if tier < len(group.tiers) else None for tier in found.tolist()]

    return tiers_of


def _parts(term: AffinityTerm) -> int:
    """Return for how many parts of an affinity each cluster is compared one by one."""
    return 1 + len(term.labels) + len(term.fields) + len(term.zones)


def cluster_of(member: Member) -> Cluster:
    """Return a member as a cluster, with the region and zone of its labels."""
    return located(
        Cluster(
            member.metadata,
            spec=ClusterSpec(taints=member.spec.taints),
            status=ClusterStatus(resource_summary=as_summary(member.status.resources)),
        )
    )


def located(cluster: Cluster) -> Cluster:
    """Return a cluster with the region and zone of its labels."""
    labels = cluster.metadata.labels
    zone = labels.get(ZONE_LABEL)
    return with_spec(cluster, region=labels.get(REGION_LABEL, ""), zones=(zone,) if zone is not None else ())


def _parsed(text: str, limits: PlacementLimits) -> tuple[AffinityGroup, ...]:
    try:
        raw = decode_json(_Terms, text)
        terms = convert(tuple[ClusterAffinityTerm, ...], raw)
        for error in _excess(terms, limits):
            raise error
        for index, (term, entry) in enumerate(zip(terms, raw, strict=True)):
            for error in _term_errors(term, entry):
                raise error.below(f"[{index}]")
    except FieldError as error:
        raise error.below(_PATH) from None
    counts = Counter(term.affinity_name for term in terms)
    duplicate = next((name for name, count in counts.items() if count > 1), None)
    if duplicate is not None:
        raise FieldError(_PATH, f"{shown(duplicate)} names two groups; accepted are unique names")
    return tuple(
        AffinityGroup(term.affinity_name, (AffinityTerm(term), *map(AffinityTerm, term.overflow_affinities or ())))
        for term in terms
    )


def _excess(terms: tuple[ClusterAffinityTerm, ...], limits: PlacementLimits) -> Iterator[FieldError]:
    for error in placement_excess(Placement(cluster_affinities=terms), limits):
        yield FieldError(error.path.removeprefix(_LIST), error.problem)


def _term_errors(term: ClusterAffinityTerm, raw: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from unknown_fields(ClusterAffinityTerm, raw)
    yield from affinity_errors(term)
    for index, overflow in enumerate(term.overflow_affinities or ()):
        for error in affinity_errors(overflow):
            yield error.below(f"overflowAffinities[{index}]")


_small: Final = lru_cache(maxsize=_SMALL_KEPT)(_parsed)
_large: Final = lru_cache(maxsize=_LARGE_KEPT)(_parsed)
"""The requests of one scheduling attempt contain the same annotation. Number and length of cached texts are limited."""


DIVIDE: Final = "Divide"

NO_SCHEDULE_ONLY: Final = frozenset({NO_SCHEDULE})
_MAX_STEPS: Final = 2048


@dataclass(frozen=True, slots=True)
class CandidateCluster:
    """A cluster that select may choose.

    Attributes:
        capacity: the most replicas it can run, by its limits and its resources.
    """

    cluster: Cluster
    score: int
    min_replicas: int
    capacity: int


def capacity_of(
    unit: PluginSchedulingUnit, requests: Requests, cluster: Cluster, maximum: int | None, *, repelled: bool
) -> int:
    """Return how many replicas a cluster can run: its current replicas and those that fit its available resources.

    A cluster with a NoSchedule taint that is not tolerated keeps its current replicas. KubeAdmiral adds none.
    """
    summary = cluster.status.resource_summary
    fits = INT64_MAX
    for name, amount in requests:
        free = free_amount(summary, name) if summary is not None else 0
        fits = min(fits, max(0, free) // amount)
        if not fits:
            break  # a workload may request many resources that no cluster has
    running = _running(unit, cluster.name)
    fits = running if repelled else min(INT64_MAX, fits + running)
    return fits if maximum is None else min(fits, maximum)


def choose(unit: PluginSchedulingUnit, candidates: Sequence[CandidateCluster]) -> list[str] | str:
    """Return the clusters of a group that take the workload, the best first, or why they cannot.

    The clusters with the best scores come first. If these cannot run all replicas, the clusters with the largest
    capacity come first. A cluster without capacity, or with less capacity than its minimum, is not chosen.
    """
    if not candidates:
        return "none of its clusters is left"
    limit = len(candidates) if unit.max_clusters is None else unit.max_clusters
    by_score = sorted(candidates, key=lambda each: (-each.score, each.cluster.name))
    if unit.scheduling_mode != DIVIDE or not unit.desired_replicas or limit <= 0:
        return [each.cluster.name for each in by_score[: max(0, limit)]]
    usable = [each for each in by_score if each.capacity >= max(1, each.min_replicas)]
    most = 0
    for order in _orders(usable, unit.desired_replicas, limit):
        chosen = _within_minima(order, unit.desired_replicas, limit)
        capacity = sum(each.capacity for each in chosen.values())
        if capacity >= unit.desired_replicas:
            return [each.cluster.name for each in by_score if each.cluster.name in chosen]
        most = max(most, capacity)
    return f"{min(limit, len(usable))} of its clusters hold {most} of {unit.desired_replicas} replicas"


def _running(unit: PluginSchedulingUnit, name: str) -> int:
    """Return the replicas of a cluster. KubeAdmiral sends 0 for a cluster that has all replicas."""
    number = unit.current_replica_distribution.get(name)
    if number is None:
        return 0
    return number or unit.desired_replicas or 0


def _orders(usable: Sequence[CandidateCluster], replicas: int, limit: int) -> Iterator[Sequence[CandidateCluster]]:
    yield usable
    by_capacity = sorted(usable, key=lambda each: -each.capacity)
    yield by_capacity
    sufficient = _sufficient(by_capacity, replicas, limit)
    yield sorted(by_capacity, key=lambda each: each.cluster.name not in sufficient)


def _sufficient(by_capacity: Sequence[CandidateCluster], replicas: int, limit: int) -> set[str]:
    """Return the names of clusters that can run all replicas, with all their minima; empty if none are found.

    The clusters with the largest capacity may be wrong, if their minima leave too few replicas for others. The search
    is bounded.
    """
    totals = [0, *accumulate(each.capacity for each in by_capacity)]
    branches = [_Branch(0, 0, replicas, 0, None)]
    for _ in range(_MAX_STEPS):
        if not branches:
            break
        branch = branches.pop()
        if branch.capacity >= replicas:
            return branch.names()
        start, chosen, left, capacity, _ = branch
        reachable = totals[min(len(by_capacity), start + limit - chosen)] - totals[start]
        if capacity + reachable < replicas:
            continue
        each = by_capacity[start]
        branches.append(branch._replace(start=start + 1))
        if each.min_replicas <= left:
            taken = each.cluster.name, branch.taken
            branches.append(_Branch(start + 1, chosen + 1, left - each.min_replicas, capacity + each.capacity, taken))
    return set()


class _Branch(NamedTuple):
    """A part of the search: some chosen clusters.

    Attributes:
        taken: the last chosen cluster and, in the same form, those before it.
    """

    start: int
    chosen: int
    left: int
    capacity: int
    taken: tuple[str, Any] | None

    def names(self) -> set[str]:
        names, taken = set(), self.taken
        while taken is not None:
            name, taken = taken
            names.add(name)
        return names


def _within_minima(order: Sequence[CandidateCluster], replicas: int, limit: int) -> dict[str, CandidateCluster]:
    """Return the first clusters whose minima do not exceed the replicas, by name."""
    chosen: dict[str, CandidateCluster] = {}
    left = replicas
    for each in order:
        if len(chosen) < limit and each.min_replicas <= left:
            chosen[each.cluster.name] = each
            left -= each.min_replicas
    return chosen
