"""The answers of this plugin for a simulation, by the code that answers KubeAdmiral."""

from collections.abc import Sequence
from typing import Final

from berthmaster.manifests import Manifests
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral.clusters import FederatedClusterResources, FederatedClusterSpec
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.filters import UnscorableError
from berthmaster.scheduling.kubeadmiral.unit import SchedulingUnit
from berthmaster.scheduling.kubeadmiral.webhook_plugins import ScoredCluster, Webhooks
from extender.protocols.kubeadmiral import plugin as webhook
from extender.protocols.kubeadmiral.affinity_groups import AffinityGroup, group_of, groups_of, located
from extender.protocols.kubeadmiral.plugin import PREFIX
from extender.protocols.kubeadmiral.selection import DIVIDE
from extender.protocols.kubeadmiral.wire import (
    ClusterPlacement,
    ClusterScore,
    Member,
    MemberStatus,
    PlacementPreferences,
    PluginSchedulingUnit,
    SelectRequest,
)

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
        scores = tuple(ClusterScore(_member(each.cluster), each.score) for each in scored)
        answer = webhook.select_for(SelectRequest(_wire_unit(unit), scores))
        return answer.error or answer.response.selected_cluster_names

    def remark(self, unit: SchedulingUnit, selected: Sequence[Cluster]) -> str:
        groups = _groups(unit)
        names = {found[1] for cluster in selected if (found := group_of(groups, located(cluster))) is not None}
        return f"group {', '.join(sorted(names))}" if names else ""


def _groups(unit: SchedulingUnit) -> tuple[AffinityGroup, ...]:
    try:
        return groups_of(unit.annotations)
    except FieldError as error:
        raise UnscorableError(str(error)) from None


def _wire_unit(unit: SchedulingUnit) -> PluginSchedulingUnit:
    """Return the unit as KubeAdmiral sends it: a cluster without a number has 0."""
    clusters = sorted(unit.candidates | unit.preferences.keys())
    return PluginSchedulingUnit(
        api_version=unit.api_version,
        kind=unit.kind,
        namespace=unit.namespace,
        name=unit.name,
        annotations=dict(unit.annotations),
        scheduling_mode=DIVIDE if unit.divide else "Duplicate",
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


def _placement(unit: SchedulingUnit, name: str) -> ClusterPlacement:
    preference = unit.preference(name)
    return ClusterPlacement(name, PlacementPreferences(preference.minimum, preference.maximum, preference.weight))


def _member(cluster: Cluster) -> Member:
    summary = cluster.status.resource_summary
    resources = FederatedClusterResources()
    if summary is not None:
        available = {
            name: Quantity(amount.nanos - summary.allocated.get(name, _NOTHING).nanos, "")
            for name, amount in summary.allocatable.items()
        }
        resources = FederatedClusterResources(allocatable=dict(summary.allocatable), available=available)
    return Member(cluster.metadata, FederatedClusterSpec(taints=cluster.spec.taints), MemberStatus(resources))
