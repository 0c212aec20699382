"""Filter and score plugins: which clusters a workload may go to, and which of them are better.

The base classes, and the filters that profiles share. The scheduler adds the scores of all plugins, without weights, in
Karmada as in KubeAdmiral. A score is an integer from 0 to 100.

``reason`` defines a filter: it says why one cluster is rejected, or returns None. ``prune`` gives the same answer for
many clusters at once. ``remedies`` says what would let a rejected cluster pass.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

import numpy as np

from berthmaster.model.affinity import AffinityTerm, zones_match
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import PluginError
from berthmaster.model.placement import Placement
from berthmaster.model.selector import Requirement
from berthmaster.model.taint import REPELLING_EFFECTS, Taint, Toleration, repelling_taints
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.compiled_placement import AffinityColumn
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filter_remedies import (
    EvictionRemedy,
    ExclusionRemedy,
    FieldSelectorRemedy,
    FilterRemedy,
    LabelRemedy,
    NameRemedy,
    ServedKindRemedy,
    TaintRemedy,
)
from berthmaster.scheduling.fleet import ClusterColumn, Fleet

_SET_STEPS: Final = 10
_TOLERATION_STEPS: Final = 20
NO_EFFECTS: frozenset[str] = frozenset()
MIN_SCORE: Final = 0
MAX_SCORE: Final = 100


class Filter(ABC):
    """A filter plugin.

    Attributes:
        phrase: what follows the number of clusters that it rejects. Karmada's plugins use the words of
            karmada-scheduler, so that alerts which match them keep working.
        exempts_current: clusters that already have the workload pass.
    """

    name: str
    phrase: str = "cluster(s) are rejected"
    exempts_current: bool = False

    def __init__(self, name: str = "") -> None:
        """Make the filter, under another name than that of its class if one is given."""
        if name:
            self.name = name

    def phrase_of(self, _placement: Placement) -> str:
        """Return the phrase for a placement, if it depends on what the placement asks for."""
        return self.phrase

    @abstractmethod
    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """Say why the workload may not go to a cluster, or return None if it may.

        Returns the end of a sentence that starts with the name of the cluster.
        """

    def remedies(self, context: Context, cluster: Cluster) -> Sequence[FilterRemedy]:  # noqa: ARG002 - for subclasses
        """Return what lets a cluster pass that this filter rejects; all of it is needed.

        Returns an empty sequence if no small change does.
        """
        return ()

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        """Return those of the given rows whose clusters pass, in the same order. Called in every decision."""
        exempt = context.request.current if self.exempts_current else {}
        clusters = map(context.fleet.clusters.__getitem__, rows.tolist())
        passing = [
            each is not None and (each.name in exempt or self.reason(context, each) is None) for each in clusters
        ]
        return rows[np.array(passing, dtype=np.bool_)]


class PlacementFilter(Filter):
    """A filter that answers with columns, which the scheduler keeps as long as the placement is in use.

    Of the workload it reads only the placement, the kind, the current clusters and whether it has replicas.
    """

    @abstractmethod
    def column(self, context: Context) -> Column[np.bool_] | None:
        """Return the rows that pass, or None if all pass. One column serves many requests like ``context.request``.

        The journal of the column says when it is updated. ``context.fleet.structure`` covers everything about a
        cluster except its resource numbers. ``context.fleet.resources.journal`` covers these.
        """

    def staying(self, context: Context, column: Column[np.bool_] | None) -> Column[np.bool_] | None:  # noqa: ARG002 - for subclasses
        """Return the rows that pass if they already have the workload, or None if all pass.

        Every row that passes ``column`` must pass here, too.
        """
        return None if self.exempts_current else column

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        column, current = self.column(context), context.request.current
        if column is None:
            return rows
        passing = column.current()[rows]
        if current:
            staying = self.staying(context, column)
            stays = context.fleet.holds(current)[rows]
            passing = passing | (stays if staying is None else stays & staying.current()[rows])
        return rows[passing]


class KindColumn(Column[np.bool_]):
    """Which rows serve a kind."""

    __slots__ = ("_fleet", "_kind")

    def __init__(self, fleet: Fleet, kind: tuple[str, str]) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._kind = kind

    def compute(self) -> BoolArray:
        served = np.array([self._kind in kinds for kinds in self._fleet.kinds.values], dtype=np.bool_)
        return served[self._fleet.kinds_code]

    def steps(self, rows: int) -> int:
        return super().steps(rows) + _SET_STEPS * len(self._fleet.kinds.values)

    def compute_row(self, row: int) -> bool:
        return self._kind in self._fleet.kinds.values[self._fleet.kinds_code[row]]


class APIEnablementFilter(PlacementFilter):
    """Require that the cluster serves the kind of the workload.

    A kind that the cluster does not report is not served, even if its list is known to be incomplete. Karmada exempts
    clusters that have the workload. KubeAdmiral, where this plugin is called APIResources, does not.
    """

    name = "APIEnablement"
    phrase = "cluster(s) did not have the API resource"

    def __init__(self, name: str = "", *, exempts_current: bool = True) -> None:
        super().__init__(name)
        self.exempts_current = exempts_current

    def column(self, context: Context) -> Column[np.bool_]:
        kind = (context.request.api_version, context.request.kind)
        return context.compiled.shared(kind, lambda: KindColumn(context.fleet, kind))

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        kind = (context.request.api_version, context.request.kind)
        return None if kind in cluster.enabled_kinds() else f"does not serve {kind[0]} {kind[1]}"

    def remedies(self, context: Context, cluster: Cluster) -> Sequence[FilterRemedy]:  # noqa: ARG002 - a filter's signature
        return (ServedKindRemedy(context.request.api_version, context.request.kind),)


class AnyAffinityColumn(Column[np.bool_]):
    """Which rows match at least one of several affinities."""

    __slots__ = ("_columns",)

    def __init__(self, columns: list[AffinityColumn]) -> None:
        super().__init__(columns[0].journal)
        self._columns = columns

    def compute(self) -> BoolArray:
        return reduce(np.logical_or, [column.current() for column in self._columns])

    def steps(self, rows: int) -> int:
        return super().steps(rows) + sum(column.steps(rows) for column in self._columns)

    def compute_row(self, row: int) -> bool:
        return any(column.current()[row] for column in self._columns)


class ClusterAffinityFilter(PlacementFilter):
    """Require a match of the group's own affinity or, for workloads with replicas, of an overflow affinity.

    KubeAdmiral uses it for the list of clusters of a policy, under the name PlacementFilter.
    """

    name = "ClusterAffinity"
    phrase = "cluster(s) did not match the placement cluster affinity constraint"

    def column(self, context: Context) -> Column[np.bool_] | None:
        columns = _affinity_columns(context)
        return AnyAffinityColumn(columns) if len(columns) > 1 else next(iter(columns), None)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        found = [column.term.mismatch(cluster) for column in _affinity_columns(context)]
        return found[0] if found and None not in found else None

    def remedies(self, context: Context, cluster: Cluster) -> Sequence[FilterRemedy]:
        own = context.group.own
        return () if own is None else _affinity_remedies(own.term, cluster)


def _affinity_remedies(term: AffinityTerm, cluster: Cluster) -> Sequence[FilterRemedy]:
    """Return what makes a cluster match an affinity; nothing if a selector is invalid, or if no label satisfies it."""
    if term.invalid:
        return ()
    remedies: list[FilterRemedy] = []
    if cluster.name in term.excluded:
        remedies.append(ExclusionRemedy())
    if term.names and cluster.name not in term.names:
        remedies.append(NameRemedy())
    labels = cluster.metadata.labels
    for key in dict.fromkeys(each.key for each in term.labels if not each.matches(labels)):
        asked = [each for each in term.labels if each.key == key]
        accepted = (each for each in _label_values(asked) if _accepts(asked, key, each))
        label = next((LabelRemedy(key, each) for each in accepted), None)
        if label is None:
            return ()
        remedies.append(label)
    fields = cluster.fields()
    if not all(each.matches(fields) for each in term.fields) or not all(
        zones_match(each, cluster.spec.zones) for each in term.zones
    ):
        remedies.append(FieldSelectorRemedy())
    return remedies


def _accepts(requirements: Sequence[Requirement], key: str, value: str | None) -> bool:
    return all(each.matches({} if value is None else {key: value}) for each in requirements)


def _label_values(requirements: Sequence[Requirement]) -> Iterator[str | None]:
    """Yield values of a label that can satisfy requirements on it; None for no label."""
    for each in requirements:
        if each.operator == "In":
            yield from sorted(each.values)
    yield from ("", None)


def _affinity_columns(context: Context) -> list[AffinityColumn]:
    group = context.group
    if group.own is None:
        return []
    return [group.own, *((group.overflow or ()) if context.request.is_workload else ())]


class ClusterEvictionFilter(Filter):
    """Reject clusters that the workload is being evicted from.

    In Karmada graceful eviction tasks name them. In KubeAdmiral custom migration names them, and the plugin is called
    ClusterEvicted.
    """

    name = "ClusterEviction"
    phrase = "cluster(s) is in the process of eviction"

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        evicted = context.request.evicted_from
        if not evicted:
            return rows
        return rows[~context.fleet.holds(evicted)[rows]]

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        return "is evicting this workload" if cluster.name in context.request.evicted_from else None

    def remedies(self, context: Context, cluster: Cluster) -> Sequence[FilterRemedy]:  # noqa: ARG002 - a filter's signature
        return (EvictionRemedy(),)


class ClusterTerminatingFilter(PlacementFilter):
    """Reject clusters that are being deleted, even if they have the workload.

    In KubeAdmiral this is a plugin. Karmada skips such clusters before any plugin.
    """

    name = "ClusterTerminating"
    phrase = "cluster(s) are being deleted"

    def column(self, context: Context) -> ClusterColumn[np.bool_]:
        return context.fleet.column("schedulable", lambda cluster: not cluster.deleting, np.False_)

    def reason(self, context: Context, cluster: Cluster) -> str | None:  # noqa: ARG002 - a filter's signature
        return "is being deleted" if cluster.deleting else None


def untolerated_counts(fleet: Fleet, tolerations: tuple[Toleration, ...], effects: frozenset[str]) -> IntArray | None:
    """Return how many untolerated taints with these effects each row has, or None if no cluster has any."""
    counts = [len(repelling_taints(taints, tolerations, effects)) for taints in fleet.taints.values]
    return np.array(counts, dtype=np.int64)[fleet.taint_code] if any(counts) else None


class TolerationColumn(Column[np.bool_]):
    """Which rows have no untolerated taint with one of the given effects."""

    __slots__ = ("_effects", "_fleet", "_tolerations")

    def __init__(
        self, fleet: Fleet, tolerations: tuple[Toleration, ...], effects: frozenset[str] = REPELLING_EFFECTS
    ) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._tolerations = tolerations
        self._effects = effects

    def compute(self) -> BoolArray:
        counts = untolerated_counts(self._fleet, self._tolerations, self._effects)
        return np.ones(self._fleet.capacity, dtype=np.bool_) if counts is None else counts == 0

    def steps(self, rows: int) -> int:
        taints = sum(map(len, self._fleet.taints.values))
        return super().steps(rows) + _TOLERATION_STEPS * taints * (1 + len(self._tolerations))

    def compute_row(self, row: int) -> bool:
        taints = self._fleet.taints.values[self._fleet.taint_code[row]]
        return not repelling_taints(taints, self._tolerations, self._effects)


class TaintTolerationFilter(PlacementFilter):
    """Reject clusters with untolerated NoSchedule or NoExecute taints.

    ``evicting_effects``: the effects that also reject clusters that have the workload. Karmada has none, because other
    controllers evict workloads there. KubeAdmiral has NoExecute.
    """

    name = "TaintToleration"
    phrase = "cluster(s) had untolerated taint"

    def __init__(self, evicting_effects: frozenset[str] = NO_EFFECTS) -> None:
        super().__init__()
        self.exempts_current = not evicting_effects
        self._evicting_effects = evicting_effects

    def column(self, context: Context) -> Column[np.bool_]:
        return self._column(context, REPELLING_EFFECTS)

    def staying(self, context: Context, column: Column[np.bool_] | None) -> Column[np.bool_] | None:
        if self.exempts_current:
            return super().staying(context, column)
        return self._column(context, self._evicting_effects)

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        taints = self._repelling(context, cluster)
        return f"has untolerated taint {', '.join(map(str, taints))}" if taints else None

    def remedies(self, context: Context, cluster: Cluster) -> Sequence[FilterRemedy]:
        return [TaintRemedy(each) for each in self._repelling(context, cluster)]

    def _repelling(self, context: Context, cluster: Cluster) -> list[Taint]:
        stays = self._evicting_effects and cluster.name in context.request.current
        effects = self._evicting_effects if stays else REPELLING_EFFECTS
        return repelling_taints(cluster.spec.taints, context.compiled.placement.cluster_tolerations, effects)

    @staticmethod
    def _column(context: Context, effects: frozenset[str]) -> Column[np.bool_]:
        fleet, tolerations = context.fleet, context.compiled.placement.cluster_tolerations
        return context.compiled.shared(effects, lambda: TolerationColumn(fleet, tolerations, effects))


class UnscorableError(Exception):
    """The policy asks for something that cannot be scored on any cluster. The group fails."""


class Score(ABC):
    """A score plugin."""

    name: str

    @abstractmethod
    def score(self, context: Context, cluster: Cluster) -> int:
        """Return how good a cluster is for the workload, 0 to 100."""

    def scores(self, context: Context, rows: IntArray) -> IntArray | None:
        """Return the scores of the given rows in their order, or None if all are 0. The rows are all that fit.

        Raises:
            PluginError: a score is not an integer from 0 to 100.
            UnscorableError: the policy cannot be scored.
        """
        clusters = context.fleet.clusters
        found = [self.score(context, cluster) for row in rows.tolist() if (cluster := clusters[row]) is not None]
        bad = [each for each in found if not isinstance(each, int) or not MIN_SCORE <= each <= MAX_SCORE]
        if bad:
            raise PluginError(
                f"score plugin {self.name} gave {bad[0]!r}; scores are integers from {MIN_SCORE} to {MAX_SCORE}"
            )
        return np.array(found, dtype=np.int64)


class ColumnScore(Score):
    """A score that is computed for all clusters at once, from the columns of the fleet."""

    @abstractmethod
    def scores(self, context: Context, rows: IntArray) -> IntArray | None: ...

    def score(self, context: Context, cluster: Cluster) -> int:
        """Return how good a cluster of the fleet would be if no other one fitted."""
        scores = self.scores(context, np.array([context.fleet.row_of[cluster.name]]))
        return 0 if scores is None else int(scores[0])


class RelativeScore(ColumnScore):
    """A score that compares clusters: ``counts`` counts something, ``normalised`` scales it over all that fit."""

    @abstractmethod
    def counts(self, context: Context, rows: IntArray) -> IntArray:
        """Return what is counted, for each row."""

    @abstractmethod
    def normalised(self, counts: IntArray) -> IntArray:
        """Return the scores for the counts of all clusters that fit. There is at least one."""

    def scores(self, context: Context, rows: IntArray) -> IntArray:
        return self.normalised(self.counts(context, rows))


class ClusterLocalityScore(Score):
    """Prefer clusters that have the workload, even with 0 replicas. KubeAdmiral has no such plugin."""

    name = "ClusterLocality"

    def score(self, context: Context, cluster: Cluster) -> int:
        return MAX_SCORE if cluster.name in context.request.current else 0

    def scores(self, context: Context, rows: IntArray) -> IntArray | None:
        current = context.request.current
        if not current:
            return None
        return context.fleet.holds(current)[rows] * np.int64(MAX_SCORE)
