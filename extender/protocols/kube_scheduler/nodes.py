"""The nodes that a request is about, and on which step each of them stands.

*Known* nodes are those of the fleet that all requests share; a request names them. *Shown* nodes come with the request.
Both answer the same questions.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.placement import AffinityTerm, ClusterAffinity, Placement
from berthmaster.model.selector import LabelSelector, Requirement
from berthmaster.scheduling.columns import BoolArray, IntArray
from berthmaster.scheduling.compiled_placement import AffinityColumn
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import available_replicas
from berthmaster.scheduling.scheduler import Scheduler
from extender.protocols.kube_scheduler.grades import Merit
from extender.protocols.kube_scheduler.steps import NEVER, Climb, step_of, steps_of_rows, why_never

FOREIGN: Final = NEVER + 1
"""The step of a node that is no member cluster."""
UNKNOWN: Final = NEVER + 2
"""The step of a node that was named and is not known."""

WHY_FOREIGN: Final = ("Members", "not member clusters")
WHY_UNKNOWN: Final = ("Unknown", "not known yet")

_PLACEMENTS_KEPT: Final = 1024


class Stand(NamedTuple):
    """Where the nodes of a request stand: step by step in their order."""

    climb: Climb
    names: Sequence[str]
    steps: list[int]

    @property
    def best(self) -> int:
        """The first step that any of them stands on; at least ``NEVER`` if none does."""
        return min(self.steps, default=NEVER)


def members_of(selector: LabelSelector) -> AffinityTerm:
    """Which nodes are member clusters."""
    return AffinityTerm(ClusterAffinity(label_selector=selector))


class KnownNodes:
    """The nodes of a fleet that others keep up to date; to be asked only while nobody changes it."""

    def __init__(self, fleet: Fleet, profile: Profile, members: AffinityTerm) -> None:
        self.fleet = fleet
        self._scheduler = Scheduler(fleet, profile)
        self._members = AffinityColumn(fleet, members)
        self._reasons: dict[int, _Reasons] = {}

    def stand(self, request: Request, names: Sequence[str]) -> Stand:
        """Where the nodes of these names stand."""
        steps = _or_else(self._steps(request), UNKNOWN)
        return Stand(Climb.of(self._scheduler, request), names, steps[self._rows(names)].tolist())

    def why(self, stand: Stand, position: int) -> tuple[str, str]:
        """Why a node stands on no step: the filter's name and a reason."""
        name = stand.names[position]
        row = self.fleet.row_of[name]
        placement = stand.climb.placement.placement
        reasons = self._reasons.get(id(placement))
        if reasons is None or reasons.placement is not placement or reasons.version != self.fleet.structure.version:
            if len(self._reasons) >= _PLACEMENTS_KEPT:
                self._reasons.clear()
            reasons = self._reasons[id(placement)] = _Reasons(placement, self.fleet.structure.version, {})
        found = reasons.by_row.get(row)
        if found is None:
            cluster = self.fleet.clusters[row]
            found = why_never(stand.climb, cluster) if cluster is not None else WHY_UNKNOWN
            reasons.by_row[row] = found
        return found

    def before(self, request: Request, stand: Stand, step: int, node_selector: Mapping[str, str]) -> tuple[str, ...]:
        """The members that were not named, stand on an earlier step and could take the pod as far as is known.

        That is: they are large enough, and have the labels that the pod asks of its node. By their step, then by name.
        """
        steps = self._steps(request)
        steps[[row for name in stand.names if (row := self.fleet.row_of.get(name)) is not None]] = NEVER
        fitting = steps < min(step, NEVER)
        if not fitting.any():
            return ()
        fitting &= self.fleet.resources.estimate(request.requests).current() > 0
        for key, value in node_selector.items():
            fitting &= self.fleet.labels.matching(Requirement(key, "In", frozenset({value})), len(fitting))
        rows = fitting.nonzero()[0]
        return tuple(self.fleet.names(rows[np.lexsort((self.fleet.name_rank()[rows], steps[rows]))]))

    def merits(self, request: Request, stand: Stand) -> list[Merit]:
        """What speaks for each node."""
        fleet, climb = self.fleet, stand.climb
        rows = self._rows(stand.names)
        rooms = _or_else(fleet.resources.estimate(request.requests).current(), 0)[rows].tolist()
        weighing = climb.placement.weights
        weights = [0] * len(rows) if weighing is None else _or_else(weighing.current(), 0)[rows].tolist()
        scores = self._scores(climb, np.array(stand.steps, dtype=np.int64), rows).tolist()
        return list(map(Merit, stand.steps, scores, weights, rooms))

    @staticmethod
    def _scores(climb: Climb, steps: IntArray, rows: IntArray) -> IntArray:
        """What the score plugins give each row together; 0 where it stands on no step."""
        total = np.zeros(len(rows), dtype=np.int64)
        for step in np.unique(steps[steps < NEVER]).tolist():
            positions = (steps == step).nonzero()[0]
            context = climb.context_of(step)
            for plugin in climb.scores:
                scores = plugin.scores(context, rows[positions])
                if scores is not None:
                    total[positions] += scores
        return total

    def _rows(self, names: Sequence[str]) -> IntArray:
        """The rows of nodes by name, -1 for one that is not known; see ``_or_else``."""
        return np.array(list(map(self.fleet.row_of.get, names, repeat(-1))), dtype=np.int64)

    def _steps(self, request: Request) -> IntArray:
        steps = steps_of_rows(self._scheduler, request)
        foreign: BoolArray = ~self._members.current()
        steps[foreign] = FOREIGN
        return steps


class ShownNodes:
    """Nodes that came with a request, as the clusters they stand for."""

    def __init__(self, clusters: Sequence[Cluster], profile: Profile, members: AffinityTerm) -> None:
        self._clusters = clusters
        self._scheduler = Scheduler(Fleet(), profile)
        self._members = members

    def stand(self, request: Request) -> Stand:
        """Where they stand."""
        climb = Climb.of(self._scheduler, request)
        matches = self._members.matches
        steps = [step_of(climb, each) if matches(each) else FOREIGN for each in self._clusters]
        return Stand(climb, [cluster.name for cluster in self._clusters], steps)

    def why(self, stand: Stand, position: int) -> tuple[str, str]:
        """Why a node stands on no step: the filter's name and a reason."""
        return why_never(stand.climb, self._clusters[position])

    def merits(self, request: Request, stand: Stand) -> list[Merit]:
        """What speaks for each node."""
        weights, requests = stand.climb.placement.weights, request.requests or ()
        return [
            Merit(
                step,
                self._score(stand.climb, step, cluster) if step < NEVER else 0,
                0 if weights is None else weights.weight_of(cluster),
                available_replicas(cluster, requests),
            )
            for step, cluster in zip(stand.steps, self._clusters, strict=True)
        ]

    def _score(self, climb: Climb, step: int, cluster: Cluster) -> int:
        context = climb.context_of(step)
        return sum(plugin.score(context, cluster) for plugin in climb.scores)


class _Reasons(NamedTuple):
    """Why nodes stand on no step of a placement, remembered for as long as the fleet's structure stays."""

    placement: Placement
    version: int
    by_row: dict[int, tuple[str, str]]


def _or_else(column: IntArray, value: int) -> IntArray:
    """A column with one more row at its end, which is what row -1 reads."""
    return np.append(column, np.int64(value))
