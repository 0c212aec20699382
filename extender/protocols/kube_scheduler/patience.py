"""How often a pod is held back when the nodes that were offered may not be all there are.

kube-scheduler offers a sample of a large fleet, or the one node that it nominated before; see docs/kube-scheduler.md.
Holding a pod back for the nodes that come first must end if these cannot take it after all, which nothing in a request
says. So holds are counted.
"""

import threading
from typing import Final, NamedTuple

SAMPLE_FLOOR: Final = 100
"""Fewer nodes than this are never a sample (kube-scheduler ``minFeasibleNodesToFind``)."""

# The search that follows a nominated node's refusal takes milliseconds; a refused pod is tried again within seconds,
# but only after five minutes if nothing happens in between.
_NOMINATED_FOR_S: Final = 10.0
_SAMPLED_FOR_S: Final = 600.0
_PODS_KEPT: Final = 16_384


class _Holds(NamedTuple):
    nominated: bool
    times: int
    last_s: float


class Patience:
    """Counts holds by pod. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds: dict[str, _Holds] = {}

    def holds(self, pod: str, *, offered: int, known: int, nominated: bool, now_s: float) -> bool:
        """Whether to hold a pod back once more; counts it if so.

        Args:
            pod: its identity.
            offered: how many nodes the scheduler offered.
            known: how many there are.
            nominated: the only node offered is the pod's nominated one. Then the scheduler asks again with all nodes
                at once, and an equal question that comes next is that search, so that once is enough.
            now_s: a monotonic time in seconds.
        """
        limit = 1 if nominated else -(-known // max(1, offered))
        kept_s = _NOMINATED_FOR_S if nominated else _SAMPLED_FOR_S
        with self._lock:
            last = self._holds.pop(pod, None)
            fresh = last is None or last.nominated != nominated or now_s - last.last_s > kept_s
            count = 0 if last is None or fresh else last.times
            if count >= limit:
                return False
            if len(self._holds) >= _PODS_KEPT:
                del self._holds[next(iter(self._holds))]
            self._holds[pod] = _Holds(nominated, count + 1, now_s)
            return True

    def forget(self, pod: str) -> None:
        """The pod got nodes."""
        with self._lock:
            self._holds.pop(pod, None)
