"""Which copies of a workload exist, and whether they are healthy. Pure functions.

The Works of a binding are the truth: what Karmada asks each member for, and what it is deleting. The entries of
``status.aggregatedStatus`` lag behind by seconds. An entry may be about an older generation or about a Work that is
being deleted, and an absent entry may only mean that Karmada's controllers have restarted. So entries say when it is
worth reading the Works; no copy is released, replaced or believed gone by entries alone. docs/moves.md lists the rules.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final

from berthmaster.deciding.copy_checks import UNREAD, remains
from berthmaster.deciding.running import COUNTED
from berthmaster.model.binding import DIRECTLY, AggregatedStatusItem, Binding, GracefulEvictionTask, deletes_directly
from berthmaster.model.failover_behavior import ApplicationFailoverBehavior
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import EVICTION_REASON, MovePhase, MoveState, MoveStrategy, written_clusters
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.work import Copies, CopyOfWorkload

STATUS_LAG_S: Final = 10.0
"""How long a reported status may be older than a write."""


class CopiesNotReadError(Exception):
    """A decision needs the Works of the binding, and was taken without them. The caller reads them and decides again.

    No person sees this error.
    """


def unhealthy_by_report(
    binding: Binding, state: MoveState, now: Timestamp, unready: Container[str] = ()
) -> dict[str, str]:
    """Return the clusters of the target whose copies are not healthy by ``status.aggregatedStatus``, and why.

    Args:
        unready: the clusters that are not ready. What they reported last does not count.
    """
    if lag_left_s(state, now) > 0:
        return dict.fromkeys(state.target, "its status may be older than the move")
    items = {each.cluster_name: each for each in binding.status.aggregated_status}
    newest = max((each.number("resourceTemplateGeneration") for each in items.values()), default=0)
    kind = binding.spec.resource.kind
    return _unhealthy(
        state,
        unready,
        lambda name, replicas, shrinks: _problem(items.get(name), replicas, newest, kind, shrinks=shrinks),
    )


def unhealthy_by_works(
    binding: Binding, state: MoveState, copies: Copies, unready: Container[str] = ()
) -> dict[str, str]:
    """Return the clusters of the target whose copies are not healthy by their Works, and why."""
    if copies.problem:
        return dict.fromkeys(state.target, copies.problem)
    newest = max((each.generation for each in copies.by_cluster.values() if not each.deleting), default=0)
    kind, found = binding.spec.resource.kind, copies.by_cluster
    return _unhealthy(
        state,
        unready,
        lambda name, replicas, shrinks: _problem_of_copy(found.get(name), replicas, newest, kind, shrinks=shrinks),
    )


def _unhealthy(state: MoveState, unready: Container[str], problem: Callable[[str, int, bool], str]) -> dict[str, str]:
    """Return the problem of each cluster of the target that has one.

    ``problem`` gets a cluster, its replicas, and whether the move only takes replicas from it, and leaves some there.
    """
    found = {
        name: problem(name, replicas, replicas < state.source.get(name, 0))
        if name not in unready
        else "its cluster is not ready"
        for name, replicas in state.target.items()
    }
    return {name: why for name, why in found.items() if why}


def lag_left_s(state: MoveState, now: Timestamp) -> float:
    """Return the seconds until a reported status certainly is not older than the write that started the copies."""
    if state.phase is not MovePhase.SURGING:
        return 0.0
    return max(0.0, STATUS_LAG_S - seconds_since(state.since, now))


def rollback_loses_replicas(binding: Binding, state: MoveState, unready: Container[str] = ()) -> bool:
    """Return whether the members report more healthy replicas of the target of a move than of its source.

    The last report of a cluster that is not ready counts: its pods may still serve. With BreakBeforeMake the old copies
    are gone, so each healthy new one counts. They are given up only with their cluster.
    """
    if state.strategy is MoveStrategy.BREAK_BEFORE_MAKE:
        return state.phase is not MovePhase.ADMITTED and bool(healthy_new_copies(binding, state, unready))
    return _healthy_replicas(binding, state.home) < _healthy_replicas(binding, state.target)


def healthy_new_copies(binding: Binding, state: MoveState, unready: Container[str] = ()) -> int:
    """Return how many replicas of the target of a move are healthy, in clusters that are ready."""
    ready = {name: replicas for name, replicas in state.target.items() if name not in unready}
    return _healthy_replicas(binding, ready)


def reported_copies(binding: Binding, clusters: Iterable[str]) -> list[str]:
    """Return those of the clusters that still report a copy. A cluster without a report may still run one."""
    reported = {each.cluster_name for each in binding.status.aggregated_status}
    return sorted(reported.intersection(clusters))


def required_clusters(binding: Binding) -> set[str]:
    """Return the clusters that need the resource for another one there. Its copies on them are none of a move."""
    return {each.name for snapshot in binding.spec.required_by for each in snapshot.clusters}


def missing_replicas(binding: Binding) -> dict[str, int]:
    """Return how many assigned replicas each cluster reports as not ready. A cluster without a report is left out."""
    kind, items = binding.spec.resource.kind, {each.cluster_name: each for each in binding.status.aggregated_status}
    counted = {
        name: count - min(count, items[name].ready_replicas)
        for name, count in binding.assignment.items()
        if name in items and items[name].applied and (kind in COUNTED or items[name].counts_ready)
    }
    return {name: missing for name, missing in counted.items() if missing > 0}


def seconds_since(moment: Timestamp | None, now: Timestamp) -> float:
    """Return the seconds since a time; 0 for a time in the future or none."""
    return 0.0 if moment is None else max(0.0, (now - moment).total_seconds())


def _healthy_replicas(binding: Binding, assignment: Mapping[str, int]) -> int:
    """Return how many replicas of an assignment are healthy. A copy without replicas counts as one."""
    items = {each.cluster_name: each for each in binding.status.aggregated_status}
    kind = binding.spec.resource.kind
    return sum(_healthy_of(items[name], count, kind) for name, count in assignment.items() if name in items)


def _healthy_of(item: AggregatedStatusItem, replicas: int, kind: str) -> int:
    if kind in COUNTED or _has(item.status, "replicas"):
        return min(item.ready_replicas, replicas)
    return max(1, replicas) if item.applied and item.healthy else 0


def _problem_of_copy(copy: CopyOfWorkload | None, replicas: int, newest: int, kind: str, *, shrinks: bool) -> str:
    """Return why a copy does not count as healthy by its Work; empty if it does."""
    if copy is None:
        return "Karmada has not written its Work yet"
    if copy.deleting:
        return "its old copy is still being removed"
    if copy.replicas is not None and copy.replicas < replicas:
        return f"its Work asks for {copy.replicas} of {replicas} replicas"
    if copy.generation < newest:
        return "its Work carries an older template"
    return _problem(copy.item, replicas, copy.generation, kind, shrinks=shrinks)


def _problem(item: AggregatedStatusItem | None, replicas: int, newest: int, kind: str, *, shrinks: bool) -> str:
    """Return why a copy does not count as healthy; empty if it does.

    Karmada calls a copy unhealthy while any of its replicas does not run. If replicas leave it, those that stay count.
    """
    if item is None:
        return "it reports no status"
    if not item.applied:
        return "it is not applied"
    counts_replicas = bool(replicas) and (kind in COUNTED or _has(item.status, "replicas"))
    if not item.healthy and not (shrinks and counts_replicas):
        return f"its health is {item.health or 'unknown'}"
    status = item.status
    # Karmada reports no observedGeneration for a StatefulSet. Its health already needs one in the member.
    if _has(status, "observedGeneration") and item.number("observedGeneration") < item.number("generation"):
        return "its status is about an older generation"
    if 0 < item.number("resourceTemplateGeneration") < newest:
        return "it runs an older template"
    if counts_replicas and item.ready_replicas < replicas:
        return f"{item.ready_replicas} of {replicas} replicas are ready"
    return ""


def _has(status: Any, field: str) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(status, Mapping) and field in status


_GRACEFUL: Final = frozenset({"", "Gracefully", "Graciously"})
_PATH: Final = re.compile(r"\{?\s*\$?((?:\.[A-Za-z_][A-Za-z0-9_-]*)+)\s*\}?")


def why_not_broken(binding: Binding, clusters: Iterable[str]) -> MoveRefusal | None:
    """Return why the old copies of a workload cannot be removed first; None if they can, as far as the binding says."""
    for cluster in clusters:
        if (kept := remains(binding, cluster, UNREAD)) is not None:
            return kept
        state = _preserved(binding, cluster)
        if isinstance(state, MoveRefusal):
            return state
    return None


def tasks_before(
    binding: Binding, state: MoveState, producer: str, unready: Container[str] = ()
) -> tuple[GracefulEvictionTask, ...]:
    """Return all tasks of a binding from the time on when the old copies go. ``why_not_broken`` must be None for it.

    Tasks of an earlier way of the move go.

    A task with the purge mode ``Directly`` and ``suppressDeletion`` makes Karmada delete the copy at once, and stays.
    It must stay, because Karmada injects preserved state into a new copy only from a task (karmada
    ``pkg/controllers/binding/common.go``).
    """
    kept = written_clusters(state)
    left = {name: replicas for name, replicas in sorted(state.source.items()) if name not in kept}
    left |= _evicted(binding, kept, unready)
    others = tuple(task for task in binding.spec.graceful_eviction_tasks if task.from_cluster not in left)
    own = (_task(binding, state, name, replicas, producer) for name, replicas in left.items())
    return (*(task for task in others if not _is_own(task, producer)), *own)


def _evicted(binding: Binding, kept: Container[str], unready: Container[str]) -> dict[str, int]:
    """Return the replicas on clusters that another controller evicts gracefully: Karmada keeps them until others run.

    A move with BreakBeforeMake waits until they are gone, so it takes their tasks over. The copy on a cluster that is
    not ready cannot go. With the purge mode Directly it would keep all new copies away.
    """
    return {
        task.from_cluster: task.replicas or 0
        for task in binding.spec.graceful_eviction_tasks
        if task.reason != EVICTION_REASON
        and task.purge_mode in _GRACEFUL
        and not task.suppress_deletion
        and task.from_cluster not in kept
        and task.from_cluster not in unready
    }


def tasks_after(binding: Binding, producer: str) -> tuple[GracefulEvictionTask, ...]:
    """Return all tasks of a binding without those of its move."""
    return tuple(task for task in binding.spec.graceful_eviction_tasks if not _is_own(task, producer))


def own_tasks(binding: Binding, producer: str) -> tuple[GracefulEvictionTask, ...]:
    """Return the tasks of a binding that its move has written. ``producer`` is the name of the scheduler."""
    return tuple(task for task in binding.spec.graceful_eviction_tasks if _is_own(task, producer))


def _is_own(task: GracefulEvictionTask, producer: str) -> bool:
    return task.producer == producer and task.reason == EVICTION_REASON


def _task(binding: Binding, state: MoveState, cluster: str, replicas: int, producer: str) -> GracefulEvictionTask:
    purge_mode = _behavior(binding).purge_mode or DIRECTLY
    preserved = _preserved(binding, cluster)
    if isinstance(preserved, MoveRefusal):  # a copy that was never healthy: what its predecessor left counts
        known = (task.preserved_label_state for task in reversed(binding.spec.graceful_eviction_tasks))
        preserved = next((each for each in known if each), {})
    return GracefulEvictionTask(
        cluster,
        producer=producer,
        reason=EVICTION_REASON,
        purge_mode=purge_mode,
        message=f"{state.reason.value}: the old copy goes before the new one starts",
        replicas=replicas or None,
        suppress_deletion=True if deletes_directly(purge_mode) else None,
        preserved_label_state=preserved,
        clusters_before_failover=tuple(sorted({cluster, *state.source})) if preserved else (),
    )


def _behavior(binding: Binding) -> ApplicationFailoverBehavior:
    failover = binding.spec.failover
    application = failover.application if failover is not None else None
    return application or ApplicationFailoverBehavior()


def _preserved(binding: Binding, cluster: str) -> dict[str, str] | MoveRefusal:
    """Return the state to preserve of one copy, by label, or why it cannot be read."""
    preservation = _behavior(binding).state_preservation
    if preservation is None or not preservation.rules:
        return {}
    reported = {each.cluster_name: each.status for each in binding.status.aggregated_status}
    found = {}
    for rule in preservation.rules:
        value = _value(reported.get(cluster), rule.json_path)
        if value is None:
            why = f"the state {rule.json_path} of the copy on {cluster} cannot be read"
            return MoveRefusal(Cause.STATE_UNREADABLE, why, (rule.json_path, cluster))
        found[rule.alias_label_name] = value
    return found


def _value(status: Any, path: str) -> str | None:  # noqa: ANN401 - any JSON value
    """Return the text of a field as Go's JSONPath prints it; None if it does not exist or is no scalar."""
    match = _PATH.fullmatch(path.strip())
    if match is None:
        return None
    for name in match[1].removeprefix(".").split("."):
        if not isinstance(status, Mapping) or name not in status:
            return None
        status = status[name]
    if isinstance(status, bool):
        return "true" if status else "false"
    return str(status) if isinstance(status, str | int) else None
