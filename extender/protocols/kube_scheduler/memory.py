"""The state between calls: how often a pod was held, and the nodes that requests contained.

kube-scheduler offers a sample of a large fleet, or the one node that it nominated before; see docs/kube-scheduler.md.
The extender holds a pod until kube-scheduler offers the nodes of earlier groups. A request does not show whether these
nodes can still take the pod, so the number of holds is limited.
"""

import threading
from typing import Final, NamedTuple

from berthmaster.model.cluster import Cluster

SAMPLE_FLOOR: Final = 100
"""kube-scheduler offers all nodes of a fleet that has fewer nodes (kube-scheduler ``minFeasibleNodesToFind``)."""

# After the rejection of a nominated node, kube-scheduler searches all nodes within milliseconds. It retries a rejected
# pod within seconds, or after five minutes without any event.
_NOMINATED_FOR_S: Final = 10.0
_SAMPLED_FOR_S: Final = 600.0
_MAX_PODS: Final = 16_384
_MAX_CLUSTERS: Final = 16_384


class _Holds(NamedTuple):
    nominated: bool
    times: int
    last_s: float


class HoldCounter:
    """Counts holds by pod. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds: dict[str, _Holds] = {}

    def try_hold(self, pod: str, *, offered: int, known: int, nominated: bool, now_s: float) -> bool:
        """Return whether to hold a pod once more, and count the hold.

        Args:
            nominated: the only offered node is the pod's nominated node. The scheduler then asks at once again with
                all nodes. An equal request that follows is that search, so one hold is enough.
        """
        limit = 1 if nominated else -(-known // max(1, offered))
        expires_after_s = _NOMINATED_FOR_S if nominated else _SAMPLED_FOR_S
        with self._lock:
            last = self._holds.pop(pod, None)
            is_new = last is None or last.nominated != nominated or now_s - last.last_s > expires_after_s
            count = 0 if last is None or is_new else last.times
            if count >= limit:
                return False
            if len(self._holds) >= _MAX_PODS:
                del self._holds[next(iter(self._holds))]
            self._holds[pod] = _Holds(nominated, count + 1, now_s)
            return True

    def forget(self, pod: str) -> None:
        with self._lock:
            self._holds.pop(pod, None)


class RecentNodes:
    """The nodes of recent requests. A preempt request contains only names.

    Safe for several threads: each method is one operation on a dict. Threads may see different nodes.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}

    def remember(self, clusters: list[Cluster]) -> None:
        if len(self._clusters) + len(clusters) > _MAX_CLUSTERS:
            self._clusters = {}
        self._clusters.update((cluster.name, cluster) for cluster in clusters[:_MAX_CLUSTERS])

    def get(self, name: str) -> Cluster | None:
        """Return a node by name; None if no recent request contained it."""
        return self._clusters.get(name)
