"""Why a binding at rest should move, and where to: drain, failback and rebalancing. Pure functions.

docs/moves.md has the rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from berthmaster.deciding.copies import missing_replicas
from berthmaster.deciding.copy_checks import UNREAD, blocked_start, suspended_clusters
from berthmaster.deciding.decide import ClusterState
from berthmaster.deciding.decision_recorder import MoveContext, PolicyMoves
from berthmaster.deciding.eviction_tasks import why_not_broken
from berthmaster.deciding.failover import Replacement, replacement
from berthmaster.deciding.lifecycle import is_over
from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import Timestamp, with_spec
from berthmaster.model.move import DRAINING, MovePhase, MoveReason, MoveState, MoveStrategy, move_of
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.placement import Placement
from berthmaster.model.taint import Toleration, repelling_taints
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.scheduling.karmada.minimal import MinimalDecision, decide_minimal
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.steps import TooLargeError

_SHARES: Final = frozenset({DriftKind.WEIGHTS, DriftKind.OVERFLOW})
"""The kinds of drift that a policy allows and does not prefer."""


class Target(NamedTuple):
    """Where a workload could go."""

    clusters: dict[str, int]
    group: str


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A reason for a binding to move.

    Attributes:
        target: where it can go, or why it can go nowhere.
        after_s: how long the target must exist before the move.
        stable_since: since when no cluster of the target has changed its readiness; None if that is not known.
    """

    reason: MoveReason
    policy: PolicyMoves
    target: Target | MoveRefusal
    after_s: float = 0.0
    dry_run: bool = False
    stable_since: Timestamp | None = None


def move_request(
    state: ClusterState,
    binding: Binding,
    moves: MoveContext,
    bounds: Mapping[str, int] | None = None,
    record: MoveState | None = None,
) -> MoveRequest | None:
    """Return why a binding should move; None if it should not. Drain comes first, then failback, then rebalancing.

    Args:
        binding: the effective binding. No move of it is under way.
        record: the record of its last move, or of what it waits for.
    """
    draining = draining_clusters(state, binding)
    if draining:
        policy = moves.policy(binding)
        if policy.settings.drain.mode != "Off":
            return _drain(state, binding, policy, draining, bounds)
    failback = _failback(state, binding, moves, bounds) if is_away(state, binding) else None
    if moves.stuck is None or (failback is not None and isinstance(failback.target, Target)):
        return failback
    return rebalancing(state, binding, moves, bounds, record) or failback


def about_to_move(state: ClusterState, binding: Binding, moves: MoveContext) -> bool:
    """Whether the next decision may begin a move of a binding at rest. Only then are its estimators asked."""
    record = move_of(binding)
    if record is not None and record.phase is MovePhase.STABILISING and record.reason is not MoveReason.REBALANCE:
        return record.until is None or record.until <= moves.now
    if draining_clusters(state, binding):
        return True
    return moves.stuck is not None and rebalancing(state, binding, moves, None, record) is not None


def draining_clusters(state: ClusterState, binding: Binding) -> frozenset[str]:
    """Return the clusters of an assignment that are being drained, unless its placement tolerates that."""
    if not state.draining or not any(each.name in state.draining for each in binding.spec.clusters):
        return frozenset()
    placement, fleet = binding.spec.placement, state.scheduler.fleet
    tolerations = placement.cluster_tolerations if placement is not None else ()
    found = (each.name for each in binding.spec.clusters if each.name in state.draining)
    return frozenset(
        name
        for name in found
        if (cluster := fleet.get(name)) is not None
        and repelling_taints([each for each in cluster.spec.taints if each.key == DRAINING], tolerations)
    )


def is_draining(cluster: Cluster) -> bool:
    """Whether a cluster has the taint that asks for a drain."""
    return any(taint.key == DRAINING for taint in cluster.spec.taints)


def is_away(state: ClusterState, binding: Binding) -> bool:
    """Whether an assignment is not what its policy prefers: a later group, or overflow."""
    placement = binding.spec.placement
    if placement is None or not placement.cluster_affinities or not binding.spec.clusters:
        return False
    observed = binding.status.scheduler_observing_affinity_name
    return rank(state.scheduler, placement, observed, binding.assignment) > (0, False)


def is_better(state: ClusterState, binding: Binding, reason: MoveReason, found: Target, source: Target) -> bool:
    """Whether a new target still serves the reason of a move under way."""
    if found.clusters == source.clusters:
        return False
    placement = binding.spec.placement
    if reason is MoveReason.FAILBACK and placement is not None:
        ranks = [rank(state.scheduler, placement, each.group, each.clusters) for each in (found, source)]
        return ranks[0] < ranks[1]
    if reason is MoveReason.DRAIN:
        return not state.draining & found.clusters.keys()
    return True


def rank(scheduler: Scheduler, placement: Placement, group: str, clusters: Mapping[str, int]) -> tuple[int, bool]:
    """Return how far an assignment is from what its policy prefers: the index of its group, and whether it overflows.

    A smaller value is better. ``(0, False)`` is the best; nothing can be gained then.
    """
    if not placement.cluster_affinities:
        return 0, False
    try:
        compiled = scheduler.compile(placement)
    except TooLargeError:
        return 0, False
    index = compiled.group_index(group)
    own, overflow = compiled.groups[index].own, compiled.groups[index].overflow
    if not overflow or own is None:
        return index, False
    fleet = scheduler.fleet
    rows = np.array([fleet.row_of[name] for name in clusters if name in fleet.row_of], dtype=np.int64)
    return index, not bool(own.current()[rows].all())


def earlier_target(
    scheduler: Scheduler,
    binding: Binding,
    avoided: frozenset[str],
    headroom_percent: int,
    bounds: Mapping[str, int] | None = None,
) -> Target | MoveRefusal:
    """Return the best earlier group that can hold a workload, by full decisions, or why none can.

    Args:
        avoided: clusters that get nothing, for example those that are not ready.
        headroom_percent: the capacity beyond the replicas that must be free, in percent of them.
    """
    placement = binding.spec.placement
    if placement is None:
        return MoveRefusal(Cause.NO_PLACE, "it has no placement")
    request = replace(Request.of(binding), fresh=True, bounds=bounds)
    request = replace(request, evicted_from=request.evicted_from | avoided)
    more = -(-request.replicas * (100 + headroom_percent) // 100)
    problems, about = [], []
    for name, reduced in _better_groups(scheduler, request, placement):
        asked = replace(request, placement=reduced)
        decision = scheduler.schedule(replace(asked, replicas=more))
        if decision.failure is None and more != request.replicas:
            decision = scheduler.schedule(asked)
        if decision.failure is None:
            return Target(decision.assignment, name)
        problems.append(f"group {name}: {decision.failure.message}")
        about += [name, decision.failure.kind.name]
    return MoveRefusal(Cause.NO_PLACE, "; ".join(problems) or "it is in its first group", tuple(about))


def any_target(scheduler: Scheduler, binding: Binding, avoided: AbstractSet[str]) -> Target | MoveRefusal:
    """Return the best group that can hold a workload, also an earlier or a later one, or why none can.

    Args:
        avoided: clusters that get nothing.
    """
    request = replace(Request.of(binding), fresh=True)
    decision = scheduler.schedule(replace(request, evicted_from=request.evicted_from | avoided))
    if decision.failure is None:
        return Target(decision.assignment, decision.group or "")
    return MoveRefusal(Cause.NO_PLACE, decision.failure.message, (decision.failure.kind.name,))


def tolerating_drains(binding: Binding) -> Binding:
    """Return a binding whose placement tolerates that a cluster is drained."""
    placement = binding.spec.placement
    if placement is None:
        return binding
    tolerations = (*placement.cluster_tolerations, Toleration(DRAINING, "Exists"))
    return with_spec(binding, placement=replace(placement, cluster_tolerations=tolerations))


def drain_target(
    scheduler: Scheduler,
    binding: Binding,
    draining: frozenset[str],
    avoided: frozenset[str],
    bounds: Mapping[str, int] | None = None,
) -> Target | MoveRefusal:
    """Return where a workload goes when clusters are drained: its group or a later one, otherwise an earlier one.

    Args:
        draining: the clusters that it leaves.
        avoided: clusters of earlier groups that get nothing.
    """

    def found(suspended: frozenset[str]) -> Target | MoveRefusal:
        request = Request.of(binding)
        request = replace(request, bounds=bounds, evicted_from=request.evicted_from | suspended)
        others = replacement(scheduler, request, draining, leaves=True)
        if isinstance(others, Replacement):
            return Target(others.clusters, others.group)
        earlier = earlier_target(scheduler, binding, avoided | suspended, 0, bounds)
        return earlier if isinstance(earlier, Target) else others

    return _where_dispatched(scheduler.fleet, binding, found)


def _where_dispatched(
    fleet: Fleet, binding: Binding, found: Callable[[frozenset[str]], Target | MoveRefusal]
) -> Target | MoveRefusal:
    """Return a target without new copies in clusters to which dispatching is suspended.

    Args:
        found: returns the target that avoids some clusters.
    """
    suspended = suspended_clusters(binding, fleet.row_of) - binding.assignment.keys()
    target = found(suspended)
    if not suspended or isinstance(target, Target):
        return target
    otherwise = found(frozenset())
    if isinstance(otherwise, MoveRefusal):
        return target
    return blocked_start(binding, otherwise.clusters, UNREAD) or target


def _better_groups(scheduler: Scheduler, request: Request, placement: Placement) -> Iterator[tuple[str, Placement]]:
    """Yield the placement reduced to each group that is better than the present one, the best one first."""
    index, overflows = rank(scheduler, placement, request.observed_group, request.current)
    terms = placement.cluster_affinities or ()
    for term in terms[:index]:
        yield term.affinity_name, replace(placement, cluster_affinities=(term,))
    if overflows:
        own = replace(terms[index], overflow_affinities=None)
        yield own.affinity_name, replace(placement, cluster_affinities=(own,))


def rebalancing(
    state: ClusterState,
    binding: Binding,
    moves: MoveContext,
    bounds: Mapping[str, int] | None,
    record: MoveState | None,
) -> MoveRequest | None:
    """Return the move that repairs the drift of a binding within its group with the fewest replicas; None for none.

    A workload stays if it was moved or held down a short time ago, and while one of its clusters is not ready, is
    drained, or evicts it. The arguments are those of ``move_request``; ``moves.stuck`` is not None.
    """
    policy, placement, clusters = moves.policy(binding), binding.spec.placement, binding.assignment
    settings = policy.settings.rebalance
    unusable = state.unusable | suspended_clusters(binding, state.scheduler.fleet.row_of)
    if settings.mode == "Off" or policy.problem or placement is None or not clusters or not binding.spec.is_workload:
        return None
    if binding.spec.graceful_eviction_tasks or not unusable.isdisjoint(clusters):
        return None
    if record is not None and (record.held_down(moves.now) or record.rests(moves.now)):
        return None
    if record is not None and record.phase is MovePhase.RELEASED and not is_over(record, moves.now):
        return None
    request = replace(Request.of(binding), bounds=bounds, evicted_from=unusable)
    request = replace(request, placement=_reduced(placement, request.observed_group))
    stuck = moves.stuck or {}
    found = decide_minimal(
        state.scheduler, request, tolerance=settings.tolerance_percent, stuck=stuck, leaving=moves.leaving
    )
    target = dict(found.assignment)
    leaves = bool(stuck) and all(target.get(name, 0) <= clusters.get(name, 0) - count for name, count in stuck.items())
    if target == clusters or not _is_worth_it(found, request.replicas, settings.min_gain_percent, leaves=leaves):
        return None
    running = {name: clusters[name] - count for name, count in missing_replicas(binding).items()}
    if any(target.get(name, 0) > count for name, count in running.items()):
        return None  # it counts on replicas that do not run, so its new copies would never be healthy
    return MoveRequest(
        MoveReason.REBALANCE,
        policy,
        _possible(binding, policy.settings, Target(target, found.fresh.group or "")),
        # The estimators have waited for replicas that do not run.
        0 if leaves else settings.after_s,
        settings.mode == "DryRun",
        _ready_since(state.scheduler.fleet, target),
    )


def _is_worth_it(found: MinimalDecision, replicas: int, min_gain_percent: int, *, leaves: bool) -> bool:
    """Whether a repair gains more than it costs (docs/drift.md). ``leaves``: all replicas that do not run leave."""
    kinds = found.drift.keys() if leaves else found.drift.keys() - {DriftKind.STUCK}
    if kinds - _SHARES:
        return DriftKind.REPLICAS not in kinds
    wrong = sum(found.drift[kind] for kind in kinds)
    return wrong >= found.moved and wrong * 100 >= min_gain_percent * replicas


def _reduced(placement: Placement, group: str) -> Placement:
    """Return a placement with the observed group only, or with its first group if the observed one is gone."""
    terms = placement.cluster_affinities
    if terms is None or len(terms) < 2:
        return placement
    return replace(placement, cluster_affinities=(placement.group(group) or terms[0],))


def _drain(
    state: ClusterState,
    binding: Binding,
    policy: PolicyMoves,
    draining: frozenset[str],
    bounds: Mapping[str, int] | None,
) -> MoveRequest:
    settings = policy.settings
    target = drain_target(state.scheduler, binding, draining, state.unusable, bounds)
    return MoveRequest(
        MoveReason.DRAIN,
        policy,
        _possible(binding, settings, target),
        settings.drain.after_s,
        settings.drain.mode == "DryRun",
    )


def _failback(
    state: ClusterState, binding: Binding, moves: MoveContext, bounds: Mapping[str, int] | None
) -> MoveRequest | None:
    policy = moves.policy(binding)
    if policy.problem:
        problem = MoveRefusal(Cause.INVALID_POLICY, policy.problem, (policy.problem,))
        return MoveRequest(MoveReason.FAILBACK, policy, problem)
    settings = policy.settings
    if settings.failback.mode == "Off":
        return None
    headroom = settings.failback.headroom_percent
    found = _where_dispatched(
        state.scheduler.fleet,
        binding,
        lambda suspended: earlier_target(state.scheduler, binding, state.unusable | suspended, headroom, bounds),
    )
    if isinstance(found, Target) and found.clusters == binding.assignment:
        found = MoveRefusal(Cause.SAME_CLUSTERS, f"group {found.group} would use the same clusters", (found.group,))
    return MoveRequest(
        MoveReason.FAILBACK,
        policy,
        _possible(binding, settings, found),
        settings.failback.after_s,
        settings.failback.mode == "DryRun",
        _ready_since(state.scheduler.fleet, found.clusters) if isinstance(found, Target) else None,
    )


def _possible(binding: Binding, settings: MoveSettings, found: Target | MoveRefusal) -> Target | MoveRefusal:
    """Return the target; the reason against it if the old copies cannot go first, as the strategy demands."""
    if isinstance(found, MoveRefusal) or settings.strategy is not MoveStrategy.BREAK_BEFORE_MAKE:
        return found
    leaving = [name for name in binding.assignment if name not in found.clusters]
    return why_not_broken(binding, leaving) or found


def _ready_since(fleet: Fleet, clusters: Iterable[str]) -> Timestamp | None:
    """Return when the last of some clusters changed its readiness, by their conditions."""
    times = [cluster.ready_transition for name in clusters if (cluster := fleet.get(name)) is not None]
    return max((each for each in times if each is not None), default=None)
