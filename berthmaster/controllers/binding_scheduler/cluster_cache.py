"""The cache of clusters, with assumed replicas deducted. Decisions are taken on it."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from berthmaster.controllers.estimators.queries import EstimatorQuery, query_of, stuck_query_of
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.deciding.copies import CopiesNotReadError, missing_replicas, replicas_with_state
from berthmaster.deciding.decide import BindingDecision, ClusterState, decide, needs_decision
from berthmaster.deciding.decision_recorder import DecisionInputs, FleetLog, MoveContext, MoveTrace
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.lifecycle import CopiesChange
from berthmaster.deciding.move_targets import about_to_move, is_draining
from berthmaster.deciding.moves import decide_refused, decide_with_moves
from berthmaster.deciding.rules import trigger_by
from berthmaster.deciding.writes import effective
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.meta import Key
from berthmaster.model.move import as_moved
from berthmaster.model.placement import Placement
from berthmaster.model.work import Copies
from berthmaster.runtime.clock import Clock
from berthmaster.scheduling.component_sets import demand_of
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.selection import places_whole_sets
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.peers import AFFINITY, ANTI_AFFINITY
from berthmaster.scheduling.pending_replicas import AssumedReplicas, PendingReplicas
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.steps import TooLargeError

Ask = Callable[[EstimatorQuery], Mapping[str, int]]


class _Asked(NamedTuple):
    """What a decision about moves asked for outside the lock.

    Attributes:
        copies, stuck, leaving: see ``MoveContext``.
    """

    copies: Copies | None = None
    stuck: Mapping[str, int] | None = None
    leaving: Mapping[str, int] = {}


_NOT_ASKED: Final = _Asked()


class _Bounds(NamedTuple):
    """How many more replicas clusters can take, as their estimators answer.

    Attributes:
        inside: in the namespace of the workload, with its quotas.
        outside: without quotas, for the clusters where replicas of other namespaces are assumed and matter.
    """

    inside: Mapping[str, int]
    outside: Mapping[str, int] = {}


class ClusterCache:
    """The clusters as decisions see them, with assumed replicas deducted. Safe for several threads.

    One lock protects everything: a decision takes some tens of microseconds, and Python runs one thread at a time.
    Requests to estimators and to the API server happen outside the lock.
    """

    def __init__(
        self,
        profile: Profile,
        clock: Clock,
        failover: FailoverOptions,
        ask: Ask | None = None,
        *,
        keeps_inputs: bool = False,
        moves: MoveSupervisor | None = None,
        read_copies: Callable[[Binding], Copies] | None = None,
        overcommit_protection: bool = True,
    ) -> None:
        """Start without clusters.

        Args:
            ask: asks scheduler estimators for available replicas. It may block, and must not raise.
            keeps_inputs: whether decisions that a ledger records carry what they read.
            moves: answers for moves; None decides without moves.
            read_copies: reads the Works of a binding. It may block, and must not raise. None without moves.
            overcommit_protection: whether assigned replicas that do not show in the status of their cluster count (gate
                ``SchedulingOvercommitProtection``).
        """
        self._lock = threading.Lock()
        self._scheduler = Scheduler(Fleet(), profile)
        self._unready_since_s: dict[str, float] = {}
        self._draining: set[str] = set()
        self._state = ClusterState(self._scheduler, self._unready_since_s, failover, self._draining)
        self._moves = moves
        self._assumed = AssumedReplicas()
        self._clock = clock
        self._ask = ask
        self._read_copies = read_copies
        self._log = FleetLog() if keeps_inputs else None
        self._protects = overcommit_protection
        self._unconfirmed: dict[Key, BindingDecision] = {}
        self._freed: set[str] = set()

    def update_cluster(self, cluster: Cluster) -> None:
        with self._lock:
            if self._log is not None:
                cluster = self._log.sharing_apis(cluster)
            self._put(self._assumed.update_cluster(cluster))
            if cluster.ready:
                self._unready_since_s.pop(cluster.name, None)
            else:
                self._unready_since_s.setdefault(cluster.name, self._clock.monotonic_s())
            if is_draining(cluster):
                self._draining.add(cluster.name)
            else:
                self._draining.discard(cluster.name)

    def remove_cluster(self, name: str) -> None:
        with self._lock:
            self._scheduler.fleet.remove(name)
            if self._log is not None:
                self._log.remove(name)
            self._assumed.remove_cluster(name)
            self._unready_since_s.pop(name, None)
            self._draining.discard(name)

    def update_peers(self, binding: Binding) -> None:
        """Store an observed assignment for the workload affinity of other bindings."""
        if binding.spec.workload_affinity_groups is not None:
            with self._lock:
                self._scheduler.peers.place(Request.of(binding), binding.assignment)

    def adopt(self, key: Key, before: Binding | None, after: Binding) -> None:
        """Assume the replicas that an observed assignment adds, unless they are assumed already.

        This process or the previous leader may have written it. For a new binding (``before`` is None) the replicas
        count on every cluster that has not reported a state of the workload. No clock of another process is compared.
        """
        known = before.assignment if before is not None else replicas_with_state(after)
        if known == after.assignment or not self._protects:
            return
        request = Request.of(after)
        assigned, running = request.occupied(request.current), request.occupied(known)
        added = {name: count - running.get(name, 0) for name, count in assigned.items()}
        with self._lock:
            now_s = self._clock.monotonic_s()
            self._free(self._assumed.expire(now_s))  # a standby, which only adopts, does not grow
            self._apply(self._assumed.adopt(key, added, request.requests, now_s, request.set_templates))

    def forget(self, key: Key, clusters: Iterable[str]) -> None:
        """Forget what is assumed on clusters whose own numbers include the replicas from now on."""
        names = list(clusters)
        with self._lock:
            self._free(self._assumed.forget(key, names))
            if (decision := self._unconfirmed.get(key)) is not None and decision.assumed_before:
                left = {name: each for name, each in decision.assumed_before.items() if name not in names}
                self._unconfirmed[key] = replace(decision, assumed_before=left)

    def remove_binding(self, key: Key, binding: Binding) -> None:
        with self._lock:
            self._unconfirmed.pop(key, None)
            self._free(self._assumed.forget(key))
            self._scheduler.peers.place(Request.of(binding), ())

    def mark_unconfirmed(self, key: Key, decision: BindingDecision) -> None:
        """Keep a decision assumed whose write failed, or whose response was lost, until ``observe`` settles it.

        If the API server did perform the write, freeing the capacity now would assign it twice.
        """
        if decision.clusters is not None:
            with self._lock:
                self._unconfirmed[key] = decision

    def observe(self, key: Key, binding: Binding | None) -> None:
        """Compare what is assumed with the latest binding (None if it is gone), and forget what was not written."""
        with self._lock:
            if binding is not None and key not in self._unconfirmed:
                self._free(self._assumed.trim(key, Request.of(binding).occupied(binding.assignment)))
            decision = self._unconfirmed.pop(key, None)
            if decision is None:
                return
            if binding is None or binding.metadata.uid != decision.binding.metadata.uid:
                self._free(self._assumed.forget(key))
            elif binding.assignment == decision.clusters:
                return
            elif decision.assumed_before is not None:
                self._free(self._assumed.restore(key, decision.assumed_before))
            self._scheduler.peers.place(
                Request.of(binding or decision.binding), binding.assignment if binding is not None else ()
            )

    def expire(self) -> None:
        with self._lock:
            self._free(self._assumed.expire(self._clock.monotonic_s()))

    def take_freed(self) -> set[str]:
        """Return the clusters where assumed capacity was freed since the last call."""
        with self._lock:
            freed, self._freed = self._freed, set()
            return freed

    def assumed_count(self) -> int:
        """Return how many bindings are assumed, summed over the clusters."""
        with self._lock:
            return len(self._assumed)

    def could_host(self, placement: Placement, clusters: Iterable[str]) -> bool:
        """Whether any of these clusters is in a group of a placement, or in a group's overflow.

        No cluster can host a placement above the limits.
        """
        with self._lock:
            fleet = self._scheduler.fleet
            rows = [fleet.row_of[name] for name in clusters if name in fleet.row_of]
            try:
                groups = self._scheduler.compile(placement).groups
            except TooLargeError:
                return False
            return any(
                affinity is None or bool(affinity.current()[rows].any())
                for group in groups
                for affinity in (group.own, *(group.overflow or ()))
            )

    def decide_and_assume(self, key: Key, binding: Binding, *, explain: bool = False) -> BindingDecision:
        """Decide for a binding with a placement, and assume the result. See ``decide_with_moves``.

        The Works of the binding are read only if the decision depends on them. The decision is then taken again.
        """
        asked = self._asked(key, binding)
        bounds = self._bounds(binding, asked)
        try:
            return self._decide_and_assume(key, binding, bounds, asked, explain=explain)
        except CopiesNotReadError:
            asked = asked._replace(copies=self._copies(key, binding))
            return self._decide_and_assume(key, binding, bounds, asked, explain=explain)

    def decide_refused(self, key: Key, decision: BindingDecision, why: str) -> BindingDecision | None:
        """Decide what to write instead of a refused step of a move, and assume it. See ``moves.decide_refused``."""
        if self._moves is None or decision.change is CopiesChange.NONE:
            return None
        try:
            return self._decide_refused(key, decision, why, _NOT_ASKED)
        except CopiesNotReadError:
            return self._decide_refused(key, decision, why, _Asked(self._copies(key, decision.binding)))

    def _copies(self, key: Key, binding: Binding) -> Copies:
        """Read the Works of a binding, without the lock. What was admitted for the binding is released."""
        if self._moves is not None:
            self._moves.refused(key)
        return Copies(problem="Works are not read") if self._read_copies is None else self._read_copies(binding)

    def _decide_refused(self, key: Key, decision: BindingDecision, why: str, asked: _Asked) -> BindingDecision | None:
        with self._lock:
            now_s = self._clock.monotonic_s()
            moves = self._context(key, asked)
            found = decide_refused(self._state, decision, now_s, moves, why) if moves is not None else None
            if found is not None and found.clusters is not None:
                found = replace(found, assumed_before=self._assume(key, found, found.clusters, now_s))
            return found

    def _asked(self, key: Key, binding: Binding) -> _Asked:
        """Ask the estimators which replicas do not run, if the decision looks for drift. Without the lock."""
        if self._moves is None or not self._moves.looks_for_drift(key, binding):
            return _NOT_ASKED
        missing = missing_replicas(binding)
        query = None
        if missing and self._ask is not None:
            query = stuck_query_of(binding, missing, self._moves.policy(binding).settings.rebalance)
        answers = {} if query is None or self._ask is None else self._ask(query)
        stuck = {name: min(count, missing[name]) for name, count in sorted(answers.items()) if count > 0}
        return _Asked(stuck=stuck, leaving=self._moves.leaving(key, binding))

    def _context(self, key: Key, asked: _Asked) -> MoveContext | None:
        if self._moves is None:
            return None
        context = self._moves.context(key)
        return context if asked is _NOT_ASKED else context._replace(**asked._asdict())

    def _decide_and_assume(
        self, key: Key, binding: Binding, answered: _Bounds | None, asked: _Asked, *, explain: bool
    ) -> BindingDecision:
        with self._lock:
            now_s = self._clock.monotonic_s()
            bounds = self._without_assumed(binding, answered)
            moves = self._context(key, asked)
            trace = MoveTrace(moves) if self._log is not None and moves is not None else None
            moves = trace.context if trace is not None else moves
            decision = decide_with_moves(self._state, binding, now_s, bounds, moves, explain=explain)
            idle = decision.change is CopiesChange.NONE and decision.replaced is None
            if self._moves is not None and asked.copies is not None and idle:
                self._moves.refused(key)  # the move was admitted, and does not begin
            inputs = None
            if self._log is not None and decision.is_news:
                inputs = self._inputs(self._log, decision.request, now_s, bounds, trace)
            before = None if decision.clusters is None else self._assume(key, decision, decision.clusters, now_s)
            if inputs is not None or before is not None:
                decision = replace(decision, inputs=inputs, assumed_before=before)
            return decision

    def preview(self, binding: Binding) -> BindingDecision:
        """Decide for a binding with a placement, and assume nothing. Moves do not count. See ``decide``."""
        answered = self._bounds(binding)
        with self._lock:
            bounds = self._without_assumed(binding, answered)
            return decide(self._state, binding, self._clock.monotonic_s(), bounds)

    def trigger(self, binding: Binding) -> Trigger:
        """Return why a binding would be scheduled now."""
        with self._lock:
            return trigger_by(self._state.rules, effective(binding), self._scheduler.fleet)

    def observe_assignment(self, key: Key, before: Binding | None, after: Binding) -> None:
        """Store an assignment that this process did not write: for workload affinity, and until clusters report it."""
        self.update_peers(after)
        if before is not None:
            self.forget(key, before.assignment.keys() - after.assignment.keys())
        self.adopt(key, before, after)

    def observe_health(self, key: Key, before: Binding, after: Binding) -> None:
        """Forget what is assumed on clusters that report the workload healthy, and whose report has changed."""
        known = before.reports
        self.forget(key, [name for name, each in after.reports.items() if each.healthy and known.get(name) != each])

    def _inputs(
        self,
        log: FleetLog,
        request: Request,
        now_s: float,
        bounds: Mapping[str, int] | None,
        moves: MoveTrace | None,
    ) -> DecisionInputs:
        groups = ((AFFINITY, request.affinity_group), (ANTI_AFFINITY, request.anti_affinity_group))
        peers = self._scheduler.peers
        return DecisionInputs(
            log.snapshot(),
            now_s,
            dict(self._unready_since_s) if self._state.failover.after_s is not None or moves is not None else {},
            bounds,
            {
                (kind, group): peers.of(kind, request.namespace, group, except_for=request.name)
                for kind, group in groups
                if group
            },
            None if moves is None else moves.inputs(),
        )

    def _bounds(self, binding: Binding, asked: _Asked = _NOT_ASKED) -> _Bounds | None:
        """Ask the estimators, without the lock. None if no estimator matters for this binding."""
        if self._ask is None:
            return None
        binding = effective(as_moved(binding))
        with self._lock:
            request = Request.of(binding)
            if not needs_decision(self._state, binding, self._clock.monotonic_s()):
                moves = self._context(binding.metadata.key, asked)
                if moves is None or not about_to_move(self._state, binding, moves):
                    return None
                request = replace(request, fresh=True)  # a move may go to any group
            query = query_of(self._scheduler, request, binding.spec)
        if query is None:
            return None
        inside = self._ask(query)
        if not query.outside:
            return _Bounds(inside)
        with self._lock:
            crowded = self._crowded(request, inside)
        return _Bounds(inside, self._ask(query.without_quotas(crowded)) if crowded else {})

    def _crowded(self, request: Request, bounds: Mapping[str, int]) -> list[str]:
        """Return the clusters that look too full for replicas of other namespaces, which take nothing from a quota."""
        wanted, taken = max(1, request.replicas), self._taken(request, bounds)
        short = [name for name, bound in bounds.items() if taken[name] and bound - taken[name] < wanted]
        own = self._taken(request, short, request.namespace)
        return [name for name in short if own[name] < min(taken[name], bounds[name])]

    def _assume(
        self, key: Key, decision: BindingDecision, clusters: Mapping[str, int], now_s: float
    ) -> dict[str, PendingReplicas] | None:
        """Assume a decided assignment; what was assumed before, or None if its replicas need no capacity.

        What runs now counts, not what the request says: while a move is under way they differ.
        """
        request, running = decision.request, decision.binding.assignment
        if request.affinity_group or request.anti_affinity_group:
            self._scheduler.peers.place(request, clusters)
        current, after = request.occupied(running), request.occupied(clusters)
        if not self._protects or not (current or after):
            return None
        before = self._assumed.pending(key)
        self._apply(self._assumed.assume(key, current, after, request.requests, now_s, request.set_templates))
        self._freed.update(name for name in before if after.get(name, 0) < current.get(name, 0))
        return before

    def _without_assumed(self, binding: Binding, bounds: _Bounds | None) -> Mapping[str, int] | None:
        """Deduct what is assumed, in replicas of the workload or in sets of its pods. Estimators do not see it yet.

        From an answer that a quota may limit, what other namespaces take is deducted only if the answer without quotas
        is not known.
        """
        if bounds is None or not bounds.inside:
            return None if bounds is None else bounds.inside
        request = Request.of(binding)
        left = {name: bounds.inside[name] - taken for name, taken in self._taken(request, bounds.inside).items()}
        own = self._taken(request, bounds.outside, request.namespace)
        for name, taken in self._taken(request, bounds.outside).items():
            left[name] = min(bounds.inside[name] - own[name], bounds.outside[name] - taken)
        return {name: max(0, each) for name, each in left.items()}

    def _taken(self, request: Request, clusters: Iterable[str], namespace: str | None = None) -> dict[str, int]:
        """Return what is assumed on clusters, in replicas of a workload or in sets of its pods."""
        if places_whole_sets(request, self._scheduler.compile(request.placement)):
            demand = demand_of(request.component_set)
            return {name: self._assumed.equivalent_sets(name, demand, namespace) for name in clusters}
        return {name: self._assumed.equivalent_replicas(name, request.requests, namespace) for name in clusters}

    def _free(self, clusters: Iterable[Cluster]) -> None:
        for cluster in clusters:
            self._freed.add(cluster.name)
            self._put(cluster)

    def _apply(self, clusters: Iterable[Cluster]) -> None:
        for cluster in clusters:
            self._put(cluster)

    def _put(self, cluster: Cluster) -> None:
        self._scheduler.fleet.apply(cluster)
        if self._log is not None:
            self._log.put(cluster)
