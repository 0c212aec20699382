"""Why a binding at rest should move, and where to: drain and failback. Pure functions of the clusters and the binding.

docs/moves.md has the rules.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from berthmaster.controllers.binding_scheduler.decide import ClusterState
from berthmaster.controllers.binding_scheduler.failover import Replacement, replacement
from berthmaster.controllers.moves.break_first import why_not_broken
from berthmaster.controllers.moves.config import MoveSettings
from berthmaster.controllers.moves.context import MoveContext, PolicyMoves
from berthmaster.controllers.moves.failback import Target, earlier_target, rank
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster, repelling_taints
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import DRAINING, MovePhase, MoveReason, MoveStrategy, move_of
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.request import Request

_READY = "Ready"


@dataclass(frozen=True, slots=True)
class Wish:
    """A reason for a binding to move.

    Attributes:
        reason: the reason.
        policy: what configuration and policy say about its moves.
        target: where it can go; a text says why it can go nowhere.
        after_s: how long the target must exist before the move.
        dry_run: whether the move is only reported.
        stable_since: since when no cluster of the target has changed its readiness; None if that is not known.
    """

    reason: MoveReason
    policy: PolicyMoves
    target: Target | str
    after_s: float = 0.0
    dry_run: bool = False
    stable_since: Timestamp | None = None


def wish_of(
    state: ClusterState, binding: Binding, moves: MoveContext, bounds: Mapping[str, int] | None = None
) -> Wish | None:
    """Return why a binding should move; None if it should not. A drain comes before a failback.

    Args:
        state: the clusters.
        binding: the effective binding. No move of it is under way.
        moves: the configuration.
        bounds: more replicas that clusters can take, as their estimators report; None if none was asked.
    """
    draining = draining_clusters(state, binding)
    if draining:
        policy = moves.policy(binding)
        if policy.settings.drain.mode != "Off":
            return _drain(state, binding, policy, draining, bounds)
    if not is_away(state, binding):
        return None
    policy = moves.policy(binding)
    if policy.problem:
        return Wish(MoveReason.FAILBACK, policy, policy.problem)
    if policy.settings.failback.mode == "Off":
        return None
    return _failback(state, binding, policy, bounds)


def about_to_move(state: ClusterState, binding: Binding, now: Timestamp) -> bool:
    """Whether the next decision may begin a move of a binding at rest. Only then are its estimators asked."""
    record = move_of(binding)
    if record is not None and record.phase is MovePhase.STABILISING:
        return record.until is None or record.until <= now
    return bool(draining_clusters(state, binding))


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
        if (cluster := fleet.get(name)) is not None and repelling_taints(_drain_taints(cluster), tolerations)
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


def _drain(
    state: ClusterState,
    binding: Binding,
    policy: PolicyMoves,
    draining: frozenset[str],
    bounds: Mapping[str, int] | None,
) -> Wish:
    """Ask for a move of the replicas on clusters that are being drained."""
    settings = policy.settings
    found = replacement(state.scheduler, replace(Request.of(binding), bounds=bounds), draining)
    target = Target(found.clusters, found.group) if isinstance(found, Replacement) else found
    return Wish(
        MoveReason.DRAIN,
        policy,
        _possible(binding, settings, target),
        settings.drain.after_s,
        settings.drain.mode == "DryRun",
    )


def _failback(state: ClusterState, binding: Binding, policy: PolicyMoves, bounds: Mapping[str, int] | None) -> Wish:
    """Ask for a return to the best earlier group."""
    settings = policy.settings
    avoided = frozenset(state.unready_since_s) | frozenset(state.draining)
    found = earlier_target(state.scheduler, binding, avoided, settings.failback.headroom_percent, bounds)
    if isinstance(found, Target) and found.clusters == binding.assignment:
        found = f"group {found.group} would use the same clusters"
    return Wish(
        MoveReason.FAILBACK,
        policy,
        _possible(binding, settings, found),
        settings.failback.after_s,
        settings.failback.mode == "DryRun",
        _ready_since(state.scheduler.fleet, found.clusters) if isinstance(found, Target) else None,
    )


def _possible(binding: Binding, settings: MoveSettings, found: Target | str) -> Target | str:
    """Return the target; the reason against it if the old copies cannot go first, as the strategy demands."""
    if isinstance(found, str) or settings.strategy is not MoveStrategy.BREAK_BEFORE_MAKE:
        return found
    leaving = [name for name in binding.assignment if name not in found.clusters]
    return why_not_broken(binding, leaving) or found


def _drain_taints(cluster: Cluster) -> list[Any]:
    return [each for each in cluster.spec.taints if each.key == DRAINING]


def _ready_since(fleet: Fleet, clusters: Iterable[str]) -> Timestamp | None:
    """Return when the last of some clusters changed its readiness, by their conditions."""
    times = [_transition(cluster) for name in clusters if (cluster := fleet.get(name)) is not None]
    return max((each for each in times if each is not None), default=None)


def _transition(cluster: Cluster) -> Timestamp | None:
    for condition in cluster.status.conditions:
        if condition.type == _READY and condition.last_transition_time:
            try:
                found = datetime.fromisoformat(condition.last_transition_time)
            except ValueError:
                return None
            return found if found.tzinfo is not None else None
    return None
