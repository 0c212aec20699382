"""What a plugin can read: the context of one attempt. And the result of scheduling, as data.

The clusters that fit, with their scores and available replicas, in one order for all stages.

The order is: overflow order ascending, score descending, available replicas descending, name ascending. Karmada uses
all of it. KubeAdmiral's candidates have no overflow order and no available replicas. Most decisions need only the
first few clusters, so the order is computed only as far as a stage asks for it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import IntArray, Work
from berthmaster.scheduling.compiled_placement import CompiledPlacement, Group
from berthmaster.scheduling.fleet import MAX_CLUSTERS, Fleet
from berthmaster.scheduling.request import Request

_NAME_BITS: Final = (MAX_CLUSTERS - 1).bit_length()
_AVAILABLE_BITS: Final = 33  # the sum of two int32: available and assigned replicas
_MAX_KEY_SCORE: Final = 2 ** (62 - _NAME_BITS - _AVAILABLE_BITS) - 1
# Below this many clusters a whole sort costs less than finding the first ones.
_SORT_WHOLE_BELOW: Final = 64


class Candidates:
    """Some clusters, as parallel arrays.

    Candidates that ``at`` returned are in selection order. All others are in no particular order.

    Attributes:
        scores: the sum of all score plugins. None if all are 0.
        tiers: the overflow order. None if all are 0.
    """

    __slots__ = ("_fleet", "_picked", "allocatable", "assigned", "rows", "scores", "tiers")

    def __init__(
        self,
        fleet: Fleet,
        rows: IntArray,
        allocatable: IntArray,
        assigned: IntArray | None = None,
        scores: IntArray | None = None,
        tiers: IntArray | None = None,
    ) -> None:
        self._fleet = fleet
        self._picked = False
        self.rows = rows
        self.allocatable = allocatable
        self.assigned = assigned
        self.scores = scores
        self.tiers = tiers

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def available(self) -> IntArray:
        """Replicas that fit, including those that are already assigned."""
        return self.allocatable if self.assigned is None else self.allocatable + self.assigned

    def names(self) -> list[str]:
        return self._fleet.names(self.rows)

    def clusters(self) -> list[Cluster]:
        every = self._fleet.clusters
        return [cluster for row in self.rows.tolist() if (cluster := every[row]) is not None]

    def names_at(self, positions: IntArray) -> list[str]:
        return self._fleet.names(self.rows[positions])

    def name_rank(self) -> IntArray:
        """Return the ranks of the names in byte order."""
        return self._fleet.name_rank()[self.rows]

    def regions(self) -> list[str]:
        regions = self._fleet.regions.values
        return [regions[code] for code in self._fleet.region_code[self.rows].tolist()]

    def at(self, positions: IntArray) -> "Candidates":
        picked = Candidates(
            self._fleet,
            self.rows[positions],
            self.allocatable[positions],
            None if self.assigned is None else self.assigned[positions],
            None if self.scores is None else self.scores[positions],
            None if self.tiers is None else self.tiers[positions],
        )
        picked._picked = True
        return picked

    def ordered(self) -> "Candidates":
        """Return all candidates in selection order, or best first if none were picked yet."""
        return self if self._picked else self.at(self.best(len(self)))

    def positions(self) -> IntArray:
        """Return the positions of all candidates in the order of ``ordered``."""
        return np.arange(len(self)) if self._picked else self.best(len(self))

    def ordered_by(self, weights: IntArray) -> bool:
        """Return whether ``best`` orders by these weights first, largest first."""
        return weights is self.allocatable and not (
            self._picked or self.assigned is not None or self.scores is not None or self.tiers is not None
        )

    def with_scores(self, scores: IntArray) -> "Candidates":
        """Return the same candidates with other scores, in no particular order."""
        return Candidates(self._fleet, self.rows, self.allocatable, self.assigned, scores, self.tiers)

    def best(self, count: int) -> IntArray:
        """Return the positions of the first ``count`` candidates in the order, best first."""
        if self.tiers is not None or (self.scores is not None and _overflows(self.scores)):
            return self._lexical_order()[:count]
        # One distinct integer per cluster. A larger one is better.
        key = (self.available << _NAME_BITS) - self.name_rank()
        if self.scores is not None:
            key += self.scores << (_NAME_BITS + _AVAILABLE_BITS)
        return largest(key, count)

    def _lexical_order(self) -> IntArray:
        keys = [self.name_rank(), -self.available]
        if self.scores is not None:
            keys.append(-self.scores)
        if self.tiers is not None:
            keys.append(self.tiers)
        return np.lexsort(keys)


def _overflows(scores: IntArray) -> bool:
    """Return whether a score is too large for a key, or negative, which is large when read without a sign."""
    return bool(scores.view(np.uint64).max(initial=0) > _MAX_KEY_SCORE)


def largest(keys: IntArray, count: int) -> IntArray:
    """Return the positions of the ``count`` largest of some distinct keys, largest first."""
    if count < 1:
        return np.zeros(0, dtype=np.int64)
    if len(keys) <= _SORT_WHOLE_BELOW or 4 * count >= len(keys):
        return keys.argsort()[: -count - 1 : -1]
    top = keys.argpartition(-count)[-count:]
    return top[keys[top].argsort()[::-1]]


AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"


class Peers:
    """The clusters of the workloads in each workload affinity group."""

    def __init__(self) -> None:
        self._clusters: dict[tuple[str, str, str], dict[str, frozenset[str]]] = {}
        self._counts: dict[tuple[str, str, str], Counter[str]] = {}
        self._groups_of: dict[tuple[str, str], list[tuple[str, str, str]]] = {}

    def place(self, request: Request, clusters: Iterable[str]) -> None:
        """Replace the recorded clusters of a workload. Without clusters, remove the workload."""
        self.remove(request.namespace, request.name)
        assigned = frozenset(clusters)
        if not assigned:
            return
        for kind, group in ((AFFINITY, request.affinity_group), (ANTI_AFFINITY, request.anti_affinity_group)):
            if group:
                key = kind, request.namespace, group
                self._clusters.setdefault(key, {})[request.name] = assigned
                self._counts.setdefault(key, Counter()).update(assigned)
                self._groups_of.setdefault((request.namespace, request.name), []).append(key)

    def of(self, kind: str, namespace: str, group: str, *, except_for: str) -> Mapping[str, frozenset[str]]:
        """Return the clusters of each scheduled workload of a group, by the name of its binding."""
        members = self._clusters.get((kind, namespace, group), {})
        return {name: clusters for name, clusters in members.items() if name != except_for}

    def counts(self, kind: str, namespace: str, group: str, *, except_for: str) -> tuple[int, Mapping[str, int]]:
        """Return how many scheduled workloads a group has, and how many of them each cluster has.

        The time depends on the number of clusters, and not on the number of workloads.
        """
        key = kind, namespace, group
        members, counts = self._clusters.get(key, {}), self._counts.get(key, Counter())
        own = members.get(except_for)
        return (len(members), counts) if own is None else (len(members) - 1, counts - Counter(own))

    def remove(self, namespace: str, name: str) -> None:
        for key in self._groups_of.pop((namespace, name), ()):
            members, counts = self._clusters[key], self._counts[key]
            for cluster in members.pop(name):
                counts[cluster] -= 1
                if not counts[cluster]:
                    del counts[cluster]
            if not members:
                del self._clusters[key], self._counts[key]


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt: a request, and the group of clusters that is being tried.

    Attributes:
        work: counts the steps of the decision. A stage adds steps that grow faster than the number of clusters.
    """

    fleet: Fleet
    request: Request
    compiled: CompiledPlacement
    group: Group
    peers: Peers
    work: Work = field(default_factory=Work)


class FailureKind(Enum):
    """The stage at which a group failed, under the name that the batch interface shows."""

    NO_FIT = "NoFit"
    """No cluster passed the filters. Karmada then removes the current assignment."""
    SELECT_FAILED = "SelectFailed"
    """The spread constraints cannot be satisfied. The current assignment stays."""
    INSUFFICIENT = "Insufficient"
    """The selected clusters do not hold all replicas. The current assignment stays, and scheduling is retried."""
    TOO_LARGE = "TooLarge"
    """The placement exceeds a limit. The current assignment stays, and only a change of the input helps."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a group failed, or why there is no assignment."""

    kind: FailureKind
    message: str

    def __str__(self) -> str:
        return self.message


class Mode(Enum):
    """How a decision treats replicas that are already assigned."""

    STEADY = "Steady"
    """They stay. Only the difference is added or removed."""
    FRESH = "Fresh"
    """All replicas are assigned again, because the request asks for a rescheduling."""


@dataclass(slots=True)
class Attempt:
    """One group that was tried, with what a diagnosis needs.

    Attributes:
        rows: the rows of the clusters that passed the filters.
        candidates: the same clusters with scores and available replicas. None if scoring was not reached or failed.
        assignment: replicas by cluster. None if assignment was not reached or failed.
    """

    group: Group
    rows: IntArray
    candidates: Candidates | None = None
    selected: Candidates | None = None
    assignment: dict[str, int] | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a workload goes.

    Attributes:
        group: the name of the group that won. None without groups, or if all groups failed.
        assignment: replicas by cluster, 0 for a workload without replicas. Empty if all groups failed.
        failure: the failure of the first group that was tried. None if a group won.
        mode: how replicas that were already assigned were treated.
    """

    group: str | None
    assignment: dict[str, int]
    failure: Failure | None
    mode: Mode
    attempts: list[Attempt] = field(default_factory=list)

    def release(self) -> None:
        """Drop the candidates of all attempts, which can be all clusters. No diagnosis is possible afterwards."""
        for each in self.attempts:
            each.candidates = each.selected = None

    @property
    def clears_assignment(self) -> bool:
        """Return whether the current assignment must be removed although there is no new one."""
        return self.failure is not None and self.failure.kind is FailureKind.NO_FIT
