"""Where the workloads of affinity groups are."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from berthmaster.scheduling.request import Request

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
