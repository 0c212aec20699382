"""The nodes of a request, ranked by the groups of the pod's placement.

The *rank* of a node is the number of the first group that accepts it and, inside a group, the overflow tier: the own
clusters of a group come before its overflow. A lower rank is better. The rank depends on the node and the pod only. The
number of replicas and the spread over clusters do not matter for one pod.

A request names nodes of the shared fleet (``CachedNodes``) or contains nodes (``RequestNodes``). Both have the same
methods. ``rank_of`` defines the rank; ``ranks_of_rows`` computes it for all rows of a fleet.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from berthmaster.model.affinity import AffinityTerm, ClusterAffinity
from berthmaster.model.cluster import Cluster
from berthmaster.model.placement import Placement
from berthmaster.model.replicas import PodSpec
from berthmaster.model.selector import LabelSelector
from berthmaster.scheduling.columns import BoolArray, IntArray
from berthmaster.scheduling.compiled_placement import UNMATCHED_TIER, AffinityColumn, Group
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import ClusterAffinityFilter, Filter, Score, TaintTolerationFilter
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.selection import KarmadaPlacement
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import available_replicas
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.steps import CANDIDATE_STEPS, Work
from extender.protocols.kube_scheduler.selection import allowed_rows

REJECTED: Final = 2**62
"""The rank of a node that no group accepts."""
NOT_A_MEMBER: Final = REJECTED + 1
"""The rank of a node that is not a member cluster."""
UNKNOWN: Final = REJECTED + 2
"""The rank of a named node that is not in the fleet."""
WHY_UNKNOWN: Final = ("Unknown", "not known yet")
MEMBERS: Final = "Members"
"""The name under which metrics count nodes that are no member clusters."""
_TIERS: Final = UNMATCHED_TIER + 24
_NAMES_SHOWN: Final = 4
_MAX_REASONS: Final = 131_072
_MAX_REASON: Final = 300
_FEW: Final = 16
"""With more affinities and more nodes than this, the columns of a fleet rank nodes faster than one call for each."""
_AFFINITY: Final = ClusterAffinityFilter()
_PHRASES: Final[Mapping[str, str]] = {TaintTolerationFilter.name: "has an untolerated taint"}
"""The reasons of filters whose own reasons name values of a cluster."""


class PlacementGroups(NamedTuple):
    """The groups of a pod's placement on one scheduler, with a scheduling context for each."""

    filters: Sequence[Filter]
    scores: Sequence[Score]
    placement: KarmadaPlacement
    contexts: Sequence[Context]

    @classmethod
    def of(cls, scheduler: Scheduler, request: Request) -> "PlacementGroups":
        compiled = scheduler.compile(request.placement)
        if not isinstance(compiled, KarmadaPlacement):
            raise TypeError("pods need a profile of Karmada's")
        contexts = [Context(scheduler.fleet, request, compiled, group, scheduler.peers) for group in compiled.groups]
        return cls(scheduler.filters, scheduler.profile.plugins.scores, compiled, contexts)

    def context_of(self, rank: int) -> Context:
        return self.contexts[rank // _TIERS]

    def group_name(self, rank: int) -> str:
        """Return the name of a rank's group, with the overflow tier if there is one; empty without groups."""
        group, tier = self.context_of(rank).group, rank % _TIERS
        if group.name is None:
            return ""
        return f"{group.name}, overflow {tier}" if tier else group.name


class RankedNodes(NamedTuple):
    """The nodes of a request with their ranks, in the order of the request."""

    groups: PlacementGroups
    names: Sequence[str]
    ranks: list[int]

    @property
    def best(self) -> int:
        """The lowest rank; at least ``REJECTED`` if no group accepts any of the nodes."""
        return min(self.ranks, default=REJECTED)


class NodeScore(NamedTuple):
    """The figures that decide which node is better."""

    rank: int
    score: int
    weight: int
    available: int


def rank_of(groups: PlacementGroups, cluster: Cluster) -> int:
    """Return the rank of a cluster."""
    for index, context in enumerate(groups.contexts):
        if _first_rejection(groups.filters, context, cluster) is None:
            return index * _TIERS + _tier_of(context.group, cluster)
    return REJECTED


def ranks_of_rows(scheduler: Scheduler, request: Request, work: Work | None = None) -> IntArray:
    """Return the rank of each row of the fleet; ``REJECTED`` for free rows. Raises ``TooLargeError``."""
    work = work or Work()
    ranks = np.full(scheduler.fleet.capacity, REJECTED, dtype=np.int64)
    groups = scheduler.compile(request.placement).groups
    for index in range(len(groups) - 1, -1, -1):
        rows = scheduler.fitting(request, groups[index], work)
        work.spend(CANDIDATE_STEPS * len(rows) * (1 + len(groups[index].overflow or ())))
        tiers = groups[index].tiers(rows)
        ranks[rows] = index * _TIERS if tiers is None else index * _TIERS + tiers
    return ranks


def first_groups(groups: PlacementGroups, fleet: Fleet) -> IntArray:
    """Return for each row the number of the first group whose affinity matches; the number of groups if none does."""
    first = np.full(fleet.capacity, len(groups.contexts), dtype=np.int64)
    for index in range(len(groups.contexts) - 1, -1, -1):
        column = _AFFINITY.column(groups.contexts[index])
        first[slice(None) if column is None else column.current()] = index
    return first


def first_group_of(groups: PlacementGroups, cluster: Cluster) -> int:
    """Return the number of the first group whose affinity matches a cluster; the number of groups if none does."""
    matching = (i for i, context in enumerate(groups.contexts) if _AFFINITY.reason(context, cluster) is None)
    return next(matching, len(groups.contexts))


def rejection_of(groups: PlacementGroups, cluster: Cluster, first_group: int) -> tuple[str, str]:
    """Return why every group rejects a cluster: the filter's name, and a reason that continues a sentence.

    The filters of the first group whose affinity matches it say why, even if others reject it for another reason.
    kube-scheduler counts equal reasons and cuts the event of a pod at 1,024 characters. So a reason names no value of a
    node, as the reasons of kube-scheduler's own plugins.
    """
    total = len(groups.contexts)
    if not total:
        return ClusterAffinityFilter.name, "is in no cluster group"
    context = groups.contexts[first_group if first_group < total else 0]
    plugin, reason = _first_rejection(groups.filters, context, cluster) or ("", "may take the pod")
    if plugin != ClusterAffinityFilter.name:
        return plugin, _PHRASES.get(plugin, reason)[:_MAX_REASON]
    if total == 1:
        name = context.group.name
        return plugin, "does not match the cluster affinity" if name is None else f"is not in the cluster group {name}"
    names = [str(context.group.name) for context in groups.contexts[:_NAMES_SHOWN]]
    more = f" and {total - _NAMES_SHOWN} more" if total > _NAMES_SHOWN else ""
    return plugin, f"is in none of the cluster groups {', '.join(names)}{more}"[:_MAX_REASON]


def _first_rejection(filters: Sequence[Filter], context: Context, cluster: Cluster) -> tuple[str, str] | None:
    for plugin in filters:
        reason = plugin.reason(context, cluster)
        if reason is not None:
            return plugin.name, reason
    return None


def _tier_of(group: Group, cluster: Cluster) -> int:
    if not group.overflow or group.own is None or group.own.term.matches(cluster):
        return 0
    tiers = (index for index, column in enumerate(group.overflow, start=1) if column.term.matches(cluster))
    return next(tiers, UNMATCHED_TIER)


def members_of(selector: LabelSelector) -> AffinityTerm:
    """Return the term that matches the nodes that are member clusters."""
    return AffinityTerm(ClusterAffinity(label_selector=selector))


class CachedNodes:
    """The nodes of the shared fleet. The caller holds the lock of the fleet during each call."""

    def __init__(self, fleet: Fleet, profile: Profile, members: AffinityTerm) -> None:
        self.fleet = fleet
        self._scheduler = Scheduler(fleet, profile)
        self._members = AffinityColumn(fleet, members)
        self._reasons: dict[int, _Reasons] = {}
        self._reason_count = 0

    def ranked(self, request: Request, names: Sequence[str], work: Work | None = None) -> RankedNodes:
        groups = PlacementGroups.of(self._scheduler, request)
        ranks = _with_default(self._ranks(request, work), UNKNOWN)[self._rows(names)].tolist()
        return RankedNodes(groups, names, ranks)

    def rejection(self, nodes: RankedNodes, position: int) -> tuple[str, str]:
        row = self.fleet.row_of[nodes.names[position]]
        placement = nodes.groups.placement.placement
        reasons = self._reasons.get(id(placement))
        if reasons is None or reasons.placement is not placement or reasons.version != self.fleet.structure.version:
            first = first_groups(nodes.groups, self.fleet)
            reasons = self._reasons[id(placement)] = _Reasons(placement, self.fleet.structure.version, first, {})
        found = reasons.by_row.get(row)
        if found is None:
            cluster = self.fleet.clusters[row]
            first_group = int(reasons.first_groups[row])
            found = rejection_of(nodes.groups, cluster, first_group) if cluster is not None else WHY_UNKNOWN
            if self._reason_count >= _MAX_REASONS:
                self._reasons.clear()
                self._reason_count = 0
            reasons.by_row[row] = found
            self._reason_count += 1
        return found

    def better_than(
        self,
        request: Request,
        offered: RankedNodes,
        rank: int,
        spec: PodSpec,
        work: Work | None = None,
    ) -> tuple[str, ...]:
        """Return the member nodes that were not offered, have a lower rank and can probably take the pod.

        Such a node has enough available resources, and the spec of the pod allows it. The order is by rank, then by
        name.
        """
        ranks = self._ranks(request, work)
        ranks[[row for name in offered.names if (row := self.fleet.row_of.get(name)) is not None]] = REJECTED
        fitting = ranks < min(rank, REJECTED)
        if not fitting.any():
            return ()
        fitting &= self.fleet.resources.estimate(request.requests).current() > 0
        fitting &= allowed_rows(self.fleet, spec)
        rows = fitting.nonzero()[0]
        return tuple(self.fleet.names(rows[np.lexsort((self.fleet.name_rank()[rows], ranks[rows]))]))

    def scores(self, request: Request, nodes: RankedNodes) -> list[NodeScore]:
        fleet, groups = self.fleet, nodes.groups
        rows = self._rows(nodes.names)
        available = _with_default(fleet.resources.estimate(request.requests).current(), 0)[rows].tolist()
        column = groups.placement.weights
        weights = [0] * len(rows) if column is None else _with_default(column.current(), 0)[rows].tolist()
        totals = self._plugin_scores(groups, np.array(nodes.ranks, dtype=np.int64), rows).tolist()
        return list(map(NodeScore, nodes.ranks, totals, weights, available))

    @staticmethod
    def _plugin_scores(groups: PlacementGroups, ranks: IntArray, rows: IntArray) -> IntArray:
        """Return the sum of the score plugins for each row; 0 for rejected rows."""
        total = np.zeros(len(rows), dtype=np.int64)
        order = ranks.argsort(kind="stable")
        ends = (np.diff(ranks[order]) != 0).nonzero()[0] + 1
        for positions in np.split(order, ends) if len(order) else ():
            rank = int(ranks[positions[0]])
            if rank >= REJECTED:
                break
            context = groups.context_of(rank)
            for plugin in groups.scores:
                scores = plugin.scores(context, rows[positions])
                if scores is not None:
                    total[positions] += scores
        return total

    def _rows(self, names: Sequence[str]) -> IntArray:
        return np.array(list(map(self.fleet.row_of.get, names, repeat(-1))), dtype=np.int64)

    def _ranks(self, request: Request, work: Work | None) -> IntArray:
        ranks = ranks_of_rows(self._scheduler, request, work)
        foreign: BoolArray = ~self._members.current()
        ranks[foreign] = NOT_A_MEMBER
        return ranks


class RequestNodes:
    """The nodes that a request contains, as clusters."""

    def __init__(self, clusters: Sequence[Cluster], profile: Profile, members: AffinityTerm) -> None:
        self._clusters = clusters
        self._profile = profile
        self._scheduler = Scheduler(Fleet(), profile)
        self._members = members
        self._columns: CachedNodes | None = None

    def ranked(self, request: Request, work: Work | None = None) -> RankedNodes:
        groups = PlacementGroups.of(self._scheduler, request)
        if len(self._clusters) > _FEW and _affinity_count(groups) > _FEW:
            self._columns = CachedNodes(Fleet(self._clusters), self._profile, self._members)
            return self._columns.ranked(request, [cluster.name for cluster in self._clusters], work)
        matches = self._members.matches
        ranks = [rank_of(groups, each) if matches(each) else NOT_A_MEMBER for each in self._clusters]
        return RankedNodes(groups, [cluster.name for cluster in self._clusters], ranks)

    def rejection(self, nodes: RankedNodes, position: int) -> tuple[str, str]:
        if self._columns is not None:
            return self._columns.rejection(nodes, position)
        cluster = self._clusters[position]
        return rejection_of(nodes.groups, cluster, first_group_of(nodes.groups, cluster))

    def scores(self, request: Request, nodes: RankedNodes) -> list[NodeScore]:
        if self._columns is not None:
            return self._columns.scores(request, nodes)
        weights, requests, plugins = nodes.groups.placement.weights, request.requests or (), nodes.groups.scores
        return [
            NodeScore(
                rank,
                sum(each.score(nodes.groups.context_of(rank), cluster) for each in plugins) if rank < REJECTED else 0,
                0 if weights is None else weights.weight_of(cluster),
                available_replicas(cluster, requests),
            )
            for rank, cluster in zip(nodes.ranks, self._clusters, strict=True)
        ]


class _Reasons(NamedTuple):
    """Why every group of a placement rejects a node, by row. Valid while the structure of the fleet is the same."""

    placement: Placement
    version: int
    first_groups: IntArray
    by_row: dict[int, tuple[str, str]]


def _affinity_count(groups: PlacementGroups) -> int:
    weights = groups.placement.weights
    tiers = sum(1 + len(context.group.overflow or ()) for context in groups.contexts)
    return tiers + (0 if weights is None else len(weights))


def _with_default(column: IntArray, value: int) -> IntArray:
    """Append a row to a column, which row -1 reads."""
    return np.append(column, np.int64(value))
