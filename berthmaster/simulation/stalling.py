"""Workloads that karmada-scheduler does not try again by itself, although a cluster would fit now.

It ignores the error that no cluster fits (karmada ``getConditionByError``). It tries again when the spec of the binding
changes, or when the labels or the spec of a cluster change that the binding may use (``enqueueAffectedBindings``). The
status of a cluster, such as a kind that it serves now, is no event. Berthmaster's scheduler tries again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.placement import AffinityTerm
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload, Unscheduled

_EVENTS: Final = (
    "placement", "replicas", "replica_requirements", "components", "clusters", "scheduler_name", "suspension",
    "propagate_deps", "graceful_eviction_tasks", "required_by", "reschedule_triggered_at",
)  # fmt: skip
"""The fields of a binding that a change of a world can change. A change of any makes the scheduler try again."""


def stalls(workload: SimulatedWorkload) -> bool:
    """Return whether nothing makes karmada-scheduler try a workload again."""
    at, binding = workload.stalled_at, workload.binding
    if at is None or binding is None:
        return False
    return all(getattr(at, each) == getattr(binding.spec, each) for each in _EVENTS)


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

    Args:
        workloads: the workloads.
        before: the cluster before; None if it joins. Karmada taints a new cluster, which is a change of its spec.
        after: the cluster after.
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
