"""What plugins are told."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from extender.scheduling.fleet import Fleet
from extender.scheduling.group import Group
from extender.scheduling.plan import Plan
from extender.scheduling.request import Request

AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"


class Peers:
    """Where the workloads of each group of workload affinity are."""

    def __init__(self) -> None:
        self._clusters: dict[tuple[str, str, str], dict[str, frozenset[str]]] = {}

    def place(self, request: Request, clusters: Iterable[str]) -> None:
        """A workload is on these clusters now; on none it is nobody's peer."""
        assigned = frozenset(clusters)
        for kind, group in ((AFFINITY, request.affinity_group), (ANTI_AFFINITY, request.anti_affinity_group)):
            if group:
                members = self._clusters.setdefault((kind, request.namespace, group), {})
                members.pop(request.name, None)
                if assigned:
                    members[request.name] = assigned

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
