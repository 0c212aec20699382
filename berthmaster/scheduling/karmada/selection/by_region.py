"""Selection by a constraint on regions (karmada ``group_clusters.go``, ``select_clusters_by_region.go``)."""

import numpy as np

from berthmaster.model.placement import SpreadConstraint
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.karmada.plan import KarmadaPlan
from berthmaster.scheduling.karmada.selection.groups import MAX_COST, ClusterGroup, search_cost, select_groups
from berthmaster.scheduling.plan import Strategy
from berthmaster.scheduling.request import Request

_SCORE_UNIT = 1000
_UNCONSTRAINED = SpreadConstraint()


def select_by_region(plan: KarmadaPlan, request: Request, candidates: Candidates) -> Candidates | Failure:
    """The best regions, one cluster of each, then the best of their other clusters."""
    regions, clusters = plan.spread["region"], plan.spread.get("cluster", _UNCONSTRAINED)
    ordered = candidates.ordered()
    members = _by_region(ordered)
    if len(members) < regions.min_groups:
        return _failure(f"{len(members)} regions have clusters that fit, at least {regions.min_groups} are asked for")
    weigh = _RegionWeight(plan, request, ordered, regions, clusters)
    groups = [ClusterGroup(name, len(positions), weigh(positions)) for name, positions in members.items()]
    asked = max(1, regions.min_groups), regions.max_groups, clusters.min_groups
    if search_cost(groups, *asked) > MAX_COST:
        return _failure(
            f"the choice of {asked[0]} to {asked[1]} of {len(members)} regions with at least {asked[2]} clusters is "
            "beyond the bound of what is searched; lower maxGroups of the regions, or minGroups of the clusters"
        )
    chosen = select_groups(groups, *asked)
    if not chosen:
        bounds = f"{regions.min_groups} to {regions.max_groups}" if regions.max_groups else "no (maxGroups is not set)"
        return _failure(f"of {len(members)} regions no choice of {bounds} has {clusters.min_groups} clusters that fit")
    return ordered.at(_spread_over([members[group.name] for group in chosen], clusters.max_groups))


def _failure(message: str) -> Failure:
    return Failure(FailureKind.SELECT_FAILED, message)


def _by_region(ordered: Candidates) -> dict[str, list[int]]:
    """The positions of each region's clusters, in order."""
    members: dict[str, list[int]] = {}
    for position, region in enumerate(ordered.regions()):
        if region:
            members.setdefault(region, []).append(position)
    return members


def _spread_over(chosen: list[list[int]], max_clusters: int) -> np.ndarray:
    """One cluster of each region, even if that is more than ``max_clusters``, then the best others up to it."""
    first = [positions[0] for positions in chosen]
    others = sorted(position for positions in chosen for position in positions[1:])
    wanted = min(len(first) + len(others), max_clusters) - len(first)
    return np.array(first + others[: max(0, wanted)], dtype=np.int64)


class _RegionWeight:
    """How good a region is: mostly how much of the workload it holds, then how well its clusters score."""

    def __init__(
        self,
        plan: KarmadaPlan,
        request: Request,
        ordered: Candidates,
        regions: SpreadConstraint,
        clusters: SpreadConstraint,
    ) -> None:
        self._available: list[int] = ordered.available.tolist()
        self._scores: list[int] = [0] * len(ordered) if ordered.scores is None else ordered.scores.tolist()
        self._duplicated = plan.strategy is Strategy.DUPLICATED
        self._replicas = request.replicas
        region_count = max(1, regions.min_groups)
        self._share = -(-request.replicas // region_count)
        self._least_clusters = max(clusters.min_groups, regions.min_groups)

    def __call__(self, positions: list[int]) -> int:
        return self._of_duplicated(positions) if self._duplicated else self._of_divided(positions)

    def _of_duplicated(self, positions: list[int]) -> int:
        """The number of clusters that hold all replicas."""
        scores = [self._scores[each] for each in positions if self._available[each] >= self._replicas]
        return len(scores) * _SCORE_UNIT + sum(scores) // len(scores) if scores else 0

    def _of_divided(self, positions: list[int]) -> int:
        """The region's share of the replicas, or what it holds of it."""
        available = score = 0
        for count, position in enumerate(positions, start=1):
            available += self._available[position]
            score += self._scores[position]
            if count >= self._least_clusters and available >= self._share:
                return self._share * _SCORE_UNIT + score // count
        if available < self._share:
            return available * _SCORE_UNIT + score // len(positions)
        return self._share * _SCORE_UNIT + score // len(positions)
