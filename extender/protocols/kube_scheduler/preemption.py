"""Preempt: which of the nodes that pods could be evicted from are worth it."""

from collections.abc import Mapping
from typing import Final

from berthmaster.model.cluster import Cluster
from extender.protocols.kube_scheduler.nodes import Stand
from extender.protocols.kube_scheduler.steps import NEVER
from extender.protocols.kube_scheduler.wire import MetaVictims

_CLUSTERS_KEPT: Final = 16_384


def allowed(candidates: Mapping[str, MetaVictims], stand: Stand) -> dict[str, MetaVictims]:
    """The candidates of the first group that has any, with their victims as they came.

    A node that may not take the pod, or is not known, is none: its pods would be evicted for nothing.
    """
    best = stand.best
    if best >= NEVER:
        return {}
    return {name: candidates[name] for name, step in zip(stand.names, stand.steps, strict=True) if step == best}


class SeenNodes:
    """The nodes that a scheduler has shown lately: a preempt request only names them.

    Single operations on a dict: safe for several threads, which may at most see different nodes.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}

    def remember(self, clusters: list[Cluster]) -> None:
        """These were shown."""
        if len(self._clusters) + len(clusters) > _CLUSTERS_KEPT:
            self._clusters = {}
        self._clusters.update((cluster.name, cluster) for cluster in clusters[:_CLUSTERS_KEPT])

    def get(self, name: str) -> Cluster | None:
        """A node by name; None if it was not shown lately."""
        return self._clusters.get(name)
