"""What the binding scheduler asks about moves: settings, budgets, the storm brake and the annotations of policies.

One object connects them for the decisions of a process. It remembers nothing that bindings do not say, except the
reservations of ``Admissions``.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from berthmaster.controllers.moves.metrics import MoveMetrics
from berthmaster.controllers.moves.waiting import DriftLooks, WaitingMoves
from berthmaster.deciding.admissions import Admissions
from berthmaster.deciding.budgets import MoveCandidate, Waiting, candidate_of, pause_of
from berthmaster.deciding.config import JOB, MovesConfig, MoveSettings, failback_annotation, subject_of
from berthmaster.deciding.context import MoveContext, PolicyMoves
from berthmaster.deciding.copies import seconds_since
from berthmaster.model.binding import Binding
from berthmaster.model.claims import holder
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import Key
from berthmaster.model.move import (
    FAILBACK,
    POLICY_KEYS,
    STRATEGY,
    WAITING,
    MoveReason,
    MoveState,
    MoveStrategy,
    move_of,
)
from berthmaster.model.policy import PolicyReference
from berthmaster.runtime.clock import Clock

_NOTHING: Final[Mapping[str, str]] = {}


class AnnotationSource(Protocol):
    """Knows the annotations of policies."""

    def of(self, policy: PolicyReference) -> Mapping[str, str]:
        """Return the annotations of a policy; empty if it is not known."""


class MovesControl(Protocol):
    """The configuration of moves, the storm brake, and what is admitted."""

    @property
    def admissions(self) -> Admissions:
        """The moves under way and reserved. One thread may use it at a time."""

    def begin(self, now_s: float) -> None:
        """Note that this process leads since a monotonic time. Writes of an earlier leader may still arrive."""

    def config(self) -> MovesConfig:
        """Return the present configuration."""

    def brake_reason(self) -> str | None:
        """Return why the storm brake stops moves; None if it does not."""

    def totals(self) -> Mapping[str, int] | None:
        """Return the replicas of each budget with a percentage; None if no budget has one."""


class MoveSupervisor:
    """Answers for the decisions of one process. Safe for several threads."""

    def __init__(
        self,
        control: MovesControl,
        clock: Clock,
        producer: str,
        annotations: AnnotationSource | None = None,
        metrics: MoveMetrics | None = None,
    ) -> None:
        """Start without bindings."""
        self.waiting = WaitingMoves(clock)
        self.looks = DriftLooks(clock)
        self._control = control
        self._clock = clock
        self._producer = producer
        self._annotations = annotations
        self._metrics = metrics or MoveMetrics()
        self._lock = threading.Lock()

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
            self._control.brake_reason() or "",
        )

    def policy(self, binding: Binding) -> PolicyMoves:
        """Return what the configuration and the policy of a binding say about its moves.

        An invalid annotation turns nothing on; ``problem`` names it.
        """
        settings = self._control.config().settings_for(subject_of(binding))
        reference = holder(binding.metadata)
        annotations = self._annotations_of(reference)
        if not annotations.keys() & POLICY_KEYS:
            return PolicyMoves(settings)
        try:
            return _annotated(settings, annotations, binding.spec.resource.kind)
        except FieldError as error:
            return PolicyMoves(settings, problem=f"{reference}: {error}")

    @property
    def rebalances(self) -> bool:
        """Whether drift asks for moves of any binding."""
        return self._control.config().rebalances

    def looks_for_drift(self, key: Key, binding: Binding) -> bool:
        """Return whether the next decision for a binding looks for drift: it is due, or drift is known and waits."""
        due, record = self.looks.take(key), move_of(binding)
        if record is None or record.under_way:
            return due and record is None
        return due or (record.reason is MoveReason.REBALANCE and record.phase in WAITING)

    def observe(self, key: Key, binding: Binding) -> None:
        """Record the move in an observed or written version of a binding."""
        state = move_of(binding)
        active = self._candidate(key, binding, state) if state is not None and state.under_way else None
        with self._lock:
            self._control.admissions.observe(key, active, binding.metadata.resource_version)

    def written(self, key: Key, before: Binding, after: Binding) -> None:
        """Record what this process wrote: the move of a binding, and the end of a phase."""
        self.observe(key, after)
        then, now = move_of(before), move_of(after)
        if then is None or (now is not None and now.phase is then.phase):
            return
        self._metrics.phase_ended(then.reason, then.phase, seconds_since(then.since, self._clock.now()))
        if then.under_way and (now is None or not now.under_way):
            self._metrics.ended(then.reason, "Abandoned" if now is None else now.phase.value)

    def remove(self, key: Key) -> None:
        with self._lock:
            self._control.admissions.remove(key)

    def refused(self, key: Key) -> None:
        """Release what was admitted for a binding: the API server has not performed the write."""
        with self._lock:
            self._control.admissions.refused(key)

    def lost(self, key: Key) -> None:
        """Keep what was admitted for a binding until its write can no longer happen: the response was lost."""
        with self._lock:
            self._control.admissions.lost(key, self._clock.monotonic_s())

    def _admit(self, key: Key, binding: Binding, state: MoveState) -> Waiting | None:
        candidate = self._candidate(key, binding, state)
        with self._lock:
            return self._control.admissions.admit(
                candidate,
                binding.metadata.resource_version,
                self._clock.now(),
                self._clock.monotonic_s(),
                self._control.totals(),
            )

    def _candidate(self, key: Key, binding: Binding, state: MoveState) -> MoveCandidate:
        return candidate_of(key, binding, state, pause_of(self._annotations_of(holder(binding.metadata))))

    def _annotations_of(self, policy: PolicyReference | None) -> Mapping[str, str]:
        return _NOTHING if policy is None or self._annotations is None else self._annotations.of(policy)


def _annotated(settings: MoveSettings, annotations: Mapping[str, str], kind: str) -> PolicyMoves:
    strategy = annotations.get(STRATEGY)
    if strategy is not None:
        known = [each.value for each in MoveStrategy]
        if strategy not in known:
            raise FieldError(STRATEGY, f"{strategy!r} is unknown; use {' or '.join(known)}")
        settings = replace(settings, strategy=MoveStrategy(strategy))
    text = annotations.get(FAILBACK)
    if text is not None and kind != JOB:
        try:
            settings = replace(settings, failback=failback_annotation(text, settings.failback))
        except FieldError as error:
            raise error.below(FAILBACK) from None
    return PolicyMoves(settings, reschedules=strategy is not None)
