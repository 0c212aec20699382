"""What the binding scheduler asks about moves: settings, budgets, the storm brake and the annotations of policies.

One object connects them for the decisions of a process. It remembers nothing that bindings do not say, except the
reservations of ``Admissions``.
"""

import threading
from collections.abc import Mapping
from functools import cache, partial

from berthmaster.controllers.moves.control import LiveControl
from berthmaster.controllers.moves.drift_looks import DriftLooks
from berthmaster.controllers.moves.metrics import ENDED, PHASE_SECONDS
from berthmaster.controllers.moves.policy_annotations import PolicyAnnotations
from berthmaster.controllers.moves.waiting_moves import WaitingMoves
from berthmaster.deciding.admissions import MoveCandidate, Waiting, candidate_of, pause_of
from berthmaster.deciding.copies import seconds_since
from berthmaster.deciding.decision_recorder import MoveContext, PolicyMoves
from berthmaster.deciding.leaving import Leaving, leaving_of, room_after
from berthmaster.deciding.move_selector import subject_of
from berthmaster.deciding.policy_moves import policy_moves
from berthmaster.deciding.quotas import given_up, use_of
from berthmaster.model.binding import Binding, holder
from berthmaster.model.meta import Key
from berthmaster.model.move import WAITING, MoveReason, MoveState, MoveStrategy, move_of
from berthmaster.model.policy import PolicyReference
from berthmaster.runtime.clock import Clock
from berthmaster.scheduling.request import Request


class MoveSupervisor:
    """Answers for the decisions of one process. Safe for several threads."""

    def __init__(
        self,
        control: LiveControl,
        clock: Clock,
        producer: str,
        annotations: PolicyAnnotations | None = None,
    ) -> None:
        """Start without bindings."""
        self.waiting = WaitingMoves(clock)
        self.looks = DriftLooks(clock)
        self._control = control
        self._clock = clock
        self._producer = producer
        self._annotations = annotations
        self._lock = threading.Lock()
        self._planned_use: dict[Key, dict[str, int]] = {}
        self._given_up: dict[Key, dict[str, int]] = {}
        self._leaving: dict[Key, Leaving] = {}

    def begin(self) -> None:
        """Note that this process leads from now on."""
        self._control.begin(self._clock.monotonic_s())

    def context(self, key: Key) -> MoveContext:
        """Return what a decision for a binding reads about moves now."""
        return MoveContext(
            self._clock.now(),
            self.policy,
            partial(self._admit, key),
            self._producer,
            cache(lambda: self._control.brake_reason() or ""),
        )

    def policy(self, binding: Binding) -> PolicyMoves:
        """Return what the configuration and the policy of a binding say about its moves."""
        settings = self._control.config.settings_for(subject_of(binding))
        return policy_moves(settings, self._annotations_of(holder(binding.metadata)), binding)

    @property
    def rebalances(self) -> bool:
        """Whether drift asks for moves of any binding."""
        return self._control.config.rebalances

    def looks_for_drift(self, key: Key, binding: Binding) -> bool:
        """Return whether the next decision for a binding looks for drift: it is due, or drift is known and waits."""
        due, record = self.looks.take(key), move_of(binding)
        if record is None or record.under_way:
            return due and record is None
        return due or (record.reason is MoveReason.REBALANCE and record.phase in WAITING)

    def observe(self, key: Key, binding: Binding) -> None:
        """Record the move in an observed or written version of a binding."""
        state = move_of(binding)
        active = self._candidate(key, binding, state) if state is not None and state.is_counted else None
        kept, leaving = given_up(binding, state), leaving_of(binding, state)
        with self._lock:
            self._control.admissions.observe(key, active, binding.metadata.resource_version)
            self._planned_use.pop(key, None)
            if kept:
                self._given_up[key] = kept
            else:
                self._given_up.pop(key, None)
            if leaving is not None:
                self._leaving[key] = leaving
            else:
                self._leaving.pop(key, None)

    def written(self, key: Key, before: Binding, after: Binding) -> None:
        """Record what this process wrote: the move of a binding, and the end of a phase."""
        self.observe(key, after)
        then, now = move_of(before), move_of(after)
        if then is None or (now is not None and now.phase is then.phase):
            return
        PHASE_SECONDS.labels(then.reason.value, then.phase.value).observe(seconds_since(then.since, self._clock.now()))
        if then.under_way and (now is None or not now.under_way):
            ENDED.labels(then.reason.value, "Abandoned" if now is None else now.phase.value).inc()

    def remove(self, key: Key) -> None:
        with self._lock:
            self._control.admissions.remove(key)
            self._planned_use.pop(key, None)
            self._given_up.pop(key, None)
            self._leaving.pop(key, None)

    def leaving(self, key: Key, binding: Binding) -> dict[str, int]:
        """Return how many more replicas of a binding fit when the moves of others have ended, by cluster."""
        if not self._leaving:
            return {}
        with self._lock:
            others = [each for other, each in self._leaving.items() if other != key]
        return room_after(others, Request.of(binding).requests, self._clock.now())

    def kept_use(self, key: Key) -> dict[str, int]:
        """Return what is kept of the quotas of a namespace for other bindings whose old copies are gone.

        It is in billionths of each resource; empty for a binding for which something is kept.
        """
        if not self._given_up and not self._planned_use:
            return {}
        with self._lock:
            kept = {**self._planned_use, **self._given_up}
        others = [use for each, use in kept.items() if each[0] == key[0]]
        names = {name for use in others for name in use} if key not in kept else ()
        return {name: sum(use.get(name, 0) for use in others) for name in names}

    def refused(self, key: Key) -> None:
        """Release what was admitted for a binding: the API server has not performed the write."""
        with self._lock:
            self._control.admissions.refused(key)
            self._planned_use.pop(key, None)

    def lost(self, key: Key) -> None:
        """Keep what was admitted for a binding until its write can no longer happen: the response was lost."""
        with self._lock:
            self._control.admissions.lost(key, self._clock.monotonic_s())

    def _admit(self, key: Key, binding: Binding, state: MoveState) -> Waiting | None:
        candidate = self._candidate(key, binding, state)
        with self._lock:
            waiting = self._control.admissions.admit(
                candidate,
                binding.metadata.resource_version,
                self._clock.now(),
                self._clock.monotonic_s(),
                self._control.totals,
            )
            if waiting is None and state.strategy is MoveStrategy.BREAK_BEFORE_MAKE:
                # Its write frees the use before this process sees that.
                self._planned_use[key] = use_of(binding, binding.assignment)
            return waiting

    def _candidate(self, key: Key, binding: Binding, state: MoveState) -> MoveCandidate:
        return candidate_of(key, binding, state, pause_of(self._annotations_of(holder(binding.metadata))))

    def _annotations_of(self, policy: PolicyReference | None) -> Mapping[str, str]:
        return {} if policy is None or self._annotations is None else self._annotations.of(policy)
