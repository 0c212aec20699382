"""The event handlers: which changes queue which bindings.

The handlers are those of karmada-scheduler (``event_handler.go``), with additions.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.binding_index import has_move
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.metrics import INCOMING
from berthmaster.controllers.binding_scheduler.scheduling_queue import PlacementKeys, SchedulingQueue
from berthmaster.controllers.binding_scheduler.scheduling_times import SchedulingTimes
from berthmaster.controllers.estimators.estimators import Estimators
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.controllers.moves.waiting_moves import BINDINGS_PER_INTERVAL
from berthmaster.deciding.move_targets import is_draining
from berthmaster.model.binding import Binding, names_scheduler
from berthmaster.model.claims import is_managed
from berthmaster.model.cluster import Cluster, ResourceSummary
from berthmaster.model.meta import Key
from berthmaster.model.move import MOVE, MovePhase, move_of
from berthmaster.model.placement import Placement
from berthmaster.model.policy import PolicyReference
from berthmaster.scheduling.resources import amount_of

ACTIVATED: Final = 500
"""How many unschedulable bindings of a namespace are tried again each second. Clusters gain capacity all the time."""


def eligible(binding: Binding, scheduler_name: str) -> bool:
    """Whether this scheduler schedules a binding (karmada ``resourceBindingEventFilter``).

    A binding whose policy is gone is not scheduled any more. Only its move ends, and then its record goes.
    """
    return names_scheduler(binding, scheduler_name) and (is_managed(binding.metadata) or has_move(binding))


class EventHandlers:
    """Updates the caches and the queue from the events of bindings and clusters.

    A standby process keeps the caches. Only the leader has a queue, and moves. The handler of a cache comes first.
    """

    def __init__(
        self,
        bindings: BindingCache,
        clusters: ClusterCache,
        queue: SchedulingQueue,
        scheduler_name: str,
        moves: MoveSupervisor,
        times: SchedulingTimes,
        estimators: Estimators | None = None,
    ) -> None:
        self._moves = moves
        self._times = times
        self._bindings = bindings
        self._clusters = clusters
        self._queue = queue
        self._scheduler_name = scheduler_name
        self._estimators = estimators
        self._activatable: dict[str, dict[Key, None]] = {}
        self._gained: set[str] = set()
        self._gaining = threading.Lock()

    def keep_binding(self, key: Key, before: Binding | None, after: Binding | None) -> None:
        if before is not None and (after is None or _is_another(before, after)):
            self._clusters.remove_binding(key, before)
            before = None
        if after is None:
            return
        if not self._bindings.is_own(key, after):
            # Own writes were assumed when they were decided. Those of other schedulers take capacity, too.
            self._clusters.observe_assignment(key, before, self._bindings.get(key) or after)
        if before is not None:
            self._clusters.observe_health(key, before, after)

    def binding_changed(self, key: Key, before: Binding | None, after: Binding | None) -> None:
        if after is None or (before is not None and _is_another(before, after)):
            self._moves.remove(key)
            self._queue.add(key)  # the reconciler may hold a pending status for it
            before = None
        if after is None:
            return
        if has_move(after) or (before is not None and has_move(before)):
            self._moves.observe(key, after)
        own = self._bindings.is_own(key, after)
        if eligible(after, self._scheduler_name):
            self._push_changed(key, before, after, own=own)
        elif before is not None and eligible(before, self._scheduler_name):
            self._queue.add(key)  # the reconciler may hold a pending status for it

    def _push_changed(self, key: Key, before: Binding | None, after: Binding, *, own: bool) -> None:
        if before is None or not eligible(before, self._scheduler_name):
            self._push(key, "BindingAdd")
        elif before.metadata.generation != after.metadata.generation and not own:
            self._push(key, "BindingUpdate")
        elif not own and _concerns_move(before, after):
            self._push(key, "MoveProgress")

    def keep_cluster(self, _key: Key, before: Cluster | None, after: Cluster | None) -> None:
        if after is not None:
            self._clusters.update_cluster(after)
        elif before is not None:
            self._clusters.remove_cluster(before.name)

    def cluster_changed(self, _key: Key, before: Cluster | None, after: Cluster | None) -> None:
        if after is None:
            if before is not None:
                if self._estimators is not None:
                    self._estimators.remove(before.name)
                self._push_all(self._bindings.index.on(before.name), "ClusterChanged", names_scheduler)
            return
        if self._estimators is not None:
            self._estimators.add(after.name)
        if before is None or gains_capacity(before, after):
            with self._gaining:
                self._gained.add(after.name)
        if before is not None and _affects_bindings(before, after):
            self._push_all(self._bindings.index.affected((before, after)), "ClusterChanged", eligible)
        if before is not None and _concerns_copies(before, after):
            self._push_all(self._bindings.index.on(after.name), "ClusterChanged", names_scheduler)

    def activate_unschedulable(self) -> None:
        """Queue unschedulable bindings that a cluster with new capacity could host, and those that waited too long.

        Of one namespace at most ``ACTIVATED`` are queued now, and the others by the next calls.
        """
        with self._gaining:
            gained, self._gained = self._gained, set()
        gained |= self._clusters.take_freed()
        if gained:
            waiting = (*self._queue.unschedulable(), *self._with_placement(self._queue.taken()))
            for alike in self._could_go_to(waiting, gained):
                self._activatable.setdefault(alike[0][0], {}).update(dict.fromkeys(alike))
            self._moves.waiting.gained(gained)
        for namespace, keys in list(self._activatable.items()):
            due = list(islice(keys, ACTIVATED))
            self._queue.activate(due)
            for key in due:
                del keys[key]
            if not keys:
                del self._activatable[namespace]
        self._queue.activate_expired()
        moving, clusters = self._moves.waiting.take()
        for [key] in islice(self._could_go_to(self._with_placement(moving), clusters), BINDINGS_PER_INTERVAL):
            self._push(key, "ClusterChanged")

    def look_for_drift(self) -> None:
        """Queue the bindings that are due to be looked at for drift, behind all others."""
        if self._moves.rebalances:
            for key in self._moves.looks.next(lambda: (each for each, _ in self._bindings.items()), self._rebalances):
                self._queue.add_late(key)

    def policy_changed(self, policy: PolicyReference) -> None:
        """Queue the bindings of a policy whose annotations about moves have changed."""
        self._push_all(self._bindings.index.held_by(policy), "PolicyChanged", eligible)

    def moves_changed(self) -> None:
        """Queue every binding that the configuration of moves may concern, after it has changed."""
        for key, binding in self._bindings.items():
            placement = binding.spec.placement
            if placement is None or not eligible(binding, self._scheduler_name):
                continue
            if has_move(binding) or placement.cluster_affinities:
                self._queue.add_late(key)

    def _rebalances(self, key: Key) -> bool:
        binding = self._bindings.get(key)
        return (
            binding is not None
            and bool(binding.spec.clusters)
            and eligible(binding, self._scheduler_name)
            and self._moves.policy(binding).settings.rebalance.mode != "Off"
        )

    def _with_placement(self, keys: Iterable[Key]) -> Iterator[PlacementKeys]:
        for key in keys:
            binding = self._bindings.get(key)
            yield (binding.spec.placement if binding is not None else None), [key]

    def _could_go_to(self, waiting: Iterable[PlacementKeys], clusters: set[str]) -> Iterator[list[Key]]:
        # Bindings of one policy share one placement, which this dict keeps alive.
        known: dict[int, tuple[Placement, bool]] = {}
        for placement, keys in waiting:
            if placement is None:
                continue
            if id(placement) not in known:
                known[id(placement)] = placement, self._clusters.could_host(placement, clusters)
            if known[id(placement)][1]:
                yield keys

    def _push(self, key: Key, event: str) -> None:
        INCOMING.labels(event).inc()
        self._times.triggered(key)
        self._queue.add(key)

    def _push_all(self, keys: Iterable[Key], event: str, concerned: Callable[[Binding, str], bool]) -> None:
        for key in keys:
            binding = self._bindings.observed(key)
            if binding is not None and concerned(binding, self._scheduler_name):
                self._push(key, event)


def _is_another(before: Binding, after: Binding) -> bool:
    """Whether a binding was deleted and created again between two events."""
    return before.metadata.uid != after.metadata.uid


def _concerns_move(before: Binding, after: Binding) -> bool:
    """Whether a change that is no scheduling concerns the move of a binding: its record, or the health of copies."""
    if before.metadata.annotations.get(MOVE) != after.metadata.annotations.get(MOVE):
        return True
    if not has_move(after) or before.status.aggregated_status == after.status.aggregated_status:
        return False
    move = move_of(after)
    return move is not None and (move.under_way or move.phase is MovePhase.RELEASED)


def gains_capacity(before: Cluster, after: Cluster) -> bool:
    """Whether a cluster may host a workload now that it could not host before."""
    if before.spec != after.spec or before.metadata.labels != after.metadata.labels:
        return True
    if before.status.api_enablements != after.status.api_enablements or (after.ready and not before.ready):
        return True
    old, new = before.status.resource_summary, after.status.resource_summary
    if new is None or old == new:
        return False
    if old is None or old.allocatable_modelings != new.allocatable_modelings:
        return True
    return any(_free(new, name) > _free(old, name) for name in new.allocatable)


def _free(summary: ResourceSummary, name: str) -> int:
    """Return the free amount of a resource, in its column's unit; negative if the cluster is overcommitted."""
    amounts = (summary.allocatable, summary.allocated, summary.allocating)
    allocatable, *used = (amount_of(name, each[name]) if name in each else 0 for each in amounts)
    return allocatable - sum(used)


def _concerns_copies(before: Cluster, after: Cluster) -> bool:
    """Whether a change of a cluster concerns each binding that names it, whatever its affinity matches."""
    return (
        (before.ready and not after.ready)
        or is_draining(before) != is_draining(after)
        or (after.deleting and not before.deleting)
    )


def _affects_bindings(before: Cluster, after: Cluster) -> bool:
    """Whether Karmada queues bindings for this change of a cluster."""
    return (
        (after.deleting and not before.deleting)
        or before.metadata.labels != after.metadata.labels
        or before.metadata.generation != after.metadata.generation
    )
