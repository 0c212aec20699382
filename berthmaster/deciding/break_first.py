"""The eviction tasks of moves with BreakBeforeMake. Pure functions.

A task with the purge mode ``Directly`` and ``suppressDeletion`` makes Karmada delete the copy at once, and stays. It
must stay, because Karmada injects preserved state into a new copy only from a task (karmada
``pkg/controllers/binding/common.go``).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from berthmaster.deciding.refusal import Cause, MoveRefusal
from berthmaster.model.binding import DIRECTLY, Binding, GracefulEvictionTask
from berthmaster.model.move import EVICTION_REASON, MoveState, written_clusters
from berthmaster.model.policy import ApplicationFailoverBehavior

_NEVER: Final = "Never"
_PATH: Final = re.compile(r"\{?\s*\$?((?:\.[A-Za-z_][A-Za-z0-9_-]*)+)\s*\}?")


def why_not_broken(binding: Binding, clusters: Iterable[str]) -> MoveRefusal | None:
    """Return why the old copies of a workload cannot be removed first; None if they can."""
    behavior = _behavior(binding)
    if behavior.purge_mode == _NEVER:
        why = "purgeMode Never of failover.application keeps the old copy, and the workload must not run twice"
        return MoveRefusal(Cause.KEEPS_OLD_COPY, why)
    for cluster in clusters:
        state = _preserved(binding, cluster)
        if isinstance(state, MoveRefusal):
            return state
    return None


def tasks_before(binding: Binding, state: MoveState, producer: str) -> tuple[GracefulEvictionTask, ...]:
    """Return all tasks of a binding from the time on when the old copies go.

    Args:
        binding: the binding. ``why_not_broken`` must return None for it.
    """
    kept = written_clusters(state)
    leaving = [name for name in sorted(state.source) if name not in kept]
    others = tuple(task for task in binding.spec.graceful_eviction_tasks if task.from_cluster not in leaving)
    return (*others, *(_task(binding, state, name, producer) for name in leaving))


def tasks_after(binding: Binding, state: MoveState, producer: str) -> tuple[GracefulEvictionTask, ...]:
    """Return all tasks of a binding without those of its move."""
    clusters = state.source.keys() | state.target.keys()
    return tuple(
        task
        for task in binding.spec.graceful_eviction_tasks
        if not (task.producer == producer and task.reason == EVICTION_REASON and task.from_cluster in clusters)
    )


def leftover_tasks(binding: Binding, producer: str) -> tuple[GracefulEvictionTask, ...] | None:
    """Return all tasks of a binding without those of moves; None if there are none of moves."""
    tasks = binding.spec.graceful_eviction_tasks
    others = tuple(task for task in tasks if task.producer != producer or task.reason != EVICTION_REASON)
    return None if len(others) == len(tasks) else others


def returning_tasks(
    binding: Binding, state: MoveState, back: MoveState, producer: str
) -> tuple[GracefulEvictionTask, ...]:
    """Return all tasks of a binding whose move turns around: the tasks of the way there go."""
    others = tasks_after(binding, state, producer)
    kept = written_clusters(back)
    leaving = [name for name in sorted(back.source) if name not in kept]
    listed = {task.from_cluster for task in others}
    return (*others, *(_task(binding, back, name, producer) for name in leaving if name not in listed))


def _task(binding: Binding, state: MoveState, cluster: str, producer: str) -> GracefulEvictionTask:
    purge_mode = _behavior(binding).purge_mode or DIRECTLY
    preserved = _preserved(binding, cluster)
    return GracefulEvictionTask(
        cluster,
        producer=producer,
        reason=EVICTION_REASON,
        purge_mode=purge_mode,
        message=f"{state.reason.value}: the old copy goes before the new one starts",
        replicas=state.source[cluster] or None,
        suppress_deletion=True if purge_mode == DIRECTLY else None,
        preserved_label_state={} if isinstance(preserved, MoveRefusal) else preserved,
        clusters_before_failover=tuple(sorted(state.source)) if preserved else (),
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
