"""One scheduling of one object: filter, score, select, plan replicas."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.scheduling.decision import Failure, FailureKind
from extender.scheduling.kubeadmiral import binpack, planner
from extender.scheduling.kubeadmiral.filters import DEFAULT_FILTERS, FILTERS
from extender.scheduling.kubeadmiral.joined import is_joined
from extender.scheduling.kubeadmiral.planner import Limits, Share
from extender.scheduling.kubeadmiral.scores import DEFAULT_SCORES, SCORES
from extender.scheduling.kubeadmiral.selectors import DEFAULT_SELECTORS, SELECTORS, Scored
from extender.scheduling.kubeadmiral.terms import InvalidTermError
from extender.scheduling.kubeadmiral.unit import ReplicasStrategy, SchedulingUnit
from extender.scheduling.kubeadmiral.weights import division_weights
from fleet.errors import InputError
from fleet.model.cluster import Cluster
from fleet.model.taint import NO_SCHEDULE, tolerated


@dataclass(frozen=True, slots=True)
class PluginNames:
    """The plugins of each point, in order; without any select plugin every cluster that fits is selected."""

    filters: tuple[str, ...] = DEFAULT_FILTERS
    scores: tuple[str, ...] = DEFAULT_SCORES
    selectors: tuple[str, ...] = DEFAULT_SELECTORS


DEFAULT_PLUGINS = PluginNames()


@dataclass(frozen=True, slots=True)
class UnitDecision:
    """Where an object goes.

    Attributes:
        clusters: replicas by cluster; None where the mode assigns none.
        failure: why nothing was decided; None if something was.
        rejections: (plugin, reason) by cluster, for the clusters that no filter let pass.
        scores: by cluster and plugin, for the clusters that fit.
        weights: in Spread division, by cluster.
        sticky: nothing was decided anew.
    """

    clusters: Mapping[str, int | None]
    failure: Failure | None = None
    rejections: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    sticky: bool = False


def schedule(unit: SchedulingUnit, clusters: Iterable[Cluster], plugins: PluginNames = DEFAULT_PLUGINS) -> UnitDecision:
    """Decide where one object goes.

    Args:
        unit: the object.
        clusters: of the federation; those that did not join are not considered.
        plugins: that take part.
    """
    if unit.sticky and unit.current:
        return UnitDecision(dict(unit.current), sticky=True)
    joined = [cluster for cluster in clusters if is_joined(cluster)]
    rejections: dict[str, tuple[str, str]] = {}
    for cluster in joined:
        rejection = first_rejection(unit, cluster, plugins.filters)
        if rejection is not None:
            rejections[cluster.name] = rejection
    fitting = [cluster for cluster in joined if cluster.name not in rejections]
    if not fitting:
        return UnitDecision({}, Failure(FailureKind.NO_FIT, _no_fit(len(joined))), rejections)
    try:
        scores = score(unit, fitting, plugins.scores)
        selected = select(unit, [Scored(each, sum(scores[each.name].values())) for each in fitting], plugins.selectors)
    except (InputError, InvalidTermError) as error:
        return UnitDecision({}, Failure(FailureKind.SELECT_FAILED, str(error)), rejections)
    chosen = [each.cluster for each in selected]
    if not unit.divide:
        return UnitDecision({each.name: None for each in chosen}, None, rejections, scores)
    weights = division_weights(unit, chosen) if chosen and unit.strategy is ReplicasStrategy.SPREAD else {}
    return UnitDecision(plan_replicas(unit, chosen, weights), None, rejections, scores, weights)


def first_rejection(unit: SchedulingUnit, cluster: Cluster, names: Sequence[str]) -> tuple[str, str] | None:
    """The first filter that rules a cluster out, and why."""
    for name in names:
        reason = FILTERS[name](unit, cluster)
        if reason is not None:
            return name, reason
    return None


def score(unit: SchedulingUnit, clusters: Sequence[Cluster], names: Sequence[str]) -> dict[str, dict[str, int]]:
    """What each plugin gives each cluster, by cluster.

    Raises:
        InvalidTermError: a preferred term is invalid.
    """
    by_plugin = {name: SCORES[name](unit, clusters) for name in names}
    return {
        cluster.name: {name: given[place] for name, given in by_plugin.items()}
        for place, cluster in enumerate(clusters)
    }


def select(unit: SchedulingUnit, scored: list[Scored], names: Sequence[str]) -> list[Scored]:
    """What the select plugins leave.

    Raises:
        InputError: one of them refuses the unit.
    """
    for name in names:
        scored = SELECTORS[name](unit, scored)
    return scored


def plan_replicas(unit: SchedulingUnit, chosen: Sequence[Cluster], weights: Mapping[str, int]) -> dict[str, int | None]:
    """Replicas by cluster, in Divide mode; clusters that get none are left out."""
    if not chosen or unit.replicas <= 0:
        return {}
    current = {name: unit.replicas if count is None else count for name, count in unit.current.items()}
    limits = Limits(
        {name: count for name, count in unit.estimated_capacity.items() if count >= 0}, unit.limited_capacity
    )
    shares = [_share(unit, cluster, weights.get(cluster.name, 0), current) for cluster in chosen]
    keeping = {"avoid_disruption": unit.avoid_disruption, "keep_unschedulable": unit.keep_unschedulable}
    if unit.strategy is ReplicasStrategy.BINPACK:
        planned = binpack.plan(unit.replicas, shares, current, unit.scheduled, limits, **keeping)
    else:
        planned = planner.plan(unit.replicas, shares, current, limits, unit.key, **keeping)
    names = [*planned.replicas, *(name for name in planned.overflow if name not in planned.replicas)]
    total = {name: planned.replicas.get(name, 0) + planned.overflow.get(name, 0) for name in names}
    return {name: count for name, count in total.items() if count}


def _share(unit: SchedulingUnit, cluster: Cluster, weight: int, current: Mapping[str, int]) -> Share:
    """A cluster's bounds; one with an untolerated NoSchedule taint may keep or lose replicas, not gain."""
    preference = unit.preference(cluster.name)
    maximum = preference.maximum
    if _repels_more(unit, cluster):
        held = current.get(cluster.name, 0)
        maximum = held if maximum is None else min(maximum, held)
    return Share(cluster.name, weight, preference.minimum, maximum)


def _repels_more(unit: SchedulingUnit, cluster: Cluster) -> bool:
    return any(taint.effect == NO_SCHEDULE and not tolerated(taint, unit.tolerations) for taint in cluster.spec.taints)


def _no_fit(count: int) -> str:
    return f"none of {count} clusters fits" if count else "there are no joined clusters"
