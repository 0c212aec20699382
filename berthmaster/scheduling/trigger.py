"""What makes a binding need scheduling (karmada ``doScheduleBinding``)."""

from enum import Enum

import msgspec.structs

from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, BindingSpec
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.placement import ClusterAffinityTerm, Placement
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.plan import Strategy, strategy_of


class Trigger(Enum):
    """Why a binding is scheduled."""

    FIRST = "First"
    """It never was: no applied placement is on record."""

    RECONCILE = "Reconcile"
    """Its placement changed, or it is of a sort that Karmada schedules at every event."""

    SCALE = "Scale"
    """It is to have another number of replicas than it is assigned."""

    RESCHEDULED = "Rescheduled"
    """Somebody asked for it after it was scheduled last."""

    FAILOVER = "Failover"
    """A cluster it is, or was, assigned to is going, or - where that counts - not ready."""

    NONE = "None"
    """Nothing: its assignment stays, whatever else changed in the fleet."""


def trigger_of(binding: Binding, fleet: Fleet, *, not_ready_counts: bool = False) -> Trigger:
    """Why a binding has to be scheduled now, the first reason that holds in Karmada's order.

    Args:
        binding: as it stands. Without a placement nothing can be scheduled.
        fleet: the clusters it is assigned to are looked up there.
        not_ready_counts: an assigned cluster that is not Ready is a reason; in Karmada taints and evictions see to it.
    """
    spec = binding.spec
    if spec.placement is None:
        return Trigger.NONE
    applied = binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
    if not applied:
        return Trigger.FIRST
    if placement_changed(spec.placement, applied, binding.status.scheduler_observing_affinity_name):
        return Trigger.RECONCILE
    if replicas_changed(spec):
        return Trigger.FAILOVER if spec.graceful_eviction_tasks else Trigger.SCALE
    if binding.reschedule_requested:
        return Trigger.RESCHEDULED
    if _loses_a_cluster(spec, fleet, not_ready_counts=not_ready_counts):
        return Trigger.FAILOVER
    if not spec.is_workload or strategy_of(spec.placement.replica_scheduling) is Strategy.DUPLICATED:
        return Trigger.RECONCILE
    return Trigger.NONE


def placement_changed(placement: Placement, applied: str, observed_group: str) -> bool:
    """Whether a placement differs, where it matters for the assignment, from the one that was applied last.

    Of several groups only the one that the assignment came from matters: editing, adding, removing or reordering the
    others moves nothing. Workload affinity plays no part. An unreadable record counts as unchanged.

    Args:
        placement: as it is now.
        applied: the JSON of the one that was applied.
        observed_group: the group that the assignment came from; empty for none.
    """
    try:
        before = _without_empty(decode_json(Placement, applied))
    except FieldError:
        return False
    placement = _without_empty(placement)
    if placement == before:
        return False
    for part in ("cluster_affinity", "cluster_tolerations", "spread_constraints", "replica_scheduling"):
        if getattr(placement, part) != getattr(before, part):
            return True
    if not observed_group:
        return True
    now, then = _term(placement, observed_group), _term(before, observed_group)
    return now is None or then is None or now != then


def replicas_changed(spec: BindingSpec) -> bool:
    """Whether the assignment does not add up to the replicas that are wanted (``IsBindingReplicasChanged``)."""
    if spec.placement is None or spec.placement.replica_scheduling is None:
        return False
    match spec.placement.replica_scheduling.replica_scheduling_type:
        case "Duplicated":
            return any(target.replicas != spec.replicas for target in spec.clusters)
        case "Divided":
            return sum(target.replicas for target in spec.clusters) != spec.replicas
        case _:
            return False


def _loses_a_cluster(spec: BindingSpec, fleet: Fleet, *, not_ready_counts: bool) -> bool:
    evicted = {task.from_cluster for task in spec.graceful_eviction_tasks}
    for target in spec.clusters:
        cluster = fleet.get(target.name)
        if target.name in evicted or (cluster is not None and cluster.deleting):
            return True
        if not_ready_counts and (cluster is None or not cluster.ready):
            return True
    return False


def _without_empty(placement: Placement) -> Placement:
    """Empty lists of groups and of overflow are not written to the record, so that they read like absent ones."""
    terms = [
        msgspec.structs.replace(term, overflow_affinities=term.overflow_affinities or None)
        for term in placement.cluster_affinities or ()
    ]
    return msgspec.structs.replace(placement, cluster_affinities=tuple(terms) or None)


def _term(placement: Placement, name: str) -> ClusterAffinityTerm | None:
    return next((term for term in placement.cluster_affinities or () if term.affinity_name == name), None)
