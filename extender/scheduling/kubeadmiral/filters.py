"""KubeAdmiral's filters. Each is why one cluster is ruled out, or None."""

from collections.abc import Callable
from typing import Final

from extender.scheduling.kubeadmiral.resources import cluster_resources, requested
from extender.scheduling.kubeadmiral.terms import InvalidTermError, any_matches
from extender.scheduling.kubeadmiral.unit import SchedulingUnit
from fleet.model.cluster import Cluster
from fleet.model.taint import NO_EXECUTE, repelling_taints

Filter = Callable[[SchedulingUnit, Cluster], str | None]

_PLAIN_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def api_resources(unit: SchedulingUnit, cluster: Cluster) -> str | None:
    """APIResources: the cluster must serve the object's kind, wherever the object is now."""
    served = (unit.api_version, unit.kind) in cluster.enabled_kinds()
    return None if served else f"does not serve {unit.api_version} {unit.kind}"


def taint_toleration(unit: SchedulingUnit, cluster: Cluster) -> str | None:
    """TaintToleration: NoSchedule and NoExecute taints must be tolerated; where the object is, only the latter."""
    taints = repelling_taints(cluster.spec.taints, unit.tolerations)
    if cluster.name in unit.current:
        taints = [taint for taint in taints if taint.effect == NO_EXECUTE]
    return f"has untolerated taint {', '.join(map(str, taints))}" if taints else None


def placement_filter(unit: SchedulingUnit, cluster: Cluster) -> str | None:
    """PlacementFilter: if the policy lists clusters, only these."""
    return None if not unit.candidates or cluster.name in unit.candidates else "is not listed in the placement"


def cluster_affinity(unit: SchedulingUnit, cluster: Cluster) -> str | None:
    """ClusterAffinity: the selector's labels, then one of the required terms."""
    labels = cluster.metadata.labels
    for key, value in unit.cluster_selector.items():
        if labels.get(key) != value:
            return f"label {key}={value} does not hold"
    if unit.required is None:
        return None
    try:
        return None if any_matches(unit.required, cluster) else "no term of the affinity matches"
    except InvalidTermError as error:
        return f"the affinity has an invalid term: {error}"


def cluster_ready(unit: SchedulingUnit, cluster: Cluster) -> str | None:
    """ClusterReady: only ready clusters, but where the object is it may stay."""
    return None if cluster.name in unit.current or cluster.ready else "is not ready"


def cluster_terminating(unit: SchedulingUnit, cluster: Cluster) -> str | None:  # noqa: ARG001 - a filter's signature
    """ClusterTerminating: no cluster that is going, even if the object is there."""
    return "is being deleted" if cluster.deleting else None


def cluster_evicted(unit: SchedulingUnit, cluster: Cluster) -> str | None:
    """ClusterEvicted: none that custom migration keeps the object off."""
    return "is being evicted of this workload" if cluster.name in unit.evicted else None


def cluster_resources_fit(unit: SchedulingUnit, cluster: Cluster) -> str | None:
    """ClusterResourcesFit: one replica must fit what is not used. Ephemeral storage is never compared."""
    if cluster.name in unit.current or not _requests_anything(unit):
        return None
    resources = cluster_resources(cluster)
    wanted = {"cpu": 0, "memory": 0, **requested(unit)}
    wanted.pop("ephemeral-storage", None)
    short = [
        name
        for name, amount in wanted.items()
        if (amount or name in {"cpu", "memory"}) and resources.allocatable(name) < amount + resources.used(name)
    ]
    return f"has insufficient {', '.join(short)}" if short else None


def _requests_anything(unit: SchedulingUnit) -> bool:
    """A scalar resource counts even if none of it is requested, as in KubeAdmiral."""
    return any(amount.nanos or name not in _PLAIN_RESOURCES for name, amount in unit.requests.items())


FILTERS: Final[dict[str, Filter]] = {
    "APIResources": api_resources,
    "TaintToleration": taint_toleration,
    "PlacementFilter": placement_filter,
    "ClusterAffinity": cluster_affinity,
    "ClusterReady": cluster_ready,
    "ClusterTerminating": cluster_terminating,
    "ClusterEvicted": cluster_evicted,
    "ClusterResourcesFit": cluster_resources_fit,
}
DEFAULT_FILTERS: Final = tuple(name for name in FILTERS if name != "ClusterResourcesFit")
