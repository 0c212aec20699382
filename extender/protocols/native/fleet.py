"""The fleet of the service, and the decisions on its bindings, as the native API shows them."""

from dataclasses import replace

import msgspec.structs

from berthmaster.kube.kinds import BINDINGS
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import shown
from berthmaster.simulation.following import NO_COMPANIONS, companions
from berthmaster.simulation.report import explanation
from berthmaster.simulation.run import examine, present
from berthmaster.simulation.world import World
from extender.protocols.native.schedule import require_explicable, require_watched
from extender.protocols.native.wire import Amounts, BindingExplanation, ClusterList, ClusterView, Staleness
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


def explained(services: Services, namespace: str, name: str) -> BindingExplanation:
    """Return what the scheduler would decide now on a binding of the service, and why.

    Raises:
        Refusal: bindings are not watched, there is no such binding, or the explanation would take too long.
    """
    state = services.state
    require_watched(services, BINDINGS, subject="the bindings of the control plane are")
    found = state.workload((namespace, name))
    if found is None:
        raise Refusal(404, f"there is no binding {shown(f'{namespace}/{name}' if namespace else name)}")
    workload, now = found.workload, services.clock.now()
    with state.reading() as cache:
        if workload.binding is not None:
            require_explicable(workload.binding, len(cache.fleet))
        outcome = examine(cache.scheduler, workload, now)
        cache.restore_peers(workload)
    if found.related is not None:
        followed = companions([outcome.workload, *found.related]).get(0, NO_COMPANIONS)
        outcome = replace(outcome, companions=followed)
    answer = explanation(outcome, present(World({}, [workload]))[0])
    freshness = staleness_of(state.freshness)
    return BindingExplanation(**msgspec.structs.asdict(answer), gaps=state.gaps, staleness=freshness)
