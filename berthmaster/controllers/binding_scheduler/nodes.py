"""The nodes that a cluster's models tell of, one by one, and where on them each workload that is on its way will go.

A model says how many nodes of a grade there are and what the smallest of them has. Replicas are placed as a scheduler
would place the first that come: on the first node that holds one, from the smallest grade up. Each workload's places
are remembered, so that it can be taken away again: what comes and goes costs the same however much else is on its way.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from berthmaster.kube.requests import Key
from berthmaster.model.cluster import AllocatableModeling, Cluster, ResourceModel
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.resources import PODS, Requests, amount_of, counts_for_nodes

MOST_NODES: Final = 2**13
"""So many nodes of a cluster are told apart; the others of each grade are there, but nothing is placed on them."""
MOST_CLASSES: Final = 64
_PODS_OF_A_NODE: Final = 110
_PODS_COLUMN: Final = 0


class NodeClass(NamedTuple):
    """Nodes with the same left.

    Attributes:
        left: amounts by resource, in the units of ``resources``.
        nodes: how many have it.
    """

    left: dict[str, int]
    nodes: int


class _Places(NamedTuple):
    """Where a workload's replicas are: so many on each of these nodes, each taking these amounts of these columns."""

    nodes: IntArray
    replicas: IntArray
    columns: list[int]
    amounts: IntArray


class Nodes:
    """What is left on each node of one cluster; a node holds 110 pods."""

    def __init__(self, models: Iterable[ResourceModel], modelings: Iterable[AllocatableModeling]) -> None:
        grades = sorted(models, key=lambda model: model.grade)
        counts = dict.fromkeys((model.grade for model in grades), 0)
        for modeling in modelings:
            if modeling.grade in counts:
                counts[modeling.grade] += modeling.count
        self._names = sorted({each.name for model in grades for each in model.ranges} - {PODS})
        self._grades = np.array([self._smallest(model) for model in grades], dtype=np.int64)
        self._counts = np.array([counts[model.grade] for model in grades], dtype=np.int64)
        self._grade_of = np.repeat(np.arange(len(grades)), np.minimum(self._counts, MOST_NODES // len(grades)))
        self._left = self._grades[self._grade_of]
        self._places: dict[Key, _Places] = {}

    def place(self, key: Key, requests: Requests, replicas: int) -> None:
        """Put a workload's replicas where they fit first; those that fit nowhere take nothing."""
        asked = {**dict(filter(counts_for_nodes, requests)), PODS: 1}
        if not asked.keys() <= {PODS, *self._names}:
            return
        columns = [_PODS_COLUMN if name == PODS else self._names.index(name) + 1 for name in asked]
        amounts = np.array(list(asked.values()), dtype=np.int64)
        fitting = (self._left[:, columns] // amounts).min(axis=1)
        taken = np.diff(np.minimum(np.cumsum(fitting), replicas), prepend=0)
        nodes = np.flatnonzero(taken)
        places = self._places[key] = _Places(nodes, taken[nodes], columns, amounts)
        self._move(places, -1)

    def take_away(self, key: Key) -> None:
        """A workload is not on its way any more."""
        places = self._places.pop(key, None)
        if places is not None:
            self._move(places, 1)

    def classes(self) -> list[NodeClass]:
        """All nodes, those that have the same left together.

        Of very many classes the emptiest are told, which can only make a cluster look smaller.
        """
        touched = self._left[:, _PODS_COLUMN] < _PODS_OF_A_NODE
        whole = self._counts - np.bincount(self._grade_of[touched], minlength=len(self._counts))
        # A node without room for a pod has room for nothing.
        busy = np.where(self._left[touched, :1] > 0, self._left[touched], 0)
        rows = np.concatenate([self._grades, busy])[:, 1:]
        counts = np.concatenate([whole, np.ones(len(busy), dtype=np.int64)])
        distinct, which = np.unique(rows, axis=0, return_inverse=True)
        counts = np.bincount(which.reshape(-1), weights=counts).astype(np.int64)
        told = np.flatnonzero(counts)[-MOST_CLASSES:] if counts.any() else [0]
        return [
            NodeClass(dict(zip(self._names, distinct[index].tolist(), strict=True)), int(counts[index]))
            for index in told
        ]

    def _smallest(self, model: ResourceModel) -> list[int]:
        """What the smallest node of a grade has, by column."""
        has = {each.name: max(0, amount_of(each.name, each.min)) for each in model.ranges}
        return [_PODS_OF_A_NODE, *(has.get(name, 0) for name in self._names)]

    def _move(self, places: _Places, sign: int) -> None:
        self._left[places.nodes[:, None], places.columns] += sign * places.replicas[:, None] * places.amounts


def nodes_of(cluster: Cluster) -> Nodes | None:
    """The nodes of a cluster; None where its models do not count (see ``resources``)."""
    summary, models = cluster.status.resource_summary, cluster.spec.resource_models
    if summary is None or not models or not summary.allocatable_modelings:
        return None
    if any(each.count < 0 for each in summary.allocatable_modelings):
        return None
    return Nodes(models, summary.allocatable_modelings)
