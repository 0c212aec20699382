"""The fleet of the service, and the decisions on its bindings, as the native API shows them."""

from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import shown
from berthmaster.simulation.report import Explanation, explanation
from berthmaster.simulation.run import examine
from extender.protocols.native.schedule import require_explicable
from extender.protocols.native.wire import Amounts, ClusterList, ClusterView, Staleness
from extender.protocols.problem import Refusal
from extender.protocols.services import Services
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


def explained(services: Services, namespace: str, name: str) -> Explanation:
    """Return what the scheduler would decide now on a binding of the service, and why.

    Raises:
        Refusal: there is no such binding, or the explanation would take too long.
    """
    with services.state.reading() as cache:
        workload = cache.workload((namespace, name))
        if workload is None:
            raise Refusal(404, f"there is no binding {shown(f'{namespace}/{name}' if namespace else name)}")
        if workload.binding is not None:
            require_explicable(workload.binding, len(cache.fleet))
        outcome = examine(cache.scheduler, workload, services.clock.now())
    return explanation(outcome)
