"""Assumed replicas: assigned replicas that do not show in their cluster's status yet.

Seconds to minutes pass between an assignment and the moment its pods show in the cluster's summary. Without this
module all decisions of a burst would see the same free capacity. Karmada has the feature behind the gate
``SchedulingOvercommitProtection``. There the whole assignment counts; here only its growth counts, because replicas
that ran before show already.
"""

import heapq
from collections.abc import Iterable, Mapping
from typing import Final

from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import Key
from berthmaster.scheduling.component_sets import ComponentSet
from berthmaster.scheduling.pending_replicas import AssumedCluster, PendingReplicas
from berthmaster.scheduling.resources import Requests

LIFETIME_S: Final = 300.0
"""How long replicas stay assumed if the workload does not report."""


class AssumedReplicas:
    """The assumed replicas by cluster and binding. Not safe for several threads.

    Methods that change something return the affected clusters with the pending replicas deducted.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, AssumedCluster] = {}
        self._clusters_of: dict[Key, set[str]] = {}
        self._expiries: list[tuple[float, Key]] = []
        self._last_expiry: tuple[float, Key] | None = None

    def __len__(self) -> int:
        return sum(len(each.pending) for each in self._clusters.values())

    def update_cluster(self, cluster: Cluster) -> Cluster:
        """Store an observed cluster, and return it with the pending replicas deducted."""
        assumed = self._clusters.setdefault(cluster.name, AssumedCluster(cluster))
        assumed.update(cluster)
        return assumed.view()

    def remove_cluster(self, name: str) -> None:
        assumed = self._clusters.pop(name, None)
        for key in assumed.pending if assumed is not None else ():
            self._unlink(key, name)

    def assume(
        self,
        key: Key,
        before: Mapping[str, int],
        after: Mapping[str, int],
        requests: Requests | None,
        now_s: float,
        templates: ComponentSet = (),
    ) -> list[Cluster]:
        """Change a binding's assignment.

        Args:
            before: replicas by cluster, or sets of the pods of the templates.
        """
        changed = set()
        for name in before.keys() | after.keys():
            assumed = self._clusters.get(name)
            if assumed is None:
                continue
            known = assumed.pending.get(key)
            replicas = (known.replicas if known else 0) + after.get(name, 0) - before.get(name, 0)
            if name not in after or replicas <= 0:
                if self._drop(key, name):
                    changed.add(name)
            elif known is None or known.replicas != replicas:
                self._put(key, name, PendingReplicas(replicas, requests or (), now_s + LIFETIME_S, templates))
                changed.add(name)
        return self._views(changed)

    def adopt(
        self,
        key: Key,
        replicas: Mapping[str, int],
        requests: Requests | None,
        now_s: float,
        templates: ComponentSet = (),
    ) -> list[Cluster]:
        """Assume replicas that another process assigned. Skips clusters where the binding has pending replicas."""
        missing = {
            name: count
            for name, count in replicas.items()
            if count > 0 and (assumed := self._clusters.get(name)) is not None and key not in assumed.pending
        }
        for name, count in missing.items():
            self._put(key, name, PendingReplicas(count, requests or (), now_s + LIFETIME_S, templates))
        return self._views(missing)

    def pending(self, key: Key) -> dict[str, PendingReplicas]:
        return {name: self._clusters[name].pending[key] for name in self._clusters_of.get(key, ())}

    def equivalent_replicas(self, cluster: str, requests: Requests | None) -> int:
        """Return how many replicas with these requests would need the resources that are assumed on a cluster.

        Without requests, each assumed replica counts as one. Otherwise pod slots do not count.
        """
        assumed = self._clusters.get(cluster)
        return assumed.equivalent_replicas(requests or ()) if assumed is not None else 0

    def equivalent_sets(self, cluster: str, demand: Requests) -> int:
        """Return how many sets of pods with this demand would need the resources that are assumed on a cluster."""
        assumed = self._clusters.get(cluster)
        return assumed.equivalent_sets(demand) if assumed is not None else 0

    def restore(self, key: Key, pending: Mapping[str, PendingReplicas]) -> list[Cluster]:
        """Undo an assignment: set what is assumed for its binding to an earlier result of ``pending``."""
        touched = {name for name in self._clusters_of.get(key, set()) | pending.keys() if name in self._clusters}
        for name in touched:
            self._drop(key, name)
            if name in pending:
                self._put(key, name, pending[name])
        return self._views(touched)

    def forget(self, key: Key, names: Iterable[str] | None = None) -> list[Cluster]:
        """Forget what is assumed for a binding on these clusters; on all clusters by default."""
        wanted = list(self._clusters_of.get(key, ())) if names is None else names
        return self._views([name for name in wanted if self._drop(key, name)])

    def trim(self, key: Key, clusters: Mapping[str, int]) -> list[Cluster]:
        """Limit what is assumed for a binding to its observed assignment (replicas by cluster)."""
        over = {name: each for name, each in self.pending(key).items() if each.replicas > clusters.get(name, 0)}
        for name, each in over.items():
            self._drop(key, name)
            if replicas := clusters.get(name, 0):
                self._put(key, name, each._replace(replicas=replicas))
        return self._views(over)

    def expire(self, now_s: float) -> list[Cluster]:
        """Forget what has expired at a monotonic time. Looks only at bindings whose time has come."""
        dropped = set()
        while self._expiries and self._expiries[0][0] <= now_s:
            _, key = heapq.heappop(self._expiries)
            expired = [name for name, each in self.pending(key).items() if each.until_s <= now_s]
            dropped |= {name for name in expired if self._drop(key, name)}
        return self._views(dropped)

    def _views(self, names: Iterable[str]) -> list[Cluster]:
        return [self._clusters[name].view() for name in names]

    def _put(self, key: Key, name: str, pending: PendingReplicas) -> None:
        self._clusters[name].put(key, pending)
        self._clusters_of.setdefault(key, set()).add(name)
        if self._last_expiry != (expiry := (pending.until_s, key)):  # a binding has one expiry for all its clusters
            self._last_expiry = expiry
            heapq.heappush(self._expiries, expiry)

    def _drop(self, key: Key, name: str) -> bool:
        assumed = self._clusters.get(name)
        if assumed is None or key not in assumed.pending:
            return False
        assumed.put(key, None)
        self._unlink(key, name)
        return True

    def _unlink(self, key: Key, name: str) -> None:
        names = self._clusters_of[key]
        names.discard(name)
        if not names:
            del self._clusters_of[key]
