"""When a binding needs scheduling (karmada ``doScheduleBinding``)."""

from enum import Enum
from typing import Final

import msgspec.structs

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.applied_placement import decoded_placement, without_empty_groups
from berthmaster.model.binding import Binding, BindingSpec
from berthmaster.model.division_strategy import Strategy, strategy_of
from berthmaster.model.placement import Placement
from berthmaster.scheduling.fleet import Fleet

_NOT_COMPARED: Final = frozenset({"cluster_affinities", "workload_affinity"})
"""The parts of a placement that do not count as a whole."""


class Trigger(Enum):
    """Why a binding is scheduled."""

    FIRST = "First"
    """It was never scheduled: it has no applied placement."""
    RECONCILE = "Reconcile"
    """Its placement changed, or Karmada schedules such bindings at every event."""
    SCALE = "Scale"
    """The requested replicas differ from the assigned ones."""
    RESCHEDULED = "Rescheduled"
    FAILOVER = "Failover"
    """A cluster of the assignment is being deleted or evicted or, if that counts, is not ready."""
    NONE = "None"
    """No reason. The assignment stays, even if the fleet changed."""


def trigger_of(binding: Binding, fleet: Fleet, *, not_ready_counts: bool = False) -> Trigger:
    """Return why a binding must be scheduled now: the first reason that applies, in Karmada's order.

    Args:
        binding: the binding. Without a placement it is never scheduled.
        not_ready_counts: an assigned cluster that is not ready is a reason. Karmada uses taints and evictions instead.
    """
    spec = binding.spec
    if spec.placement is None:
        return Trigger.NONE
    applied = binding.applied_placement
    if not applied:
        return Trigger.FIRST
    if placement_changed(spec.placement, applied, binding.status.scheduler_observing_affinity_name):
        return Trigger.RECONCILE
    if replicas_changed(spec):
        return Trigger.FAILOVER if _evicted_since_scheduling(binding) else Trigger.SCALE
    if binding.reschedule_requested:
        return Trigger.RESCHEDULED
    if _loses_a_cluster(spec, fleet, not_ready_counts=not_ready_counts):
        return Trigger.FAILOVER
    if not spec.is_workload or strategy_of(spec.placement.replica_scheduling) is Strategy.DUPLICATED:
        return Trigger.FAILOVER if _evicted_since_scheduling(binding) else Trigger.RECONCILE
    return Trigger.NONE


def placement_changed(placement: Placement, applied: str, observed_group: str, *, in_order: bool = True) -> bool:
    """Return whether a placement differs from the applied one in a way that affects the assignment.

    Of several groups only the one that the assignment came from counts. A change to the others, or to their order, does
    not. Workload affinity does not count. An applied placement that cannot be decoded counts as unchanged.
    ``in_order``: whether another order of the clusters of ``clusterAffinity`` is a change. Karmada schedules again
    after one. For a MultiClusterService, Karmada itself writes them in any order.
    """
    before = decoded_placement(applied)
    if before is None:
        return False
    placement = without_empty_groups(placement)
    if not in_order:
        placement, before = _sorted(placement), _sorted(before)
    if placement == before:
        return False
    for part in Placement.__struct_fields__:
        if part not in _NOT_COMPARED and getattr(placement, part) != getattr(before, part):
            return True
    if not observed_group:
        return True
    now, then = placement.group(observed_group), before.group(observed_group)
    return now is None or then is None or now != then


def replicas_changed(spec: BindingSpec) -> bool:
    """Return whether the assigned replicas differ from the requested ones (``IsBindingReplicasChanged``)."""
    if spec.placement is None or spec.placement.replica_scheduling is None:
        return False
    if spec.components and not spec.clusters:
        return True  # it was evicted from its cluster (gate MultiplePodTemplatesScheduling)
    match spec.placement.replica_scheduling.replica_scheduling_type:
        case "Duplicated":
            return any(target.replicas != spec.replicas for target in spec.clusters)
        case "Divided":
            return sum([target.replicas for target in spec.clusters]) != spec.replicas
        case _:
            return False


def _evicted_since_scheduling(binding: Binding) -> bool:
    """Whether an eviction is newer than the last successful scheduling. A new task has no creation time yet."""
    tasks, scheduled = binding.spec.graceful_eviction_tasks, binding.status.last_scheduled_time
    if not tasks or scheduled is None:
        return bool(tasks)
    return any(each.creation_timestamp is None or each.creation_timestamp > scheduled for each in tasks)


def _loses_a_cluster(spec: BindingSpec, fleet: Fleet, *, not_ready_counts: bool) -> bool:
    if not (spec.graceful_eviction_tasks or fleet.deleting or not_ready_counts):
        return False
    evicted = {task.from_cluster for task in spec.graceful_eviction_tasks}
    for target in spec.clusters:
        if target.name in evicted or target.name in fleet.deleting:
            return True
        cluster = fleet.get(target.name)
        if not_ready_counts and (cluster is None or not cluster.ready):
            return True
    return False


def _sorted(placement: Placement) -> Placement:
    affinity = placement.cluster_affinity
    if affinity is None:
        return placement
    names = tuple(sorted(affinity.cluster_names))
    return msgspec.structs.replace(placement, cluster_affinity=msgspec.structs.replace(affinity, cluster_names=names))


def queuing_affinity(binding: Binding, placement: Placement) -> ClusterAffinity | None:
    """Return the affinity that a changed cluster must match to queue a binding; None if each cluster does.

    Overflow does not count (karmada ``enqueueAffectedBindings``).
    """
    groups = placement.cluster_affinities
    if groups is None:
        return placement.cluster_affinity
    if not groups or binding.status.scheduler_observed_generation != binding.metadata.generation:
        return None
    return placement.group(binding.status.scheduler_observing_affinity_name) or groups[0]
