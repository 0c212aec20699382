"""The queue of bindings, and the event handlers: which changes queue which bindings.

The handlers are those of karmada-scheduler (``event_handler.go``), with additions.
"""

import heapq
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import Final, NamedTuple

from prometheus_client import Gauge

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache, has_move
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.metrics import INCOMING
from berthmaster.controllers.estimators.estimators import Estimators
from berthmaster.controllers.moves.supervisor import LIMIT, MoveSupervisor
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.deciding.move_targets import is_draining
from berthmaster.kube.requests import key_text
from berthmaster.model.binding import Binding, BindingSpec, names_scheduler
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.cluster import Cluster, ResourceSummary
from berthmaster.model.meta import Key
from berthmaster.model.move import MOVE, MovePhase, move_of
from berthmaster.model.placement import Placement
from berthmaster.model.policy import PolicyReference
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.feature_gates import MULTIPLE_POD_TEMPLATES, WORKLOAD_AFFINITY, FeatureGates, Gate
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.resources import amount_of

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 10.0
LATE_SHARE: Final = 32
"""Of this many keys that are taken, at least one is a late key. Late keys so progress during a long burst."""
RETRIES: Final = 200
"""How many failed keys of a namespace are retried each second. Retries of many refused writes leave room for others."""
LONGEST_UNSCHEDULABLE_S: Final = 300.0
"""An unschedulable binding is tried again after this time even if no cluster changes."""


_Entry = tuple[int, int, int, Key]
"""The negative priority, the turn of the namespace, the order, and the key."""


_PlacementKeys = tuple[Placement | None, list[Key]]


class _Alike(NamedTuple):
    """Unschedulable keys of a namespace whose bindings share a placement: what one could use, all could use."""

    placement: Placement | None
    keys: dict[Key, None]


class SchedulingQueue(WorkQueue[Key]):
    """A work queue that returns the key with the highest priority first.

    karmada-scheduler has three queues (``internal/queue``): active, backoff and unschedulable. Three things differ
    here. A changed priority counts at once. Namespaces of equal priority take turns: of one namespace the key that
    waited longest comes first, and a namespace with many keys does not delay another one. A cluster that gains capacity
    activates unschedulable bindings; they do not wait for the next five-minute flush.
    """

    def __init__(self, clock: Clock, priority_of: Callable[[Key], int]) -> None:
        super().__init__(clock, FIRST_WAIT_S, LONGEST_WAIT_S)
        self._priority_of = priority_of
        self._heap: list[_Entry] = []
        self._entry: dict[Key, _Entry] = {}
        self._turn = 0
        self._last_turns: dict[str, int] = {}
        self._failing: Counter[str] = Counter()
        self._unschedulable: dict[Key, tuple[float, _Alike]] = {}
        self._alike: dict[tuple[str, int], _Alike] = {}
        self._order = 0
        self._late: set[Key] = set()
        self._late_order: deque[Key] = deque()
        self._taken_count = 0

    def add(self, key: Key) -> None:
        """Queue a key. If it waits already, it moves to the position of its current priority."""
        with self._changed:
            self._release(key)
            if key in self._late:
                self._late.discard(key)
                if key not in self._taken:
                    self._push(key)
            super().add(key)
            if key in self._entry and self._entry[key][0] != -self._priority_of(key):
                self._push(key)

    def retry(self, key: Key, at_least_s: float = 0.0) -> float:
        """Queue a failed key with backoff. With many failed keys in its namespace it waits longer, up to 5 minutes."""
        with self._changed:
            self._failing[key[0]] += key not in self._failures
            paced_s = min(self._failing[key[0]] / RETRIES, LONGEST_UNSCHEDULABLE_S)
            return super().retry(key, max(at_least_s, paced_s))

    def forget(self, key: Key) -> None:
        with self._changed:
            if key in self._failures:
                self._failing[key[0]] -= 1
                self._failing += Counter()  # without namespaces that have none
            super().forget(key)

    def add_late(self, key: Key) -> None:
        """Queue a key behind all keys that are not late, present and future ones."""
        with self._changed:
            if key not in self._dirty:
                self._late.add(key)
                super().add(key)

    @property
    def busy(self) -> bool:
        """Whether keys that are not late wait for a worker."""
        return len(self._dirty) > len(self._late)

    def add_unschedulable(self, key: Key, placement: Placement | None) -> None:
        """Hold a key back until it is activated or added, at most five minutes."""
        with self._changed:
            if key not in self._dirty:
                self._release(key)  # the keys stay in the order of their times
                alike = self._alike.setdefault((key[0], id(placement)), _Alike(placement, {}))
                alike.keys[key] = None
                self._unschedulable[key] = self._clock.monotonic_s(), alike

    def activate(self, keys: Iterable[Key]) -> int:
        """Queue those of the keys that are unschedulable or being reconciled; return how many that are.

        A key that is being reconciled is queued once more: its decision may have missed the change.
        """
        with self._changed:
            activated = [key for key in keys if key in self._unschedulable or key in self._taken]
            for key in activated:
                self.add(key)
            return len(activated)

    def activate_expired(self) -> None:
        """Queue the keys that were unschedulable for five minutes."""
        with self._changed:
            before_s = self._clock.monotonic_s() - LONGEST_UNSCHEDULABLE_S
            since_s = ((key, held_s) for key, (held_s, _) in self._unschedulable.items())
            self.activate([key for key, _ in takewhile(lambda each: each[1] <= before_s, since_s)])

    def unschedulable(self) -> list[_PlacementKeys]:
        """Return the unschedulable keys of each namespace by their placement."""
        with self._changed:
            return [(each.placement, list(each.keys)) for each in self._alike.values()]

    def taken(self) -> list[Key]:
        """Return the keys that are being reconciled: they may be unschedulable next."""
        with self._changed:
            return list(self._taken)

    def backing_off(self) -> list[Key]:
        """Return the keys that wait for a time, as after a failed write, and those that are being reconciled."""
        with self._changed:
            return list(self._due_s.keys() | self._taken)

    def remove(self, key: Key) -> None:
        """Forget a key that needs no more work: its wait, its backoff and its failures."""
        with self._changed:
            self._release(key)
            self._due_s.pop(key, None)
            self.forget(key)

    def lengths(self) -> dict[str, int]:
        """Return the number of waiting keys, by Karmada's names of the queues."""
        with self._changed:
            return {"active": len(self._dirty), "backoff": len(self._due_s), "unschedulable": len(self._unschedulable)}

    def _push(self, key: Key) -> None:
        if key in self._late:
            self._late_order.append(key)
            return
        self._order += 1
        namespace = key[0]
        turn = self._last_turns[namespace] = max(self._turn, self._last_turns.get(namespace, 0)) + 1
        entry = self._entry[key] = (-self._priority_of(key), turn, self._order, key)
        heapq.heappush(self._heap, entry)

    def _pop(self) -> Key | None:
        self._taken_count += 1
        first, second = self._pop_first, self._pop_late
        if self._taken_count % LATE_SHARE == 0:
            first, second = second, first
        key = first() or second()
        if key is not None:
            self._release(key)
        return key

    def _release(self, key: Key) -> None:
        if key in self._unschedulable:
            _, alike = self._unschedulable.pop(key)
            del alike.keys[key]
            if not alike.keys:
                del self._alike[key[0], id(alike.placement)]

    def _pop_first(self) -> Key | None:
        while self._heap:
            entry = heapq.heappop(self._heap)
            _, turn, _, key = entry
            self._turn = max(self._turn, turn)
            if self._last_turns.get(key[0]) == turn:
                del self._last_turns[key[0]]
            if self._entry.get(key) is entry:  # else it has a newer entry
                del self._entry[key]
                return key
        return None

    def _pop_late(self) -> Key | None:
        while self._late_order:
            key = self._late_order.popleft()
            if key in self._late:  # else it is not late any more
                self._late.discard(key)
                return key
        return None


ACTIVATED: Final = 500
"""How many unschedulable bindings of a namespace are tried again each second. Clusters gain capacity all the time."""


def eligible(binding: Binding, scheduler_name: str) -> bool:
    """Whether this scheduler schedules a binding (karmada ``resourceBindingEventFilter``).

    A binding whose policy is gone is not scheduled any more. Only its move ends, and then its record goes.
    """
    return names_scheduler(binding, scheduler_name) and (
        any(binding.metadata.labels.get(label) for label in MANAGED_BY) or has_move(binding)
    )


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
        estimators: Estimators | None = None,
    ) -> None:
        self._moves = moves
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
        for [key] in islice(self._could_go_to(self._with_placement(moving), clusters), LIMIT):
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

    def _with_placement(self, keys: Iterable[Key]) -> Iterator[_PlacementKeys]:
        for key in keys:
            binding = self._bindings.get(key)
            yield (binding.spec.placement if binding is not None else None), [key]

    def _could_go_to(self, waiting: Iterable[_PlacementKeys], clusters: set[str]) -> Iterator[list[Key]]:
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


IGNORED_GATES: Final = Gauge(
    "berthmaster_scheduler_ignored_gate",
    "1 if a binding uses a feature of Karmada whose gate is off here, by gate.",
    ("gate",),
)
_LOG: Final = logging.getLogger("berthmaster.binding_scheduler")


_USES: Final[dict[Gate, Callable[[BindingSpec], bool]]] = {
    WORKLOAD_AFFINITY: lambda spec: spec.workload_affinity_groups is not None,
    MULTIPLE_POD_TEMPLATES: lambda spec: bool(spec.components),
}
"""Whether a binding has the fields of a gate. Karmada sets these fields only if its own gate is on."""


class IgnoredGates:
    """Reports, once for each gate, that a binding uses a feature of Karmada whose gate is off here."""

    def __init__(self, gates: FeatureGates) -> None:
        self._off = {each for each in _USES if not gates.on(each)}

    def binding_changed(self, key: Key, _before: Binding | None, after: Binding | None) -> None:
        if not self._off or after is None:
            return
        for gate in [each for each in self._off if _USES[each](after.spec)]:
            self._off.discard(gate)
            IGNORED_GATES.labels(gate.name).set(1)
            _LOG.warning(
                "a binding uses a feature whose gate is off here, and it is ignored: set --feature-gates %s=true",
                gate.name,
                extra=fields(binding=key_text(key)),
            )
