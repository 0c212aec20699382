"""The graceful eviction tasks with which a move that breaks first makes Karmada delete the old copies."""

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from berthmaster.deciding.copy_checks import UNREAD, remains
from berthmaster.model.binding import DIRECTLY, Binding, GracefulEvictionTask, deletes_directly
from berthmaster.model.move import EVICTION_REASON, MoveState, written_clusters
from berthmaster.model.move_refusal import Cause, MoveRefusal

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
    binding: Binding,
    state: MoveState,
    producer: str,
    unready: Container[str] = (),
    given_up: Container[str] = (),
) -> tuple[GracefulEvictionTask, ...]:
    """Return all tasks of a binding from the time on when the old copies go. ``why_not_broken`` must be None for it.

    Tasks of an earlier way of the move go.

    A task with the purge mode ``Directly`` and ``suppressDeletion`` makes Karmada delete the copy at once, and stays.
    It must stay, because Karmada injects preserved state into a new copy only from a task (karmada
    ``pkg/controllers/binding/common.go``). Karmada writes no new copy before that one is gone, so a cluster that is
    given up gets none: its copy is deleted when it is back.
    """
    kept = written_clusters(state)
    going = {name: replicas for name, replicas in sorted(state.source.items()) if name not in kept}
    left = {name: replicas for name, replicas in going.items() if name not in given_up}
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
    purge_mode = binding.application_failover.purge_mode or DIRECTLY
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


def _preserved(binding: Binding, cluster: str) -> dict[str, str] | MoveRefusal:
    """Return the state to preserve of one copy, by label, or why it cannot be read."""
    preservation = binding.application_failover.state_preservation
    if preservation is None or not preservation.rules:
        return {}
    report, found = binding.reports.get(cluster), {}
    for rule in preservation.rules:
        value = _value(report.status if report is not None else None, rule.json_path)
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
