"""WorkloadAffinity and WorkloadAntiAffinity: with peers, or apart from them (gate ``WorkloadAffinity``)."""

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import AFFINITY, ANTI_AFFINITY, Context
from berthmaster.scheduling.filters import Filter


class WorkloadAffinity(Filter):
    """Every scheduled peer of the affinity group must be on the cluster."""

    name = "WorkloadAffinity"
    exempts_current = True

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        """Most workloads belong to no group."""
        return super().prune(context, rows) if context.request.affinity_group else rows

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The first peer that is elsewhere."""
        request = context.request
        peers = context.peers.of(AFFINITY, request.namespace, request.affinity_group, except_for=request.name)
        missing = min((name for name, clusters in peers.items() if cluster.name not in clusters), default=None)
        return missing and f"does not have {missing}, of the affinity group {request.affinity_group}"


class WorkloadAntiAffinity(Filter):
    """No peer of the anti-affinity group may be on the cluster; being there already does not help."""

    name = "WorkloadAntiAffinity"

    def prune(self, context: Context, rows: IntArray) -> IntArray:
        """Most workloads belong to no group."""
        return super().prune(context, rows) if context.request.anti_affinity_group else rows

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The first peer that is there."""
        request = context.request
        peers = context.peers.of(ANTI_AFFINITY, request.namespace, request.anti_affinity_group, except_for=request.name)
        present = min((name for name, clusters in peers.items() if cluster.name in clusters), default=None)
        return present and f"has {present}, of the anti-affinity group {request.anti_affinity_group}"
