"""Groups of clusters in order, for KubeAdmiral: which group a cluster is in, and which group holds a workload.

KubeAdmiral has no groups. An object asks for them with the annotation ``policy.berthmaster.io/cluster-affinities``, a
JSON list of Karmada's ClusterAffinityTerms. FederatedClusters have no provider, region or zones, so that field
selectors see what labels say of these (``topology.kubernetes.io/region``, ``topology.kubernetes.io/zone``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.protocols.kubeadmiral.wire import Member, SchedulingUnit
from extender.scheduling.resources import left_of, requests_of
from fleet.errors import FieldError
from fleet.model.affinity import AffinityTerm
from fleet.model.base import INT64_MAX
from fleet.model.cluster import Cluster, ClusterSpec, ClusterStatus
from fleet.model.decode import decode_json
from fleet.model.federated_cluster import as_summary
from fleet.model.placement import ClusterAffinityTerm

ANNOTATION: Final = "policy.berthmaster.io/cluster-affinities"
REGION_LABEL: Final = "topology.kubernetes.io/region"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
DIVIDE: Final = "Divide"


@dataclass(frozen=True, slots=True)
class Group:
    """A group of clusters by name."""

    name: str
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class Ranked:
    """A cluster that select may choose from, with its score and how many replicas it takes.

    Attributes:
        cluster: with region and zones from its labels.
        score: what all score plugins gave it.
        minimum: replicas it gets at least.
        room: replicas it takes at most, by its bounds and by what it has available.
    """

    cluster: Cluster
    score: int
    minimum: int
    room: int


def groups_of(annotations: Mapping[str, str]) -> list[Group] | None:
    """The groups that an object asks for; None if it asks for none.

    Raises:
        FieldError: the annotation is no list of terms, or names a group twice.
    """
    text = annotations.get(ANNOTATION)
    if text is None:
        return None
    path = f"metadata.annotations[{ANNOTATION}]"
    try:
        terms = decode_json(tuple[ClusterAffinityTerm, ...], text)
    except FieldError as error:
        raise error.below(path) from None
    names = [term.affinity_name for term in terms]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise FieldError(path, f"{doubled!r} names two groups; accepted are distinct names")
    return [Group(term.affinity_name, AffinityTerm(term)) for term in terms]


def group_index(groups: Sequence[Group], cluster: Cluster) -> int | None:
    """The first group that means a cluster."""
    return next((index for index, group in enumerate(groups) if group.term.matches(cluster)), None)


def located(member: Member) -> Cluster:
    """A cluster as groups see it, with region and zones as its labels say."""
    labels = member.metadata.labels
    zone = labels.get(ZONE_LABEL)
    return Cluster(
        member.metadata,
        spec=ClusterSpec(region=labels.get(REGION_LABEL, ""), zones=(zone,) if zone is not None else ()),
        status=ClusterStatus(resource_summary=as_summary(member.status.resources)),
    )


def room_of(unit: SchedulingUnit, cluster: Cluster, maximum: int | None) -> int:
    """How many replicas a cluster takes: what it runs already, and what fits its available resources, bounded."""
    summary = cluster.status.resource_summary
    fits = INT64_MAX
    for name, amount in requests_of(unit.resource_request):
        free = left_of(summary, name) if summary is not None else 0
        fits = min(fits, max(0, free) // amount)
    fits = min(INT64_MAX, fits + unit.current_replica_distribution.get(cluster.name, 0))
    return fits if maximum is None else min(fits, maximum)


def choose(unit: SchedulingUnit, members: Sequence[Ranked]) -> list[str] | str:
    """The clusters of a group that take the workload, the best first, or why they cannot.

    The best are tried first; if these do not hold all replicas, the roomiest are.
    """
    if not members:
        return "none of its clusters is left"
    limit = len(members) if unit.max_clusters is None else unit.max_clusters
    by_score = sorted(members, key=lambda each: (-each.score, each.cluster.name))
    if unit.scheduling_mode != DIVIDE or not unit.desired_replicas or limit <= 0:
        return [each.cluster.name for each in by_score[: max(0, limit)]]
    by_room = sorted(members, key=lambda each: (-each.room, -each.score, each.cluster.name))
    most = 0
    for order in (by_score, by_room):
        chosen = _within_minima(order, unit.desired_replicas, limit)
        held = sum(each.room for each in chosen.values())
        if held >= unit.desired_replicas:
            return [each.cluster.name for each in by_score if each.cluster.name in chosen]
        most = max(most, held)
    return f"{min(limit, len(members))} of its clusters hold {most} of {unit.desired_replicas} replicas"


def _within_minima(order: Sequence[Ranked], replicas: int, limit: int) -> dict[str, Ranked]:
    """The first clusters whose minima all replicas are enough for, by name."""
    chosen: dict[str, Ranked] = {}
    left = replicas
    for each in order:
        if len(chosen) < limit and each.minimum <= left:
            chosen[each.cluster.name] = each
            left -= each.minimum
    return chosen
