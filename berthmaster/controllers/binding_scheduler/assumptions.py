"""What was given away and does not show yet: room that the next decision must not give away again.

Between the moment a workload is assigned to a cluster and the moment its pods show in the cluster's summary lie seconds
to minutes, in which a burst of bindings would all see the same free room. Karmada has this behind the gate
``SchedulingOvercommitProtection``; unlike there, only what an assignment adds is counted, because what was there
before shows already.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from berthmaster.controllers.binding_scheduler.loads import Load, LoadedCluster
from berthmaster.kube.requests import Key
from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.resources import Requests

LIFETIME_S: Final = 300.0
"""How long an assumption holds if nothing is heard of the workload."""


class Assumptions:
    """What is on its way, by cluster and binding. Not safe for several threads.

    Methods that change something return the clusters that decisions have to see differently from then on.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, LoadedCluster] = {}
        self._on: dict[Key, set[str]] = {}

    def __len__(self) -> int:
        return sum(len(each.loads) for each in self._clusters.values())

    def cluster_changed(self, cluster: Cluster) -> Cluster:
        """The API server says a cluster is so: how decisions have to see it."""
        loaded = self._clusters.setdefault(cluster.name, LoadedCluster(cluster))
        loaded.become(cluster)
        return loaded.seen()

    def cluster_gone(self, name: str) -> None:
        """A cluster is not there any more."""
        loaded = self._clusters.pop(name, None)
        for key in loaded.loads if loaded is not None else ():
            self._off(key, name)

    def assume(
        self, key: Key, before: Mapping[str, int], after: Mapping[str, int], requests: Requests | None, now_s: float
    ) -> list[Cluster]:
        """A binding's assignment changes from ``before`` to ``after`` (replicas by cluster) at a monotonic time."""
        changed = set()
        for name in before.keys() | after.keys():
            loaded = self._clusters.get(name)
            if loaded is None:
                continue
            known = loaded.loads.get(key)
            replicas = (known.replicas if known else 0) + after.get(name, 0) - before.get(name, 0)
            if name not in after or replicas <= 0:
                if self._drop(key, name):
                    changed.add(name)
            elif known is None or known.replicas != replicas:
                self._put(key, name, Load(replicas, requests or (), now_s + LIFETIME_S))
                changed.add(name)
        return self._seen(changed)

    def adopt(self, key: Key, replicas: Mapping[str, int], requests: Requests | None, now_s: float) -> list[Cluster]:
        """A binding is heard to have been given these replicas, by cluster: they count where none of its do yet."""
        missing = {
            name: count
            for name, count in replicas.items()
            if count > 0 and (loaded := self._clusters.get(name)) is not None and key not in loaded.loads
        }
        for name, count in missing.items():
            self._put(key, name, Load(count, requests or (), now_s + LIFETIME_S))
        return self._seen(missing)

    def of(self, key: Key) -> dict[str, Load]:
        """What is on its way for a binding, by cluster."""
        return {name: self._clusters[name].loads[key] for name in self._on.get(key, ())}

    def held(self, cluster: str, requests: Requests | None) -> int:
        """How many replicas with these requests would take up what is on its way to a cluster.

        Without requests each replica takes the place of one; slots for pods play no part otherwise.
        """
        loaded = self._clusters.get(cluster)
        return loaded.held(requests or ()) if loaded is not None else 0

    def restore(self, key: Key, loads: Mapping[str, Load]) -> list[Cluster]:
        """An assignment came to nothing: what is on its way for its binding is again what ``of`` said."""
        touched = {name for name in self._on.get(key, set()) | loads.keys() if name in self._clusters}
        for name in touched:
            self._drop(key, name)
            if name in loads:
                self._put(key, name, loads[name])
        return self._seen(touched)

    def release(self, key: Key, names: Iterable[str] | None = None) -> list[Cluster]:
        """A binding's replicas have arrived on these clusters; without names it is gone itself."""
        wanted = list(self._on.get(key, ())) if names is None else names
        return self._seen([name for name in wanted if self._drop(key, name)])

    def trim(self, key: Key, clusters: Mapping[str, int]) -> list[Cluster]:
        """A binding is seen to be assigned so (replicas by cluster): no more than that is on its way."""
        over = {name: load for name, load in self.of(key).items() if load.replicas > clusters.get(name, 0)}
        for name, load in over.items():
            self._drop(key, name)
            if replicas := clusters.get(name, 0):
                self._put(key, name, load._replace(replicas=replicas))
        return self._seen(over)

    def expire(self, now_s: float) -> list[Cluster]:
        """What was assumed too long ago holds no more."""
        old = [
            (key, name)
            for name, loaded in self._clusters.items()
            for key, load in loaded.loads.items()
            if load.until_s <= now_s
        ]
        return self._seen({name for key, name in old if self._drop(key, name)})

    def _seen(self, names: Iterable[str]) -> list[Cluster]:
        return [self._clusters[name].seen() for name in names]

    def _put(self, key: Key, name: str, load: Load) -> None:
        self._clusters[name].put(key, load)
        self._on.setdefault(key, set()).add(name)

    def _drop(self, key: Key, name: str) -> bool:
        loaded = self._clusters.get(name)
        if loaded is None or key not in loaded.loads:
            return False
        loaded.put(key, None)
        self._off(key, name)
        return True

    def _off(self, key: Key, name: str) -> None:
        names = self._on[key]
        names.discard(name)
        if not names:
            del self._on[key]
