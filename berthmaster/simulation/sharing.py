"""Decisions that see each other's replicas (``--shared-capacity``)."""

from collections.abc import Mapping

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.pending_replicas import AssumedCluster, Key, PendingReplicas
from berthmaster.scheduling.request import Request

_NEVER_S = 0.0  # no time passes in a simulation, so that pending replicas do not expire


class SharedCapacity:
    """Deducts the replicas, and the sets of pods, that decisions add from the free capacity of their clusters.

    Replicas that leave a cluster free nothing: they run until the cluster has removed them. The fleet is updated in
    place.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._assumed: dict[str, AssumedCluster] = {}
        self._original: dict[str, Cluster] = {}

    def take(self, key: Key, request: Request, assignment: Mapping[str, int]) -> None:
        """Deduct what an assignment adds to the present one, which the status of the clusters contains.

        Args:
            key: the binding.
            request: the request that was decided.
            assignment: replicas by cluster, or 0 for each cluster that gets one set of the pods of several templates.
        """
        before, after = request.occupied(request.current), request.occupied(assignment)
        for name, replicas in after.items():
            cluster = self._fleet.get(name)
            if cluster is None or replicas <= before.get(name, 0):
                continue
            if name not in self._assumed:
                self._original[name] = cluster
                self._assumed[name] = AssumedCluster(cluster)
            known = self._assumed[name].pending.get(key)
            grown = (known.replicas if known is not None else 0) + replicas - before.get(name, 0)
            self._assumed[name].put(
                key, PendingReplicas(grown, request.requests or (), _NEVER_S, request.set_templates)
            )
            self._fleet.apply(self._assumed[name].view())

    def clusters(self) -> dict[str, Cluster]:
        """Return the clusters that got replicas, with these deducted."""
        return {name: assumed.view() for name, assumed in self._assumed.items()}

    def restore(self) -> None:
        """Undo all deductions."""
        for cluster in self._original.values():
            self._fleet.apply(cluster)
        self._assumed.clear()
        self._original.clear()
