"""The fleet of the service, as the native API shows it."""

from berthmaster.model.cluster import Cluster
from berthmaster.native_api.wire import Amounts, ClusterList, ClusterView, Staleness
from extender.state.state import FleetCache, Freshness


def cluster_page(cache: FleetCache, freshness: Freshness, after: str, limit: int) -> ClusterList:
    """Return up to ``limit`` clusters whose names follow ``after`` in byte order."""
    found = cache.world.clusters
    names = sorted(name for name in found if name > after)
    page = names[:limit]
    return ClusterList(
        total=len(found),
        items=[_view(found[name]) for name in page],
        next=page[-1] if len(names) > len(page) else None,
        staleness=staleness_of(freshness),
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


def staleness_of(freshness: Freshness) -> Staleness:
    """Return how current a state is."""
    return Staleness(freshness.loaded_at, freshness.stale_since, freshness.problem)
