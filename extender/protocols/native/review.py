"""``/v1/review``: whether one change of a policy stays within limits, for an admission webhook that waits.

Reviews get the index before the plans of people, and for a bounded time: a change that exceeds a limit is known to do
so after a few decisions. A change that takes longer is planned in a thread of its own. The review waits for that plan
as long as it can. A dry run ends early while a change that would be stored waits, and each user gets an equal share of
the time (``FairTurns``).

A later review of the same change gets the plan if the fleet is still the same: the answer to a review is always about
the state of the fleet after the review came (``PlanBasis``).

A Lazy policy counts as if all templates changed at once: what it moves later, no review sees again. Karmada's gate
PropagationPolicyPreemption cannot be read from a control plane. A review assumes that preemption is on:
a policy that may take workloads over never passes because the service does not know the gate.
"""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from msgspec.structs import replace

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import InputError
from berthmaster.model.gaps import Gap, texts
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.readers import ANY_READER
from berthmaster.native_api.what_if import (
    ChangeReview,
    PlanAnswer,
    PlanCounts,
    PlanRequest,
    PolicySet,
    ReviewAnswer,
    ReviewedWorkload,
)
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import log_exceptions
from berthmaster.simulation.basis import PlanBasis, basis_of
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.plan_answer import Plan, PlannedMove, Switch, UnplacedWorkload
from berthmaster.simulation.plan_review import MoveCounts, OutOfTimeError, PlanReview, at_most, review_plan
from extender.protocols.native.plan import (
    Planner,
    changes_of,
    known_policies,
    plan_gaps,
    require_fresh,
    require_plannable,
    require_templates,
    stored_policies,
)
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services
from extender.protocols.turns import FairTurns, Rank, Turn, UserTimes

_TURN_STEPS: Final = 2_500
"""The steps for which one review holds the turn of all reviews: two for each workload, which take about 0.4 ms."""
_PLAN_S: Final = 60.0
"""The longest time of a plan that a review began."""
_KEPT_S: Final = 60.0
"""How long a plan answers reviews of the same change on the same fleet after it was made."""
_MAX_PLANS: Final = 8
"""The most plans that run, wait or are kept."""
_TRIES: Final = 2
"""How many plans a review waits for: one that an earlier review began, and one of the present fleet."""
_LOOK_S: Final = 0.02
_LOOKS: Final = 25
"""How often a review looks for a policy that is not known yet, and how long it waits in between."""
_LOOK_PASSED_S: Final = 0.005
_LOOKS_PASSED: Final = 50
"""How often a review looks whether a change before it is observed, and how long it waits in between."""
_MESSAGE: Final = 200
_SHOWN: Final = 3
_SHOWN_CLUSTERS: Final = 2


class PlanReviewer:
    """Reviews one change at a time. Safe for several threads."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._plans = _LongPlans(planner.turns.times)
        self._passed = _PassedChanges()

    def review(self, services: Services, call: Call, request: ChangeReview) -> ReviewAnswer:
        if request.timeout_ms is not None:
            call = call.until(services.clock.monotonic_s() + request.timeout_ms / 1000)
        begun_s = services.clock.monotonic_s()
        self._passed.await_observed(services, call)
        wanted = plan_request(request)
        with nullcontext() if request.dry_run else services.reviews.stored():
            answer = self._answer(services, call, request, wanted, begun_s)
        answer = replace(answer, lazy=any(each.lazy for each in (*wanted.create, *wanted.update)))
        exceeds = request.limits is not None and request.limits.are_exceeded_by(answer)
        if not request.dry_run and (request.accepts or not exceeds):
            self._passed.add(services, wanted)
        return answer

    def _answer(
        self, services: Services, call: Call, request: ChangeReview, wanted: PlanRequest, begun_s: float
    ) -> ReviewAnswer:
        changes = changes_of(services, wanted)
        require_plannable(services)
        stored = _known(services, call, wanted)
        policies = [*changes.policies, *stored]
        require_templates(services, call, policies)
        asked = _AskedReview(services, call, request, changes, policies)
        key = hashlib.sha256(encode_json([request.change, *(each.spec for each in stored)])).hexdigest()
        kept = self._plans.result(key, services.clock, begun_s)
        if kept is not None and self._is_present(asked, kept, begun_s):
            return _answer_of_made(kept)
        with services.reviews.judging():
            reviewed, gaps = self._judged(asked)
        require_fresh(services)
        if reviewed.plan is not None:
            return review_answer(reviewed)
        exceeds = request.limits is not None and request.limits.are_exceeded_by(reviewed.counts)
        if exceeds and not request.accepts:
            return review_answer(reviewed, gaps)

        def make() -> MadePlan:
            return self._made(services, wanted, lambda: request.dry_run and services.reviews.stored_wait)

        planning = False
        for _ in range(0 if asked.gives_way else _TRIES):
            planning = self._plans.begin(key, make, services, asked.turn, instead_of=kept)
            kept = self._plans.result(key, services.clock, call.deadline_s) if planning else None
            if kept is None:
                break
            if self._is_present(asked, kept, begun_s):
                return _answer_of_made(kept)
        return review_answer(reviewed, gaps, planning=planning)

    def _judged(self, asked: "_AskedReview") -> tuple[PlanReview, Sequence[Gap]]:
        """Return what can be counted in a turn, and what is not known."""
        services, state = asked.services, asked.services.state
        gaps: Sequence[Gap] = ()
        with services.turn(self._planner.turns, asked.turn, asked.call, "other reviews"):
            try:
                index, gaps = self._indexed(asked)
                return review_plan(
                    index, asked.changes, services.clock.now(), asked.request.limits, gaps=gaps,
                    check=at_most(_TURN_STEPS, asked.check),
                ), gaps  # fmt: skip
            except OutOfTimeError:
                return PlanReview(MoveCounts(len(state.world().workloads) if state.observed is None else 0)), gaps

    def _is_present(self, asked: "_AskedReview", made: "MadePlan", begun_s: float) -> bool:
        """Return whether a plan is about the fleet after a time: it was read later, or all that counts is the same."""
        if made.read_s > begun_s:
            return True
        with asked.services.turn(self._planner.turns, asked.turn, asked.call, "other reviews"):
            try:
                present = self._basis(asked)
            except OutOfTimeError:
                return False
        return made.basis.is_same(present)

    def _basis(self, asked: "_AskedReview") -> PlanBasis:
        index, gaps = self._indexed(asked)
        return basis_of(index, asked.changes, gaps)

    def _indexed(self, asked: "_AskedReview") -> tuple[PlanIndex, Sequence[Gap]]:
        """Return the index of the present state, and what is not known. The caller holds a turn."""
        services, state = asked.services, asked.services.state
        world = state.world(asked.check, asked.changes.policies)
        world = replace(state.assuming(world, services.clock.now(), preemption=Switch.ON), lazy_counts=True)
        return self._planner.index_of(world, state.profile), plan_gaps(state, world, asked.policies)

    def _made(self, services: Services, wanted: PlanRequest, gives_way: Callable[[], bool]) -> "MadePlan":
        """Return the whole plan of a change. Raises ``Refusal`` if it gives way to others."""
        clock, read = services.clock, []

        def note(index: PlanIndex, changes: ChangeSet, gaps: Sequence[Gap], read_s: float) -> None:
            read.append((basis_of(index, changes, gaps), read_s))

        within = Call("review", clock.monotonic_s() + _PLAN_S, has_gone=gives_way)
        answer = decode_json(PlanAnswer, self._planner.plan(services, within, wanted, note=note))
        return MadePlan(answer, *read[-1])


class _PassedChange(NamedTuple):
    """A change that may be stored: its policy, what was known of that, and when, on the monotonic clock."""

    reference: PolicyReference
    before: Policy | None
    at_s: float

    def awaits(self, services: Services) -> bool:
        """Return whether a change that was stored may still be on its way."""
        if services.clock.monotonic_s() - self.at_s >= _LOOKS_PASSED * _LOOK_PASSED_S:
            return False
        return stored_policies(services).get(self.reference) is self.before


class _PassedChanges:
    """The changes that reviews just let pass. The next review waits until the service has observed them, for a moment.

    Most are observed within milliseconds. One that is stored later, or never, does not delay others for longer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: list[_PassedChange] = []

    def add(self, services: Services, wanted: PlanRequest) -> None:
        now_s, stored = services.clock.monotonic_s(), stored_policies(services)
        policies = [each.reference for each in (*wanted.create, *wanted.update)]
        policies += [PolicyReference(each.kind, each.namespace, each.name) for each in wanted.delete]
        with self._lock:
            self._changes += [_PassedChange(each, stored.get(each), now_s) for each in policies]

    def await_observed(self, services: Services, call: Call) -> None:
        for _ in range(_LOOKS_PASSED):
            with self._lock:
                self._changes = [each for each in self._changes if each.awaits(services)]
                waits = bool(self._changes) and services.clock.monotonic_s() < call.deadline_s
            if not waits:
                return
            threading.Event().wait(_LOOK_PASSED_S)


class _AskedReview(NamedTuple):
    """A review under way. ``policies``: the policies after and before the change."""

    services: Services
    call: Call
    request: ChangeReview
    changes: ChangeSet
    policies: Sequence[Policy]

    @property
    def turn(self) -> Turn:
        """What the review waits for a turn as."""
        return Turn(Rank.DRY_RUN if self.request.dry_run else Rank.STORED, self.request.user)

    @property
    def gives_way(self) -> bool:
        """Whether it is a dry run beside a change that would be stored."""
        return self.request.dry_run and self.services.reviews.stored_wait

    def check(self) -> None:
        """Raise ``OutOfTimeError`` at the deadline, or to give way."""
        if self.gives_way or self.services.clock.monotonic_s() >= self.call.deadline_s:
            raise OutOfTimeError


class MadePlan(NamedTuple):
    """A whole plan, what it was computed from, and when that was read, on the monotonic clock."""

    answer: PlanAnswer
    basis: PlanBasis
    read_s: float


class _LongPlan(NamedTuple):
    """A plan that a thread makes. ``begun_s`` is when a review asked for it, on the monotonic clock."""

    begun_s: float
    user: str
    made: Future[MadePlan | None]

    def has_made(self, plan: MadePlan) -> bool:
        return self.made.done() and self.made.result() is plan


class _LongPlans:
    """The plans that reviews began. One is made at a time. They stay for a while, for later reviews.

    A user has at most half of those that are not made yet.
    """

    def __init__(self, times: UserTimes) -> None:
        self._lock = threading.Lock()
        self._turns = FairTurns(times)
        self._plans: dict[str, _LongPlan] = {}

    def begin(
        self,
        key: str,
        make: Callable[[], MadePlan],
        services: Services,
        turn: Turn,
        *,
        instead_of: MadePlan | None = None,
    ) -> bool:
        """Begin a plan, and return whether it is under way. A ``make`` that is refused leaves no plan.

        Args:
            turn: what it waits for its turn as. The plan of a dry run does not wait for others.
            instead_of: a plan of the same change that is about another state of the fleet by now.
        """
        with self._lock:
            self._forget(services.clock.monotonic_s())
            known = self._plans.get(key)
            if known is not None and (instead_of is None or not known.has_made(instead_of)):
                return True
            self._plans.pop(key, None)
            users = [each.user for each in self._plans.values() if not each.made.done()]
            if (users and turn.rank is Rank.DRY_RUN) or users.count(turn.user) >= _MAX_PLANS // 2:
                return False
            if len(self._plans) >= _MAX_PLANS and not self._drop_made():
                return False
            plan = self._plans[key] = _LongPlan(services.clock.monotonic_s(), turn.user, Future())
        work = partial(self._make, plan.made, make, services, turn)
        threading.Thread(target=work, name="long-plan", daemon=True).start()
        return True

    def _make(
        self, made: Future[MadePlan | None], make: Callable[[], MadePlan], services: Services, turn: Turn
    ) -> None:
        found: list[MadePlan] = []

        def work() -> None:
            with self._turns.held(turn, services.clock), contextlib.suppress(InputError, Refusal):
                found.append(make())

        log_exceptions(work, services.log, "the plan of a review could not be made")
        made.set_result(found[0] if found else None)

    def result(self, key: str, clock: Clock, until_s: float) -> MadePlan | None:
        """Return the plan of a change, once it is made. None if there is none, or if it is not made in time."""
        with self._lock:
            self._forget(clock.monotonic_s())
            plan = self._plans.get(key)
        try:
            return None if plan is None else plan.made.result(max(0.0, until_s - clock.monotonic_s()))
        except TimeoutError:
            return None

    def _drop_made(self) -> bool:
        """Forget the oldest plan that is made, and return whether there was one."""
        key = next((key for key, each in self._plans.items() if each.made.done()), None)
        return key is not None and self._plans.pop(key) is not None

    def _forget(self, now_s: float) -> None:
        for key, each in list(self._plans.items()):
            if each.made.done() and (now_s - each.begun_s > _KEPT_S or each.made.result() is None):
                del self._plans[key]


def plan_request(request: ChangeReview) -> PlanRequest:
    """Return the request for the whole plan of a change."""
    change = request.change
    edits: dict[str, Any] = {"delete": (change.policy,)}
    if isinstance(change, PolicySet):
        edits = {"create" if change.creates else "update": (change.policy,)}
    return PlanRequest(**edits, limit=_SHOWN, preemption=Switch.ON, lazy_counts=True)


def _known(services: Services, call: Call, wanted: PlanRequest) -> list[Policy]:
    """Return the stored policy. One that was created just now arrives in a moment."""
    for _ in range(_LOOKS):
        try:
            return known_policies(services, wanted)
        except Refusal:
            if services.clock.monotonic_s() + _LOOK_S >= call.deadline_s:
                raise
        threading.Event().wait(_LOOK_S)
    return known_policies(services, wanted)


def review_answer(reviewed: PlanReview, gaps: Sequence[Gap] = (), *, planning: bool = False) -> ReviewAnswer:
    """Return the answer to a review."""
    counts = reviewed.counts
    if reviewed.plan is not None:
        return _answer_of_plan(reviewed.plan, counts, counts.preempts)
    worst = [_reviewed(each.move, each.unplaced) for each in counts.worst]
    return ReviewAnswer(
        "", complete=False, **_totals(counts), worst=worst, assumes_preemption=counts.preempts,
        gaps=_cut(texts(gaps, ANY_READER)), planning=planning,
    )  # fmt: skip


def _answer_of_made(made: MadePlan) -> ReviewAnswer:
    return _answer_of_plan(made.answer.plan, made.answer.counts, made.answer.plan.preemption_matters)


def _answer_of_plan(plan: Plan, counts: MoveCounts | PlanCounts, preempts: bool) -> ReviewAnswer:  # noqa: FBT001 - a fact
    unplaced = {each.resource: each for each in plan.unplaced if each.by_change}
    moves = {each.resource: each for each in plan.moves}
    worst = [_reviewed(moves.get(name), unplaced.get(name)) for name in [*unplaced, *moves][:_SHOWN]]
    return ReviewAnswer(
        plan.id, complete=plan.complete, **_totals(counts), worst=worst, assumes_preemption=preempts,
        gaps=_cut(plan.gaps),
    )  # fmt: skip


def _totals(counts: MoveCounts | PlanCounts) -> dict[str, Any]:
    names = ("workloads", "concerned", "moved", "replicas", "lost", "short", "deleted_copies")
    return {name: getattr(counts, name) for name in names}


def _cut(gaps: Sequence[str]) -> list[str]:
    return [each[:_MESSAGE] for each in gaps[:_SHOWN]]


def _reviewed(move: PlannedMove | None, failure: UnplacedWorkload | None) -> ReviewedWorkload:
    moves = move.moves if move is not None else {}
    leaves = [name for name, (_, after) in moves.items() if after is None]
    reaches = {name: after for name, (before, after) in moves.items() if before is None and after is not None}
    changes = {name: (a, b) for name, (a, b) in moves.items() if a is not None and b is not None}
    kind: Literal["", "nowhere", "short"] = "" if failure is None else "nowhere" if failure.nowhere else "short"
    return ReviewedWorkload(
        resource=move.resource if move is not None else failure.resource if failure is not None else "",
        failure=kind,
        message=failure.message[:_MESSAGE] if failure is not None else "",
        leaves=leaves[:_SHOWN_CLUSTERS],
        reaches=dict(list(reaches.items())[:_SHOWN_CLUSTERS]),
        changes=dict(list(changes.items())[:_SHOWN_CLUSTERS]),
        more_left=max(0, len(leaves) - _SHOWN_CLUSTERS),
        more_reached=max(0, len(reaches) - _SHOWN_CLUSTERS),
        more_changed=max(0, len(changes) - _SHOWN_CLUSTERS),
    )
