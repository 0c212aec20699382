"""The answers of this plugin for a simulation, by the code that answers KubeAdmiral.

``POST /kubeadmiral/v1alpha1/schedule``: what KubeAdmiral's scheduler decides on the objects of a request.

KubeAdmiral itself never calls this path. It answers people and programs, as ``berthmaster simulate`` does.
"""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec

from berthmaster.manifests import Document, Manifests, manifests_of, objects_in
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError, ManifestError
from berthmaster.model.kubeadmiral import FederatedClusterResources, FederatedClusterSpec
from berthmaster.model.meta import Quantity
from berthmaster.scheduling.filters import UnscorableError
from berthmaster.scheduling.kubeadmiral.plugins import ScoredCluster, Webhooks
from berthmaster.scheduling.kubeadmiral.unit import SchedulingUnit
from berthmaster.simulation.federation import FederationRow, federation_of, federation_row, run_federation
from extender.protocols.kubeadmiral import plugin as webhook
from extender.protocols.kubeadmiral.plugin import PREFIX, group_of, groups_of, located
from extender.protocols.problem import RETRY_SOON, Refusal
from extender.protocols.route import JSON, Reply, Route
from extender.protocols.services import Call, Services

_USUAL_NAME: Final = "berthmaster"
_NOTHING: Final = Quantity(0, "")


def webhooks_of(manifests: Manifests) -> Webhooks:
    """Return our plugin under its usual name, and under each name that a configuration of webhooks gives it."""
    plugin = GroupsPlugin()
    names = [each.metadata.name for each in manifests.federation.webhooks if PREFIX in each.spec.url_prefix]
    return dict.fromkeys([_USUAL_NAME, *names], plugin)


class GroupsPlugin:
    """Ordered groups for KubeAdmiral. It implements ``WebhookPlugin``."""

    def rejection(self, unit: SchedulingUnit, cluster: Cluster) -> str | None:
        try:
            groups = groups_of(unit.annotations)
        except FieldError:
            return None  # as the service does by default: a rejection would remove the workload from the cluster
        return None if not groups or group_of(groups, located(cluster)) is not None else "is in no group"

    def score(self, unit: SchedulingUnit, cluster: Cluster) -> int:
        groups = _groups(unit)
        found = group_of(groups, located(cluster))
        return sum(len(group.tiers) for group in groups) - found[0] if found is not None else 0

    def select(self, unit: SchedulingUnit, scored: Sequence[ScoredCluster]) -> list[str] | str:
        scores = tuple(webhook.ClusterScore(_member(each.cluster), each.score) for each in scored)
        answer = webhook.select_for(webhook.SelectRequest(_wire_unit(unit), scores))
        return answer.error or answer.response.selected_cluster_names

    def remark(self, unit: SchedulingUnit, selected: Sequence[Cluster]) -> str:
        groups = _groups(unit)
        names = {found[1] for cluster in selected if (found := group_of(groups, located(cluster))) is not None}
        return f"group {', '.join(sorted(names))}" if names else ""


def _groups(unit: SchedulingUnit) -> tuple[webhook.AffinityGroup, ...]:
    try:
        return groups_of(unit.annotations)
    except FieldError as error:
        raise UnscorableError(str(error)) from None


def _wire_unit(unit: SchedulingUnit) -> webhook.PluginSchedulingUnit:
    """Return the unit as KubeAdmiral sends it: a cluster without a number has 0."""
    clusters = sorted(unit.candidates | unit.preferences.keys())
    return webhook.PluginSchedulingUnit(
        api_version=unit.api_version,
        kind=unit.kind,
        namespace=unit.namespace,
        name=unit.name,
        annotations=dict(unit.annotations),
        scheduling_mode=webhook.DIVIDE if unit.divide else "Duplicate",
        desired_replicas=unit.replicas if unit.divide else None,
        resource_request=dict(unit.requests),
        current_clusters=tuple(unit.current),
        current_replica_distribution={name: number or 0 for name, number in unit.current.items()},
        cluster_selector=dict(unit.cluster_selector),
        cluster_affinity=unit.required or (),
        tolerations=unit.tolerations,
        max_clusters=unit.max_clusters,
        placements=tuple(_placement(unit, name) for name in clusters),
    )


def _placement(unit: SchedulingUnit, name: str) -> webhook.ClusterPlacement:
    preference = unit.preference(name)
    return webhook.ClusterPlacement(
        name, webhook.PlacementPreferences(preference.minimum, preference.maximum, preference.weight)
    )


def _member(cluster: Cluster) -> webhook.Member:
    summary = cluster.status.resource_summary
    resources = FederatedClusterResources()
    if summary is not None:
        available = {
            name: Quantity(amount.nanos - summary.allocated.get(name, _NOTHING).nanos, "")
            for name, amount in summary.allocatable.items()
        }
        resources = FederatedClusterResources(allocatable=dict(summary.allocatable), available=available)
    return webhook.Member(
        cluster.metadata, FederatedClusterSpec(taints=cluster.spec.taints), webhook.MemberStatus(resources)
    )


_MAX_OBJECTS: Final = 10_000
_MAX_BYTES: Final = 3 * 2**20
"""The largest body. Reading it takes about a quarter of a second."""


class FederationRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Objects of a KubeAdmiral federation to schedule, or lists of them."""

    objects: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=_MAX_OBJECTS)]
    duplicate_limits: bool = False


class FederationAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The result for each workload, in the order of the request."""

    workloads: list[FederationRow]


def federation_route(protocol: str, path: str) -> Route:
    """Return the route. It answers one request at a time; others get status 429 meanwhile."""
    busy = threading.Lock()

    def handle(services: Services, call: Call) -> Reply:
        if len(call.body) > _MAX_BYTES:
            raise Refusal(413, f"the request has {len(call.body)} bytes; at most {_MAX_BYTES} are read")
        if not busy.acquire(blocking=False):
            raise Refusal(429, "another request of this path is running", headers=RETRY_SOON)
        try:
            return Reply(encode_json(_answer(services, call)))
        finally:
            busy.release()

    return Route("POST", path, handle, protocol, accepts=(JSON,), query={}, brings_fleet=True)


def _answer(services: Services, call: Call) -> FederationAnswer:
    request = decode_json(FederationRequest, call.body)
    check = partial(services.check_deadline, call)
    try:
        manifests = _manifests(request)
        federation = federation_of(
            manifests, webhooks=webhooks_of(manifests), duplicate_limits=request.duplicate_limits
        )
    except ManifestError as error:
        number = f"[{error.document - 1}]" if error.document is not None else ""
        path = f".{error.path}" if error.path else ""
        raise FieldError(f"objects{number}{path}", error.problem) from None
    _, results = run_federation(federation, services.clock.now(), check=check)
    return FederationAnswer([federation_row(each) for each in results])


def _manifests(request: FederationRequest) -> Manifests:
    documents: list[Document] = []
    for number, raw in enumerate(request.objects, start=1):
        documents += objects_in("objects", number, raw)
    manifests = manifests_of(documents, "objects")
    if not manifests.federation.clusters:
        raise FieldError("objects", "has no FederatedCluster; accepted are the objects of a KubeAdmiral federation")
    return manifests
