"""What Karmada's taint manager takes off clusters, under the assumptions of a world."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from berthmaster.model.applied_placement import decoded_placement
from berthmaster.model.binding import Binding, GracefulEvictionTask, TargetCluster
from berthmaster.model.meta import with_spec
from berthmaster.model.taint import NO_EXECUTE, Taint, Toleration
from berthmaster.scheduling.fleet import Fleet
from berthmaster.simulation.plan_answer import TAINT_MANAGER, Assumptions
from berthmaster.simulation.workload import SimulatedWorkload


def evicted(
    workload: SimulatedWorkload, fleet: Fleet, assumptions: Assumptions, now: datetime, *, is_scheduled: bool
) -> SimulatedWorkload:
    """Return a workload without the clusters whose NoExecute taints it does not tolerate, as Karmada's taint manager.

    It evicts the bindings of every scheduler, also suspended ones (karmada ``taint_manager.go``). A binding that no
    scheduler has written has no applied placement, and is never evicted. A limited toleration only delays the eviction.
    ``is_scheduled``: whether a scheduler looks at the binding, so that it gets an applied placement.
    """
    binding = workload.binding
    if not assumptions.evicts or binding is None or binding.metadata.deletion_timestamp is not None:
        return workload
    tainted = [each for each in binding.spec.clusters if each.name in fleet.evicting]
    tolerations = _applied_tolerations(binding, is_scheduled=is_scheduled) if tainted else None
    if tolerations is None:
        return workload
    notes = []
    for target in tainted:
        cluster = fleet.get(target.name)
        taints = [each for each in cluster.spec.taints if each.effect == NO_EXECUTE] if cluster is not None else []
        after_s = evicted_after_s(taints, tolerations)
        if after_s is None:
            continue
        binding = _evicted(binding, target, now)
        if after_s:
            notes.append(f"evicted from {target.name} after {after_s} s: it tolerates the taint for that long")
    return replace(workload, binding=binding, notes=(*workload.notes, *notes))


def evicted_after_s(taints: Sequence[Taint], tolerations: Iterable[Toleration]) -> int | None:
    """Return the seconds after which NoExecute taints evict a workload; None if it tolerates them without a limit.

    As in Karmada, the first toleration that tolerates a taint counts, and of several limits the shortest. ``taints``:
    the NoExecute taints of the cluster; all of them are new.
    """
    given = list(tolerations)
    used = [next((each for each in given if each.tolerates(taint)), None) for taint in taints]
    if None in used:
        return 0
    limits = [
        max(0, each.toleration_seconds) for each in used if each is not None and each.toleration_seconds is not None
    ]
    return min(limits, default=None)


def _applied_tolerations(binding: Binding, *, is_scheduled: bool) -> tuple[Toleration, ...] | None:
    """Return the tolerations that count for evictions: those of the last scheduling; None if nothing evicts it."""
    applied = binding.applied_placement
    if not applied:
        placement = binding.spec.placement if is_scheduled else None
        return placement.cluster_tolerations if placement is not None else None
    applied_placement = decoded_placement(applied)
    return applied_placement.cluster_tolerations if applied_placement is not None else None


def _evicted(binding: Binding, target: TargetCluster, now: datetime) -> Binding:
    """Remove a cluster from a binding, and exclude it by an eviction task (``GracefulEvictCluster``)."""
    spec = binding.spec
    known = target.name in binding.evicted_from
    task = GracefulEvictionTask(
        from_cluster=target.name,
        producer=TAINT_MANAGER,
        reason="TaintUntolerated",
        purge_mode=binding.cluster_purge_mode,
        replicas=target.replicas or None,
        creation_timestamp=now,
    )
    return with_spec(
        binding,
        clusters=tuple(each for each in spec.clusters if each.name != target.name),
        graceful_eviction_tasks=(*spec.graceful_eviction_tasks, *(() if known else (task,))),
    )
