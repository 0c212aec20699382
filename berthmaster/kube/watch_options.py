"""What a process watches, and on which API server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from berthmaster.kube.kinds import NODES, clusters_of
from berthmaster.model.control_planes import CONTROL_PLANES, KARMADA

CLUSTERS: Final = KARMADA.clusters
CLUSTER_KINDS: Final = {"nodes": NODES, **{each.clusters: clusters_of(each) for each in CONTROL_PLANES}}
POLICIES: Final = "policies"
BINDINGS: Final = "bindings"
WORKLOADS: Final = "workloads"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {BINDINGS: (CLUSTERS,), WORKLOADS: (CLUSTERS, POLICIES, BINDINGS)}
"""What else must be watched. Only Karmada's clusters have bindings of Karmada."""


class WatchOptions(NamedTuple):
    """What to watch, and on which API server: None for the cluster that this process runs in."""

    kinds: Sequence[str]
    kubeconfig: Path | None = None
    context: str | None = None

    @property
    def all_kinds(self) -> tuple[str, ...]:
        """The kinds, and the kinds that they need, in a fixed order."""
        found = {*self.kinds, *(needed for kind in self.kinds for needed in _NEEDED.get(kind, ()))}
        return tuple(kind for kind in (*CLUSTER_KINDS, POLICIES, BINDINGS, WORKLOADS) if kind in found)
