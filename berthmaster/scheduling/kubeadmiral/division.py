"""Assignment: how many replicas each selected cluster gets, by the Spread or the Binpack planner."""

from collections.abc import Mapping

from berthmaster.model.cluster import NO_SCHEDULE
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters.taint_toleration import untolerated_counts
from berthmaster.scheduling.kubeadmiral import binpack, planner
from berthmaster.scheduling.kubeadmiral.planner import Limits, Share
from berthmaster.scheduling.kubeadmiral.request import unit_of
from berthmaster.scheduling.kubeadmiral.unit import ReplicasStrategy, SchedulingUnit
from berthmaster.scheduling.kubeadmiral.weights import division_weights


def assign(context: Context, selected: Candidates) -> dict[str, int]:
    """Replicas by cluster. In Divide mode clusters that get none are left out; otherwise no numbers are assigned: 0."""
    unit = unit_of(context)
    if not unit.divide:
        return dict.fromkeys(selected.names(), 0)
    if not len(selected) or unit.replicas <= 0:
        return {}
    current = context.request.current
    limits = Limits(
        {name: count for name, count in unit.estimated_capacity.items() if count >= 0}, unit.limited_capacity
    )
    shares = _shares(context, unit, selected)
    keeping = {"avoid_disruption": unit.avoid_disruption, "keep_unschedulable": unit.keep_unschedulable}
    if unit.strategy is ReplicasStrategy.BINPACK:
        planned = binpack.plan(unit.replicas, shares, current, unit.scheduled, limits, **keeping)
    else:
        planned = planner.plan(unit.replicas, shares, current, limits, unit.key, **keeping)
    names = [*planned.replicas, *(name for name in planned.overflow if name not in planned.replicas)]
    total = {name: planned.replicas.get(name, 0) + planned.overflow.get(name, 0) for name in names}
    return {name: count for name, count in total.items() if count}


def weights_of(context: Context, selected: Candidates) -> dict[str, int]:
    """The weight of each selected cluster by name; none in Binpack."""
    unit = unit_of(context)
    if not len(selected) or unit.strategy is ReplicasStrategy.BINPACK:
        return {}
    return division_weights(unit, context.fleet, selected)


def _shares(context: Context, unit: SchedulingUnit, selected: Candidates) -> list[Share]:
    weights = weights_of(context, selected)
    counts = untolerated_counts(context.fleet, unit.tolerations, frozenset({NO_SCHEDULE}))[selected.rows]
    return [
        _share(unit, name, weights.get(name, 0), context.request.current, repels=bool(count))
        for name, count in zip(selected.names(), counts.tolist(), strict=True)
    ]


def _share(unit: SchedulingUnit, name: str, weight: int, current: Mapping[str, int], *, repels: bool) -> Share:
    """A cluster's bounds; one with an untolerated NoSchedule taint may keep or lose replicas, not gain."""
    preference = unit.preference(name)
    maximum = preference.maximum
    if repels:
        held = current.get(name, 0)
        maximum = held if maximum is None else min(maximum, held)
    return Share(name, weight, preference.minimum, maximum)
