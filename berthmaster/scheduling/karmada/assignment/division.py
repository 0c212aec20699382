"""Dividing replicas over clusters: by static weight, by available replicas, or aggregated on few clusters."""

from typing import NamedTuple

import numpy as np

from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.karmada.assignment.go_sort import order_by_weight
from berthmaster.scheduling.karmada.assignment.webster import allocate, breaks_ties_descending
from berthmaster.scheduling.karmada.plan import KarmadaPlan
from berthmaster.scheduling.plan import Strategy
from berthmaster.scheduling.request import Request

_STABLE_UP_TO = 12
"""So many weights Go sorts stably; see ``go_sort``."""
_FEW_CLUSTERS = 16


def divide(plan: KarmadaPlan, request: Request, selected: Candidates, replicas: int) -> dict[str, int] | Failure:
    """Replicas by cluster; clusters that get none are left out.

    Args:
        plan: says how to divide.
        request: the workload.
        selected: the clusters to divide over, in the order of selection.
        replicas: how many replicas to place on them.
    """
    match plan.strategy:
        case Strategy.DUPLICATED:
            return dict.fromkeys(selected.names(), replicas) if replicas else {}
        case Strategy.STATIC_WEIGHT:
            return _without_none(selected, _by_weight(request, selected, static_weights(plan, selected), replicas))
        case Strategy.DYNAMIC_WEIGHT | Strategy.AGGREGATED:
            return _by_capacity(plan.strategy, request, selected, replicas)
        case _:
            return Failure(
                FailureKind.INSUFFICIENT,
                "replicaScheduling names no strategy: replicaSchedulingType must be Duplicated or Divided, and "
                "replicaDivisionPreference of the latter Aggregated or Weighted",
            )


def static_weights(plan: KarmadaPlan, selected: Candidates) -> IntArray:
    """The weight of each selected cluster; clusters without one get none unless all are without."""
    if plan.weights is not None:
        weights = plan.weights.current()[selected.rows]
        if weights.any():
            return weights
    return np.ones(len(selected), dtype=np.int64)


class Load(NamedTuple):
    """What is divided by capacity, over what.

    Attributes:
        clusters: to divide over.
        weights: of each of them, which are also limits for their sum.
        replicas: to place; none if what is assigned stays as it is.
        base: replicas that stay where they are; None for none.
    """

    clusters: Candidates
    weights: IntArray
    replicas: int
    base: IntArray | None


def load_of(request: Request, selected: Candidates, replicas: int) -> Load:
    """What dynamic weight and aggregated divide: everything in fresh mode, else only the difference."""
    if request.fresh:
        # Karmada adds the two in int32: with no replicas wanted every cluster holds MaxInt32, and what is assigned
        # makes that overflow, so that the group is left. For any other number of replicas the sum is small.
        return Load(selected, selected.available.astype(np.int32), replicas, None)
    kept = selected.assigned
    assigned = 0 if kept is None else int(kept.sum())
    if kept is None or assigned <= replicas:
        return Load(selected, selected.allocatable, replicas - assigned, kept)
    # Scaling down goes by how many each cluster has, in the order in which the binding lists them.
    position_of = {name: position for position, name in enumerate(selected.names())}
    positions = np.array([position_of[name] for name in request.current if name in position_of], dtype=np.int64)
    return Load(selected.at(positions), kept[positions], replicas, None)


def _by_capacity(strategy: Strategy, request: Request, selected: Candidates, replicas: int) -> dict[str, int] | Failure:
    """Dynamic weight and aggregated: only as many as fit, and in steady mode what is assigned stays where it is."""
    clusters, weights, missing, base = load_of(request, selected, replicas)
    if base is not None and not missing:
        return _without_none(clusters, base)
    room = int(weights.sum())
    if room < missing:
        message = f"{missing} replicas are to be placed, the {len(clusters)} selected clusters hold {room}"
        return Failure(FailureKind.INSUFFICIENT, message)
    if strategy is Strategy.AGGREGATED:
        fewest = _fewest_that_hold(clusters, weights, missing, base)
        seats = np.zeros(len(clusters), dtype=np.int64)
        seats[fewest] = _by_weight(request, clusters.at(fewest), weights[fewest], missing)
    else:
        seats = _by_weight(request, clusters, weights, missing)
    return _without_none(clusters, seats if base is None else seats + base)


def _fewest_that_hold(clusters: Candidates, weights: IntArray, replicas: int, base: IntArray | None) -> IntArray:
    """The positions of the fewest clusters that hold all replicas, the roomiest first.

    Clusters that have replicas in ``base`` come before all others.
    """
    if base is None and clusters.ordered_by(weights):
        # The order of the candidates is the order of the weights: its first few clusters are usually enough.
        few = clusters.best(_FEW_CLUSTERS)
        held = weights[few].cumsum()
        if held[-1] >= replicas:
            return few[: int(held.searchsorted(replicas)) + 1]
    positions = clusters.positions()
    listed = weights[positions]
    chosen, tied = _cut(positions[(-listed).argsort(kind="stable")], weights, replicas, base)
    if tied and len(listed) > _STABLE_UP_TO and (listed[1:] > listed[:-1]).any():
        chosen, _ = _cut(positions[order_by_weight(listed.tolist())], weights, replicas, base)
    return chosen


def _cut(order: IntArray, weights: IntArray, replicas: int, base: IntArray | None) -> tuple[IntArray, bool]:
    """The shortest beginning of an order that holds all replicas; whether a tie of weights goes across its end."""
    if base is not None:
        has_some = base[order] > 0
        order = np.concatenate([order[has_some], order[~has_some]])
    end = int(weights[order].cumsum().searchsorted(replicas)) + 1
    return order[:end], end < len(order) and bool((weights[order[end:]] == weights[order[end - 1]]).any())


def _by_weight(request: Request, clusters: Candidates, weights: IntArray, replicas: int) -> IntArray:
    """Webster's division of replicas over clusters."""
    rank = clusters.name_rank()
    return allocate(replicas, weights, -rank if breaks_ties_descending(request.uid) else rank)


def _without_none(clusters: Candidates, replicas: IntArray) -> dict[str, int]:
    """Replicas by cluster, for the clusters that have some."""
    positions = replicas.nonzero()[0]
    return dict(zip(clusters.names_at(positions), replicas[positions].tolist(), strict=True))
