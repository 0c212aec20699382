"""What plugins are told."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.group import Group
from berthmaster.scheduling.plan import Plan
from berthmaster.scheduling.request import Request

AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"


class Peers:
    """Where the workloads of each group of workload affinity are."""

    def __init__(self) -> None:
        self._clusters: dict[tuple[str, str, str], dict[str, frozenset[str]]] = {}
        self._groups_of: dict[tuple[str, str], list[tuple[str, str, str]]] = {}

    def place(self, request: Request, clusters: Iterable[str]) -> None:
        """A workload is on these clusters now, whatever was said of it before; on none it is nobody's peer."""
        self._forget(request.namespace, request.name)
        assigned = frozenset(clusters)
        if not assigned:
            return
        for kind, group in ((AFFINITY, request.affinity_group), (ANTI_AFFINITY, request.anti_affinity_group)):
            if group:
                key = kind, request.namespace, group
                self._clusters.setdefault(key, {})[request.name] = assigned
                self._groups_of.setdefault((request.namespace, request.name), []).append(key)

    def _forget(self, namespace: str, name: str) -> None:
        for key in self._groups_of.pop((namespace, name), ()):
            members = self._clusters[key]
            del members[name]
            if not members:
                del self._clusters[key]

    def of(self, kind: str, namespace: str, group: str, *, except_for: str) -> Mapping[str, frozenset[str]]:
        """The clusters of each scheduled workload of a group, by the name of its binding."""
        members = self._clusters.get((kind, namespace, group), {})
        return {name: clusters for name, clusters in members.items() if name != except_for}


@dataclass(frozen=True, slots=True)
class Context:
    """One group's turn in one decision.

    Attributes:
        fleet: the clusters.
        request: the workload.
        plan: its placement, taken apart.
        group: the group whose turn it is.
        peers: where the workloads are that this one wants to be with, or apart from.
    """

    fleet: Fleet
    request: Request
    plan: Plan
    group: Group
    peers: Peers
