"""What the binding scheduler asks about moves: settings, budgets, the storm brake and the annotations of policies.

One object connects them for the decisions of a process. It remembers nothing that bindings do not say, except the
reservations of ``Admissions``.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Final

import msgspec.structs

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves.control import LiveControl
from berthmaster.controllers.moves.metrics import ENDED, PHASE_SECONDS
from berthmaster.deciding.budgets import MoveCandidate, Waiting, candidate_of, pause_of
from berthmaster.deciding.config import subject_of
from berthmaster.deciding.copies import seconds_since
from berthmaster.deciding.decision_recorder import MoveContext, PolicyMoves
from berthmaster.deciding.leaving import Leaving, leaving_of, room_after
from berthmaster.deciding.policy_moves import policy_moves
from berthmaster.deciding.quotas import given_up, use_of
from berthmaster.kube.client import APIClient
from berthmaster.kube.informer import Informer
from berthmaster.kube.kinds import POLICIES_BY_KIND
from berthmaster.kube.works import list_works, with_template
from berthmaster.model.binding import Binding, holder
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import Key
from berthmaster.model.move import (
    POLICY_KEYS,
    WAITING,
    MoveReason,
    MoveState,
    MoveStrategy,
    move_of,
)
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.work import Copies, FederatedResourceQuota, copies_of, work_selector
from berthmaster.runtime.clock import Clock
from berthmaster.scheduling.request import Request

MAX_WORKS: Final = 20_000
"""The most Works of one binding. A fleet has fewer clusters."""

Needing = Callable[[Binding, str, str], tuple[str, ...]]
"""Returns who needs a resource in a cluster, as ``NeedIndex.needing``."""
QuotasOf = Callable[[str], tuple[FederatedResourceQuota, ...]]
"""Returns the quotas of a namespace."""


def read_copies(client: APIClient, needing: Needing, quotas: QuotasOf, binding: Binding) -> Copies:
    """Return the copies of a workload, by the Works with the permanent id of its binding. Few bindings move at a time.

    It never raises: ``problem`` says why they could not be read.
    """
    selector = work_selector(binding)
    if not selector:
        return Copies(problem="the binding has no permanent id, so its Works cannot be found; Karmada sets the id")
    try:
        copies = copies_of(list_works(client, MAX_WORKS, labels=selector))
    except ApiError as error:
        return Copies(problem=f"the Works of the binding cannot be read: {error}")
    copies = with_needs(with_template(client, copies, binding), needing, binding)
    return msgspec.structs.replace(copies, quotas=quotas(binding.metadata.namespace))


def with_needs(copies: Copies, needing: Needing, binding: Binding) -> Copies:
    """Return the copies of a resource with who needs each."""
    defines = next((each.facts.defines for each in copies.by_cluster.values() if each.facts.defines), "")
    clusters = sorted(copies.by_cluster.keys() | binding.assignment.keys())
    found = {name: who for name in clusters if (who := needing(binding, name, defines))}
    return msgspec.structs.replace(copies, needed=found)


_NONE: Final[Mapping[str, str]] = {}


class PolicyAnnotations:
    """Reads the annotations of the policies that the informers hold. Other controllers share the informers."""

    def __init__(self, context: ControllerContext) -> None:
        self._informers: dict[str, Informer[Policy]] = {
            kind: context.informer(watched.collection, watched.read) for kind, watched in POLICIES_BY_KIND.items()
        }

    def subscribe(self, changed: Callable[[PolicyReference], None]) -> None:
        """Call a function with each policy whose annotations about moves have changed."""

        def handle(_key: tuple[str, str], before: Policy | None, after: Policy | None) -> None:
            policy = after or before
            # The bindings of a policy that is new to this process are new as well.
            if policy is not None and before is not None and about_moves(before) != about_moves(after):
                changed(policy.reference)

        for informer in self._informers.values():
            informer.subscribe(handle)

    def of(self, policy: PolicyReference) -> Mapping[str, str]:
        """Return the annotations of a policy; empty if it is not known."""
        found = self._informers[policy.kind].get((policy.namespace, policy.name))
        return found.metadata.annotations if found is not None else _NONE


def about_moves(policy: Policy | None) -> dict[str, str]:
    """Return the annotations of a policy that concern moves."""
    annotations = policy.metadata.annotations if policy is not None else {}
    return {key: annotations[key] for key in sorted(POLICY_KEYS) if key in annotations}


INTERVAL_S: Final = 10.0
"""How often bindings that wait are looked at, at most."""
LIMIT: Final = 500
"""How many of them are looked at in one interval."""
ROUND_S: Final = 30.0
"""How often a binding is looked at for drift, at most."""
LOOKS_PER_S: Final = 25
"""How many bindings are looked at for drift each second. A look takes a millisecond, and five in a large fleet."""
_SKIPPED_PER_LOOK: Final = 40
_LONGEST_GAP_S: Final = 10.0


class WaitingMoves:
    """The bindings without a place, and the clusters that gained capacity since the last look. For several threads.

    A cluster gains capacity with almost every status. Without a limit, each of them would cost a full decision for
    every binding that waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: dict[Key, None] = {}  # ordered: the binding that waits longest comes first
        self._gained: set[str] = set()
        self._next_s = 0.0

    def __len__(self) -> int:
        return len(self._keys)

    def update(self, key: Key, *, waits: bool) -> None:
        """Record whether a binding has no place."""
        if not waits and key not in self._keys:
            return
        with self._lock:
            self._keys.pop(key, None)
            if waits:
                self._keys[key] = None

    def gained(self, clusters: Iterable[str]) -> None:
        if self._keys:
            with self._lock:
                self._gained.update(clusters)

    def take(self) -> tuple[list[Key], set[str]]:
        """Return the bindings to look at and the clusters that gained capacity; both are empty between intervals."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if not self._gained or now_s < self._next_s:
                return [], set()
            self._next_s = now_s + INTERVAL_S
            gained, self._gained = self._gained, set()
            return list(self._keys), gained


class DriftLooks:
    """The bindings that are due to be looked at for drift: all in turn, and few each second. For several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due: set[Key] = set()
        self._round: Iterator[Key] = iter(())
        self._round_s = self._looked_s = float("-inf")

    def next(self, keys: Callable[[], Iterable[Key]], rebalances: Callable[[Key], bool]) -> list[Key]:
        """Return the bindings that become due now. Call it every second or so, from one thread.

        Args:
            keys: returns all bindings. It is called at the start of a round.
            rebalances: whether drift asks for moves of a binding.
        """
        now_s = self._clock.monotonic_s()
        passed_s = min(now_s - self._looked_s, _LONGEST_GAP_S)
        self._looked_s = now_s
        looks = int(passed_s * LOOKS_PER_S)
        found: list[Key] = []
        for _ in range(looks * _SKIPPED_PER_LOOK):
            key = next(self._round, None)
            if key is None:
                if now_s >= self._round_s + ROUND_S:
                    self._round_s, self._round = now_s, iter(list(keys()))
                break
            if rebalances(key):
                found.append(key)
                if len(found) == looks:
                    break
        with self._lock:
            self._due.update(found)
        return found

    def take(self, key: Key) -> bool:
        """Return whether a binding is due, and count it as looked at."""
        if key not in self._due:
            return False
        with self._lock:
            self._due.discard(key)
        return True


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
        return _NONE if policy is None or self._annotations is None else self._annotations.of(policy)
