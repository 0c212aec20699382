"""The fleet as the native API shows it."""

from berthmaster.model.cluster import Cluster
from extender.protocols.native.wire import Amounts, ClusterList, ClusterView, Staleness
from extender.state.state import Freshness, Memory


def cluster_page(memory: Memory, freshness: Freshness, after: str, limit: int) -> ClusterList:
    """The clusters whose names come after ``after`` in byte order, so many at most."""
    clusters = memory.world.clusters
    names = sorted(name for name in clusters if name > after)
    page = names[:limit]
    return ClusterList(
        total=len(clusters),
        items=[_view(clusters[name]) for name in page],
        next=page[-1] if len(names) > len(page) else None,
        staleness=Staleness(freshness.loaded_at, freshness.stale_since, freshness.problem),
    )


def _view(cluster: Cluster) -> ClusterView:
    spec, summary = cluster.spec, cluster.status.resource_summary
    resources = {}
    if summary is not None:
        resources = {name: Amounts(amount, summary.allocated.get(name)) for name, amount in summary.allocatable.items()}
    return ClusterView(
        name=cluster.name,
        ready=cluster.ready,
        deleting=cluster.deleting,
        provider=spec.provider,
        region=spec.region,
        zones=spec.zones,
        labels=cluster.metadata.labels,
        taints=spec.taints,
        resources=resources,
    )
