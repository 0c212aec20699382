"""Decisions that see each other's replicas: those of a scheduler that deducts, or all (``--shared-capacity``)."""

from collections.abc import Mapping

from berthmaster.deciding.rules import SchedulerRules
from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.pending_replicas import TakenCluster
from berthmaster.scheduling.request import Request


class SharedCapacity:
    """Deducts the replicas, and the sets of pods, that decisions add from the free capacity of their clusters.

    Replicas that leave a cluster free nothing: they run until the cluster has removed them. The fleet is updated in
    place.

    Args:
        everywhere: whether the decisions of all schedulers see each other.
    """

    def __init__(self, fleet: Fleet, *, everywhere: bool) -> None:
        self._fleet, self._everywhere = fleet, everywhere
        self._taken: dict[str, TakenCluster] = {}

    def counts_for(self, rules: SchedulerRules) -> bool:
        """Return whether the decisions of a scheduler see each other."""
        return self._everywhere or rules.deducts

    def take(self, request: Request, assignment: Mapping[str, int]) -> None:
        """Deduct what an assignment adds to the present one, which the status of the clusters contains.

        ``assignment``: replicas by cluster, or 0 for each cluster that gets one set of the pods of several templates.
        """
        before, after = request.occupied(request.current), request.occupied(assignment)
        for name, replicas in after.items():
            added = replicas - before.get(name, 0)
            if added <= 0 or (cluster := self._fleet.get(name)) is None:
                continue
            taken = self._taken.get(name)
            if taken is None:
                taken = self._taken[name] = TakenCluster(self._fleet, cluster)
            taken.take(request.pods(added))

    def clusters(self) -> dict[str, Cluster]:
        """Return the clusters that got replicas, with these deducted."""
        return {name: taken.view() for name, taken in self._taken.items()}

    def restore(self) -> None:
        for taken in self._taken.values():
            self._fleet.apply(taken.cluster)
        self._taken.clear()
