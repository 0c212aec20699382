"""When karmada-scheduler tries a workload again.

- It ignores the error that no cluster fits (``getConditionByError``). It tries again when the spec of the binding
  changes, or when the labels or the spec of a cluster change that the binding may use (``enqueueAffectedBindings``).
  The status of a cluster, such as a kind that it serves now, is no event. Berthmaster's scheduler tries again.
- A deletion of a cluster queues only the bindings whose affinity matches the cluster now.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from berthmaster.model.affinity import AffinityTerm
from berthmaster.model.binding import Binding, BindingSpec
from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, queuing_affinity, trigger_of
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload, Unscheduled

_NO_EVENTS: Final = frozenset({"resource", "conflict_resolution"})
"""The fields of a binding that a simulation completes. A change of each other one makes the scheduler try again."""


def stalls(workload: SimulatedWorkload) -> bool:
    """Return whether nothing makes karmada-scheduler try a workload again."""
    at, binding = workload.stalled_at, workload.binding
    if at is None or binding is None:
        return False
    return all(
        getattr(at, each) == getattr(binding.spec, each)
        for each in BindingSpec.__struct_fields__
        if each not in _NO_EVENTS
    )


def not_retried(assignment: Mapping[str, int]) -> Unscheduled:
    """Return that a workload without clusters would be placed, and what would make the scheduler do so."""
    clusters = ", ".join(f"{name}={count}" if count else name for name, count in sorted(assignment.items()))
    return Unscheduled(
        NotScheduled.NOT_RETRIED,
        f"it fits now ({clusters}), but nothing triggers its scheduling: karmada-scheduler does not try again after "
        "NoClusterFit. An edit of its placement, a label or taint of a cluster, or a WorkloadRebalancer does",
    )


def woken(
    workloads: Sequence[SimulatedWorkload], before: Cluster | None, after: Cluster
) -> Sequence[SimulatedWorkload]:
    """Return workloads after a change of a cluster, which makes the scheduler try those again that may use it.

    ``before``: the cluster before; None if it joins. Karmada taints a new cluster, which is a change of its spec.
    """
    if before is not None and (before.metadata.labels, before.spec, before.deleting) == (
        after.metadata.labels, after.spec, after.deleting,
    ):  # fmt: skip
        return workloads
    versions = [each for each in (before, after) if each is not None]
    return [
        replace(each, stalled_at=None) if each.stalled_at is not None and _may_use(each.binding, versions) else each
        for each in workloads
    ]


def _may_use(binding: Binding | None, versions: Iterable[Cluster]) -> bool:
    """Whether the affinity of a binding matches a version of a cluster. Groups count as matching after a failure."""
    placement = binding.spec.placement if binding is not None else None
    if placement is None:
        return False
    if placement.cluster_affinities is not None or placement.cluster_affinity is None:
        return True
    term = AffinityTerm(placement.cluster_affinity)
    return any(term.matches(each) for each in versions)


def misses_deletion(binding: Binding, fleet: Fleet) -> bool:
    """Return whether a cluster of a binding is being deleted, and no scheduler notices.

    A deletion queues only the bindings whose affinity matches the cluster now (``enqueueAffectedBindings``). Nothing
    else queues the others, unless their binding changes for another reason.
    """
    names = [each.name for each in binding.spec.clusters if each.name in fleet.deleting]
    deleting = [cluster for each in names if (cluster := fleet.get(each)) is not None]
    if not deleting or trigger_of(binding, fleet) is not Trigger.FAILOVER:
        return False
    if trigger_of(binding, Fleet()) is Trigger.FAILOVER:  # a reason that needs no cluster
        return False
    return not any(_is_queued(binding, each) for each in deleting)


def _is_queued(binding: Binding, cluster: Cluster) -> bool:
    placement = binding.spec.placement
    if placement is None:
        return False
    affinity = queuing_affinity(binding, placement)
    return affinity is None or AffinityTerm(affinity).matches(cluster)
