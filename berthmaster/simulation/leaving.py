"""What takes workloads off a cluster: Karmada's taint manager, Berthmaster's failover, and the deletion of a cluster.

Each rule says what follows from the clusters as they are, under the assumptions of the world.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

import msgspec.structs

from berthmaster.deciding.failover import Replacement, eviction_tasks, replacement
from berthmaster.deciding.refusal import MoveRefusal
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, GracefulEvictionTask, TargetCluster
from berthmaster.model.cluster import NO_EXECUTE, Cluster, Taint, Toleration
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.placement import AffinityTerm, Placement
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, trigger_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.assumptions import TAINT_MANAGER, Assumptions
from berthmaster.simulation.workload import SimulatedWorkload

_PRODUCER: Final = "berthmaster"


def evicted(
    workload: SimulatedWorkload, fleet: Fleet, assumptions: Assumptions, now: datetime, *, is_scheduled: bool
) -> SimulatedWorkload:
    """Return a workload without the clusters whose NoExecute taints it does not tolerate, as Karmada's taint manager.

    It evicts the bindings of every scheduler, also suspended ones (karmada ``taint_manager.go``). A binding that no
    scheduler has written has no applied placement, and is never evicted. A limited toleration only delays the eviction.

    Args:
        is_scheduled: whether a scheduler looks at the binding, so that it gets an applied placement.
    """
    binding = workload.binding
    if not assumptions.evicts or binding is None or binding.metadata.deletion_timestamp is not None:
        return workload
    tainted = [each for each in binding.spec.clusters if _no_execute(fleet.get(each.name))]
    tolerations = _applied_tolerations(binding, is_scheduled=is_scheduled) if tainted else None
    if tolerations is None:
        return workload
    notes = []
    for target in tainted:
        taints = _no_execute(fleet.get(target.name))
        after_s = evicted_after_s(taints, tolerations)
        if after_s is None:
            continue
        binding = _evicted(binding, target, now)
        if after_s:
            notes.append(f"evicted from {target.name} after {after_s} s: it tolerates the taint for that long")
    return replace(workload, binding=binding, notes=(*workload.notes, *notes))


def evicted_after_s(taints: Sequence[Taint], tolerations: Iterable[Toleration]) -> int | None:
    """Return the seconds after which NoExecute taints evict a workload; None if it tolerates them without a limit.

    As in Karmada, the first toleration that tolerates a taint counts, and of several limits the shortest.

    Args:
        taints: the NoExecute taints of the cluster; all of them are new.
    """
    given = list(tolerations)
    used = [next((each for each in given if each.tolerates(taint)), None) for taint in taints]
    if None in used:
        return 0
    limits = [
        max(0, each.toleration_seconds) for each in used if each is not None and each.toleration_seconds is not None
    ]
    return min(limits, default=None)


class Replaced(NamedTuple):
    """What Berthmaster's failover does with a workload."""

    binding: Binding
    note: str = ""


def replaced(scheduler: Scheduler, binding: Binding, assumptions: Assumptions, now: datetime) -> Replaced | None:
    """Return a binding after Berthmaster's failover; None if that does not concern it (``deciding/failover.py``).

    Args:
        binding: the binding, without a move under way. A scheduler looks at it.
    """
    if not assumptions.replaces or binding.scheduler != assumptions.replaces:
        return None
    lost = frozenset(
        each.name
        for each in binding.spec.clusters
        if (cluster := scheduler.fleet.get(each.name)) is not None and not cluster.ready
    )
    if not lost:
        return None
    request = Request.of(binding)
    found = replacement(scheduler, request, lost)
    if isinstance(found, MoveRefusal):
        return Replaced(binding, f"stays on {', '.join(sorted(lost))}, which is not ready: {found.message}")
    return Replaced(_with_replacement(binding, request, found, now))


def _with_replacement(binding: Binding, request: Request, found: Replacement, now: datetime) -> Binding:
    tasks = tuple(
        msgspec.structs.replace(each, creation_timestamp=now) for each in eviction_tasks(binding, found, _PRODUCER)
    )
    spec = msgspec.structs.replace(
        binding.spec,
        clusters=tuple(TargetCluster(name, replicas) for name, replicas in sorted(found.clusters.items())),
        graceful_eviction_tasks=(*binding.spec.graceful_eviction_tasks, *tasks),
    )
    applied = encode_json(request.placement).decode()
    metadata = msgspec.structs.replace(
        binding.metadata, annotations={**binding.metadata.annotations, APPLIED_PLACEMENT: applied}
    )
    status = binding.status
    if not binding.reschedule_requested:
        status = msgspec.structs.replace(status, scheduler_observing_affinity_name=found.group, last_scheduled_time=now)
    return msgspec.structs.replace(binding, metadata=metadata, spec=spec, status=status)


def misses_deletion(binding: Binding, fleet: Fleet) -> bool:
    """Return whether a cluster of a binding is being deleted, and no scheduler notices.

    A deletion queues only the bindings whose affinity matches the cluster now (``enqueueAffectedBindings``). Nothing
    else queues the others, unless their binding changes for another reason.
    """
    deleting = [
        cluster for each in binding.spec.clusters if (cluster := fleet.get(each.name)) is not None and cluster.deleting
    ]
    if not deleting or trigger_of(binding, fleet) is not Trigger.FAILOVER:
        return False
    if trigger_of(binding, Fleet()) is Trigger.FAILOVER:  # a reason that needs no cluster
        return False
    return not any(_is_queued(binding, each) for each in deleting)


def _is_queued(binding: Binding, cluster: Cluster) -> bool:
    placement = binding.spec.placement
    if placement is None:
        return False
    affinity = placement.cluster_affinity
    if placement.cluster_affinities is not None:
        if binding.status.scheduler_observed_generation != binding.metadata.generation:
            return True
        group = binding.status.scheduler_observing_affinity_name
        terms = placement.cluster_affinities
        affinity = next((each for each in terms if each.affinity_name == group), terms[0] if terms else None)
    return affinity is None or AffinityTerm(affinity).matches(cluster)


def _no_execute(cluster: Cluster | None) -> list[Taint]:
    return [each for each in cluster.spec.taints if each.effect == NO_EXECUTE] if cluster is not None else []


def _applied_tolerations(binding: Binding, *, is_scheduled: bool) -> tuple[Toleration, ...] | None:
    """Return the tolerations that count for evictions: those of the last scheduling; None if nothing evicts it."""
    applied = binding.metadata.annotations.get(APPLIED_PLACEMENT)
    if not applied:
        placement = binding.spec.placement if is_scheduled else None
        return placement.cluster_tolerations if placement is not None else None
    try:
        return decode_json(Placement, applied).cluster_tolerations
    except FieldError:
        return None


def _evicted(binding: Binding, target: TargetCluster, now: datetime) -> Binding:
    """Remove a cluster from a binding, and exclude it by an eviction task (``GracefulEvictCluster``)."""
    spec = binding.spec
    known = any(task.from_cluster == target.name for task in spec.graceful_eviction_tasks)
    failover = spec.failover.cluster if spec.failover is not None else None
    task = GracefulEvictionTask(
        from_cluster=target.name,
        producer=TAINT_MANAGER,
        reason="TaintUntolerated",
        purge_mode=(failover.purge_mode if failover is not None else "") or "Gracefully",
        replicas=target.replicas or None,
        creation_timestamp=now,
    )
    spec = msgspec.structs.replace(
        spec,
        clusters=tuple(each for each in spec.clusters if each.name != target.name),
        graceful_eviction_tasks=(*spec.graceful_eviction_tasks, *(() if known else (task,))),
    )
    return msgspec.structs.replace(binding, spec=spec)
