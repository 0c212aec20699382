"""Which copies of a workload exist, and whether they are healthy. Pure functions.

The Works of a binding are the truth: what Karmada asks each member for, and what it is deleting. The entries of
``status.aggregatedStatus`` lag behind by seconds. An entry may be about an older generation or about a Work that is
being deleted, and an absent entry may only mean that Karmada's controllers have restarted. So entries say when it is
worth reading the Works; no copy is released, replaced or believed gone by entries alone. docs/moves-copies.md has
the rules.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final

from berthmaster.deciding.running import COUNTED
from berthmaster.model.binding import AggregatedStatusItem, Binding
from berthmaster.model.meta import Timestamp, with_status
from berthmaster.model.move import MovePhase, MoveState, MoveStrategy
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
    items = binding.reports
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


def healthy_assigned(binding: Binding, clusters: Container[str]) -> int:
    """Return how many assigned replicas of a binding are healthy in some clusters."""
    return _healthy_replicas(binding, {name: count for name, count in binding.assignment.items() if name in clusters})


def reported_by_works(binding: Binding, copies: Copies | None) -> Binding:
    """Return a binding in whose status is what its Works say; the binding itself if they were not read.

    The status of the binding lags behind. It is empty for some time after a restart of Karmada's controllers.
    """
    if copies is None or copies.problem:
        return binding
    items = (copy.item for _, copy in sorted(copies.by_cluster.items()) if not copy.deleting)
    return with_status(binding, aggregated_status=tuple(items))


def reported_copies(binding: Binding, clusters: Iterable[str]) -> list[str]:
    """Return those of the clusters that still report a copy. A cluster without a report may still run one."""
    return sorted(binding.reports.keys() & set(clusters))


def present_replicas(binding: Binding) -> dict[str, int]:
    """Return the assigned replicas on clusters that have the workload: the numbers of these clusters include them."""
    reports = binding.reports
    return {name: count for name, count in binding.assignment.items() if name in reports and reports[name].runs}


def replicas_with_state(binding: Binding) -> dict[str, int]:
    """Return the present replicas whose cluster reports a state of the workload.

    A workload that is applied and has no state yet, as one whose operator has not seen it, may have no pods. Karmada
    then reports an empty state for some kinds. Other kinds never have one.
    """
    reports = binding.reports
    return {
        name: count
        for name, count in present_replicas(binding).items()
        if reports[name].healthy or reports[name].status
    }


def required_clusters(binding: Binding) -> set[str]:
    """Return the clusters that need the resource for another one there. Its copies on them are none of a move."""
    return {each.name for snapshot in binding.spec.required_by for each in snapshot.clusters}


def missing_replicas(binding: Binding) -> dict[str, int]:
    """Return how many assigned replicas each cluster reports as not ready. A cluster without a report is left out."""
    kind, items = binding.spec.resource.kind, binding.reports
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
    items = binding.reports
    kind = binding.spec.resource.kind
    return sum(_healthy_of(items[name], count, kind) for name, count in assignment.items() if name in items)


def _healthy_of(item: AggregatedStatusItem, replicas: int, kind: str) -> int:
    if _counts_replicas(item, kind):
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
    counts_replicas = bool(replicas) and _counts_replicas(item, kind)
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


def _counts_replicas(item: AggregatedStatusItem, kind: str) -> bool:
    return kind in COUNTED or _has(item.status, "replicas")


def _has(status: Any, field: str) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(status, Mapping) and field in status
