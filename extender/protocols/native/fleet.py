"""``/v1/clusters``, ``/v1/fleet`` and ``/v1/version``: the clusters, and what is assigned to them."""

from collections.abc import Collection
from typing import Final

from berthmaster.deciding.move_targets import is_draining
from berthmaster.kube.watch_options import BINDINGS
from berthmaster.model.cluster import Cluster
from berthmaster.model.readers import NO_NAMES
from berthmaster.native_api.fleet import FleetAmount, FleetCluster, FleetView, StateVersion
from berthmaster.native_api.wire import Amounts, ClusterList, ClusterView
from berthmaster.scheduling.resources import amount_of
from berthmaster.version import __version__
from extender.protocols.native.parameters import number, text, values
from extender.protocols.services import Call, Services
from extender.state.cluster_health import not_ready_since, why_not_ready
from extender.state.placed_index import ClusterUse

_UNWATCHED = (
    "bindings are not watched: what is assigned to clusters is not known; start the service with --watch bindings "
    "(chart: extender.watch) on Karmada's API server"
)


PARAMETERS: Final = {
    "after": text("The page contains the names after this one."),
    "limit": number("The most clusters of the page.", 5000, default=500),
}


def cluster_page(services: Services, call: Call) -> ClusterList:
    """Return a page of the clusters in byte order."""
    given = values(PARAMETERS, call.query)
    with services.state.reading() as cache:
        found = cache.world.clusters
        staleness = services.state.staleness
    names = sorted(name for name in found if name > given.get("after", ""))
    page = names[: given["limit"]]
    return ClusterList(
        total=len(found),
        items=[_view(found[name]) for name in page],
        next=page[-1] if len(names) > len(page) else None,
        staleness=staleness,
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


def state_version(services: Services, _call: Call) -> StateVersion:
    """Return the version of the state."""
    state = services.state
    return StateVersion(state.version, state.staleness, __version__)


def fleet_view(services: Services, call: Call) -> FleetView:
    """Return all clusters, and what is assigned to them as far as bindings are known."""
    state = services.state
    version, staleness = state.version, state.staleness  # before the data, see ``State.version``
    gaps = state.gaps(NO_NAMES)
    with state.reading() as cache:
        clusters = list(cache.fleet)
    clusters.sort(key=lambda each: each.name)
    if not state.watches(BINDINGS):
        return FleetView([cluster_row(each, None) for each in clusters], version, [*gaps, _UNWATCHED], staleness)
    with state.placed() as index:
        reported = state.observed is not None
        rows = [cluster_row(each, index.use(each.name), reported=reported) for each in clusters]
    services.check_deadline(call)
    return FleetView(rows, version, gaps, staleness)


def cluster_row(cluster: Cluster, use: ClusterUse | None, *, reported: bool = False) -> FleetCluster:
    """Return a cluster and what is assigned to it."""
    spec = cluster.spec
    return FleetCluster(
        name=cluster.name,
        region=spec.region,
        provider=spec.provider,
        zones=spec.zones or ((spec.zone,) if spec.zone else ()),
        kubernetes_version=cluster.status.kubernetes_version,
        ready=cluster.ready,
        ready_message=why_not_ready(cluster),
        deleting=cluster.deleting,
        draining=is_draining(cluster),
        taints=spec.taints,
        resources=amounts(cluster, use if reported else None),
        workloads=None if use is None else use.workloads,
        replicas=None if use is None else use.replicas,
        by_group=None if use is None else use.groups(),
        without_groups=None if use is None else use.without_groups,
        arriving=None if use is None else use.arriving,
        leaving=None if use is None else use.leaving,
        since=not_ready_since(cluster),
    )


def amounts(cluster: Cluster, use: ClusterUse | None, wanted: Collection[str] | None = None) -> dict[str, FleetAmount]:
    """Return what a cluster has of each resource, or of the wanted ones."""
    summary = cluster.status.resource_summary
    if summary is None:
        return {}
    # Karmada always reports the number of pods. A node reports nothing about its pods.
    knows_used = bool(summary.allocated or summary.allocating)
    found = {}
    for name, allocatable in summary.allocatable.items():
        if wanted is not None and name not in wanted:
            continue
        used = None
        if knows_used:
            parts = (summary.allocated.get(name), summary.allocating.get(name))
            used = sum(amount_of(name, each) for each in parts if each is not None)
        found[name] = FleetAmount(amount_of(name, allocatable), used, None if use is None else use.assumed[name])
    return found
