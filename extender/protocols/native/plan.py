"""``/v1/plan``: what changes of policies would move, on the fleet of the service as it is now.

The answer must never be "nothing moves" because something is not known. A state that is stale, a kind that may not be
listed, or a policy that the service has not observed yet is an error.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from berthmaster.kube.watch_options import BINDINGS, WORKLOADS
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.gaps import Gap
from berthmaster.model.meta import with_spec
from berthmaster.model.placement_limits import placement_excess
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_defaults import defaulted
from berthmaster.model.readers import ANY_READER, Reader
from berthmaster.model.validation import policy_errors, update_errors
from berthmaster.native_api.what_if import PlanAnswer, PlanCounts, PlanLine, PlanRequest, PolicyName
from berthmaster.native_api.wire import Progress, Staleness
from berthmaster.runtime.forked import Forked
from berthmaster.runtime.logs import log_exceptions
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import WhatIf, WorkloadEdit
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.plan_review import OutOfTimeError, at_most
from berthmaster.simulation.planner import ReportProgress, plan
from berthmaster.simulation.world import World
from extender.protocols.native.schedule import kind_of_staleness, require_synced, require_watched
from extender.protocols.native.visible import limited, visible_plan
from extender.protocols.problem import RETRY_SOON, Refusal, internal_error, problem_of, refuse_invalid
from extender.protocols.route import JSON_LINES, Reply
from extender.protocols.services import Call, Services
from extender.protocols.turns import FairTurns, Rank, Turn
from extender.state.state import State

_WAITING: Final = 0.5
"""The share of the time of a request in which lists that are not watched yet may arrive."""
_REPORT_S: Final = 1.0
_ABOUT: Final = "the plan"
_MAX_LEFT_OUT: Final = 100
"""How many objects that are left out a plan names."""
_STEPS: Final = 300
"""How many steps a plan takes in this process, of a few tenths of a millisecond each, before it gets one of its own."""
_TURN: Final = Turn(Rank.PLAN)
NoteRead = Callable[[PlanIndex, ChangeSet, Sequence[Gap], float], None]
"""Note the index, the changes and what is not known, and when the state was read, on the monotonic clock."""
_Sent = bytes | tuple[int, int]
"""The answer as JSON, or how many steps are done, and of how many."""


class Planner:
    """Plans changes: few workloads at once, others in a process of its own, so that reviews soon get the index.

    Of the latter there is one of policies and one of clusters at a time. Others wait for them, within their own time.

    Attributes:
        turns: one is held while the index is used.
    """

    def __init__(self) -> None:
        self.turns = FairTurns()
        self._index: PlanIndex | None = None
        self._policies_turn, self._clusters_turn = threading.Lock(), threading.Lock()
        self._prepared = ""

    def index_of(self, world: World, profile: Profile) -> PlanIndex:
        """Return the index, which has the world now. The caller holds a turn."""
        if self._index is None:
            self._index = PlanIndex(world, profile)
        else:
            self._index.update(world)
        return self._index

    @property
    def is_prepared(self) -> bool:
        return bool(self._prepared)

    def prepare(self, services: Services) -> None:
        """Build the index, or update it, so that the next plan is quick.

        Does nothing if the workloads are not known, or if nothing has changed.
        """
        state, version = services.state, services.state.version
        if version == self._prepared or not state.watches(WORKLOADS) or not state.staleness.synced:
            return
        with self.turns.held(_TURN, services.clock):
            self.index_of(state.world(), state.profile).prepare()
        self._prepared = version

    def lines(self, services: Services, call: Call) -> Reply:
        """Reply with lines: each second how far the plan is, then the plan.

        The plan ends if the client closes its connection.

        Raises:
            InputError: the request is invalid.
        """
        request = decode_json(PlanRequest, call.body)
        return Reply(self._lines(services, call, request), content_type=JSON_LINES)

    def _lines(self, services: Services, call: Call, request: PlanRequest) -> Iterator[bytes]:
        begun_at, counted = services.clock.now(), (0, 0)
        gone, ended = threading.Event(), threading.Event()
        last = encode_json(PlanLine(problem=internal_error(call.request_id)))

        def progress(done: int, total: int) -> None:
            nonlocal counted
            counted = done, total

        def compute() -> None:
            nonlocal last
            try:
                plan = self.plan(services, call._replace(has_gone=gone.is_set), request, progress)
                last = encode_json({"plan": plan})
            except (InputError, Refusal) as error:
                last = encode_json(PlanLine(problem=problem_of(error, call.request_id)))

        def run() -> None:
            log_exceptions(compute, services.log, "a plan failed", request_id=call.request_id)
            ended.set()

        threading.Thread(target=run, name="plan", daemon=True).start()
        try:
            while not ended.wait(_REPORT_S):
                yield encode_json(PlanLine(progress=Progress(_ABOUT, begun_at, *counted))) + b"\n"
            yield last + b"\n"
        finally:
            gone.set()

    def plan(
        self,
        services: Services,
        call: Call,
        request: PlanRequest,
        progress: ReportProgress = lambda _done, _total: None,
        *,
        note: NoteRead = lambda _index, _changes, _gaps, _read_s: None,
    ) -> msgspec.Raw:
        """Plan changes of policies, clusters and replicas.

        Args:
            note: gets what the plan is computed from. The last call counts.

        Returns:
            A ``PlanAnswer`` as JSON.

        Raises:
            Refusal: a policy is invalid or not known, something is not known that the answer depends on, or the
                deadline has passed.
        """
        state, reader = services.state, Reader(request.namespaces)
        if request.timeout_ms is not None:
            call = call.until(services.clock.monotonic_s() + request.timeout_ms / 1000)
        request = _as_stored(services, request)
        changes = changes_of(services, request)
        require_plannable(services, selects=bool(request.create or request.update or request.delete))
        policies = [*changes.policies, *known_policies(services, request)]
        require_templates(services, call, policies)
        check = partial(services.give_way, call)

        def ask(values_of: Callable[[_Question], Iterable[_Sent]]) -> Iterable[_Sent]:
            now, read_s = services.clock.now(), services.clock.monotonic_s()
            world = state.assuming(state.world(check, changes.policies), now, request.failover, request.preemption)
            world = replace(world, lazy_counts=request.lazy_counts)
            made = _with_changes(changes, world, request, now)
            gaps = plan_gaps(state, world, policies if made.changes_policies_only else None)
            with services.turn(self.turns, _TURN, call, "reviews"):
                index = self.index_of(world, state.profile)
                note(index, made, gaps, read_s)
                observed = state.observed is not None or not state.file_gaps
                return values_of(_Question(index, made, now, gaps, reader, request.limit, state.staleness, observed))

        turn = self._clusters_turn if request.changes else self._policies_turn
        # A plan that paused for a review while it holds the index would wait for itself.
        soon = ask(lambda question: question.answered_soon(partial(services.check_wanted, call)))
        with nullcontext() if soon else services.one_at_a_time(turn, call, "other plans"):
            for each in soon or ask(lambda question: Forked(question.answer, check)):
                if isinstance(each, bytes):
                    answer = msgspec.Raw(each)
                else:
                    progress(*each)
        require_fresh(services)
        return answer


@dataclass(frozen=True, slots=True)
class _Question:
    index: PlanIndex
    changes: ChangeSet
    now: datetime
    gaps: Sequence[Gap]
    reader: Reader
    limit: int
    staleness: Staleness
    observed: bool

    def answered_soon(self, check: Callable[[], None]) -> list[_Sent]:
        """Return what ``answer`` sends, if it takes fewer steps than to start a process; otherwise nothing."""
        sent: list[_Sent] = []
        try:
            if self.changes.changes_policies_only:
                self.answer(sent.append, at_most(_STEPS, check))
        except OutOfTimeError:
            return []
        return sent

    def answer(self, send: Callable[[_Sent], None], check: Callable[[], None] = lambda: None) -> None:
        """Send how far a plan is, and at last its answer as JSON."""
        found = plan(
            self.index, self.changes, self.now, gaps=self.gaps, check=check,
            progress=lambda done, total: send((done, total)), reader=self.reader, observed=self.observed,
        )  # fmt: skip
        send(encode_json(plan_answer(found, self.limit, self.staleness, self.reader)))


def _as_stored(services: Services, request: PlanRequest) -> PlanRequest:
    """Return a request whose policies name a scheduler: see ``as_stored``."""
    stored = stored_policies(services)
    create = tuple(as_stored(each, stored, f"create[{number}]") for number, each in enumerate(request.create))
    update = tuple(as_stored(each, stored, f"update[{number}]") for number, each in enumerate(request.update))
    return replace(request, create=create, update=update)


def plan_gaps(state: State, world: World, policies: Sequence[Policy] | None) -> Sequence[Gap]:
    """Return what is not known that a plan of changes of some policies depends on; None for any change."""
    if state.observed is None:
        return () if world.workloads else state.file_gaps
    if policies is None:
        return [*state.observed.gaps(), *state.objects_left_out()[:_MAX_LEFT_OUT]]
    return state.observed.left_out(policies)[:_MAX_LEFT_OUT]


def _with_changes(changes: ChangeSet, world: World, request: PlanRequest, now: datetime) -> ChangeSet:
    """Add the changes of clusters and replicas, after trying each of them on the world.

    A name means only workloads that the reader may see, and an error suggests no others.
    """
    workload_edits, edits = [], []
    clusters, nameable, reader = replace(world, workloads=()), world, Reader(request.namespaces)
    if reader.namespaces is not None:
        seen = [each for each in world.workloads if reader.sees(each.resource.namespace)]
        nameable = replace(world, workloads=seen)
    for index, each in enumerate(request.changes):
        path = f"changes[{index}]"
        refuse_invalid(error.below(path) for error in each.problems())
        if not isinstance(each, WorkloadEdit):
            clusters = _applied(each, path, clusters, now)
            edits.append(each)
            continue
        try:
            chosen = each.chosen(nameable)
            each.edited(chosen, nameable.policies)
        except InputError as error:
            raise FieldError(f"{path}.resource", str(error)) from None
        workload_edits.append(replace(each, resource=chosen.name))
    return replace(changes, workload_edits=tuple(workload_edits), edits=tuple(edits))


def _applied(change: WhatIf, path: str, world: World, now: datetime) -> World:
    """Return the world after a change. An error names its place in the request."""
    try:
        return change.applied(world, now)
    except FieldError as error:
        raise error.below(path) from None
    except InputError as error:
        raise FieldError(path, str(error)) from None


def stored_policies(services: Services) -> Mapping[PolicyReference, Policy]:
    """Return the policies that the service knows."""
    with services.state.reading() as cache:
        return {each.reference: each for each in cache.policies}


def as_stored(written: Policy, stored: Mapping[PolicyReference, Policy], path: str) -> Policy:
    """Return a policy with the stored scheduler if it names none. Refuses another one, as Karmada does."""
    before = stored.get(written.reference)
    if before is None:
        return written
    if not written.spec.scheduler_name:
        return with_spec(written, scheduler_name=before.spec.scheduler_name)
    refuse_invalid(error.below(path) for error in update_errors(before, written))
    return written


def require_templates(services: Services, call: Call, policies: Sequence[Policy]) -> None:
    """Refuse a request if the resources that its policies select are not known."""
    observed = services.state.observed
    if observed is None:
        return
    left_s = call.deadline_s - services.clock.monotonic_s()
    unknown = observed.unknown(policies, max(0.0, left_s * _WAITING))
    if unknown is not None:
        raise Refusal(503, unknown.cause(ANY_READER), headers=RETRY_SOON)


def plan_answer(answer: Plan, limit: int, staleness: Staleness, reader: Reader = ANY_READER) -> PlanAnswer:
    """Return what a reader may see of a plan, at most ``limit`` entries of each list. The counts are of everything."""
    by_change = [each for each in answer.unplaced if each.by_change]
    summary = answer.summary
    counts = PlanCounts(
        workloads=summary.workloads,
        concerned=answer.concerned,
        moved=summary.moved,
        replicas=summary.replicas,
        lost=sum(each.nowhere for each in by_change),
        short=sum(not each.nowhere for each in by_change),
        deleted_copies=answer.deleted_copies,
        staying=len(answer.staying),
        overcommitted=len(answer.overcommitted),
    )
    visible = visible_plan(answer, reader)
    others = {name: getattr(visible, name)[:limit] for name in ("gaps", "overcommitted", "clusters")}
    shown = limited(replace(visible, **others), limit)
    return PlanAnswer(counts=counts, plan=shown, truncated=shown != visible, staleness=staleness)


def changes_of(services: Services, request: PlanRequest) -> ChangeSet:
    """Return the changes of a request."""
    written = [(each, f"create[{number}]") for number, each in enumerate(request.create)]
    written += [(each, f"update[{number}]") for number, each in enumerate(request.update)]
    policies = tuple(_policy(services, each, path) for each, path in written)
    deleted = tuple(_reference(each, f"delete[{number}]") for number, each in enumerate(request.delete))
    paths = [path for _, path in written] + [f"delete[{number}]" for number in range(len(deleted))]
    seen: dict[PolicyReference, str] = {}
    for reference, path in zip([*(each.reference for each in policies), *deleted], paths, strict=True):
        if reference in seen:
            raise FieldError(path, f"{reference} is named twice, first in {seen[reference]}; name it once")
        seen[reference] = path
    if not seen and not request.changes:
        raise FieldError("", "the request changes nothing; name a policy in create, update or delete, or a change")
    return ChangeSet(policies=policies, deleted_policies=deleted)


def _policy(services: Services, written: Policy, path: str) -> Policy:
    policy = defaulted(written)
    if not policy.metadata.name:
        raise FieldError(f"{path}.metadata.name", "is missing")
    if policy.cluster_scoped == bool(policy.metadata.namespace):
        accepted = "a ClusterPropagationPolicy has no namespace" if policy.cluster_scoped else "a namespace is required"
        raise FieldError(f"{path}.metadata.namespace", accepted)
    refuse_invalid(error.below(path) for error in policy_errors(policy))
    excess = placement_excess(policy.spec.placement, services.state.profile.limits)
    refuse_invalid(error.below(f"{path}.spec.placement") for error in excess)
    return policy


def _reference(name: PolicyName, path: str) -> PolicyReference:
    if (name.kind == "ClusterPropagationPolicy") == bool(name.namespace) or not name.name:
        accepted = "a PropagationPolicy has a namespace and a name, a ClusterPropagationPolicy only a name"
        raise FieldError(path, f"{shown(f'{name.kind} {name.namespace}/{name.name}')} is not accepted; {accepted}")
    return PolicyReference(name.kind, name.namespace, name.name)


def known_policies(services: Services, request: PlanRequest) -> list[Policy]:
    """Return the stored policies that a request changes. Raises ``Refusal`` if one is not observed yet."""
    stored = stored_policies(services)
    needed = [each.reference for each in request.update]
    needed += [PolicyReference(each.kind, each.namespace, each.name) for each in request.delete]
    for reference in needed:
        if reference not in stored:
            raise Refusal(409, f"{reference} is not known to the service; retry if it was created just now")
    created = (stored.get(each.reference) for each in request.create)
    return [stored[each] for each in needed] + [each for each in created if each is not None]


def require_plannable(services: Services, *, selects: bool = True) -> None:
    """Refuse a request while the workloads are not known, or while the state may be out of date.

    ``selects``: whether the request is about policies, so that the templates that they select must be known.
    """
    require_synced(services)
    if selects:
        require_watched(services, WORKLOADS, subject="the workloads that a policy selects are")
    else:
        require_watched(services, BINDINGS, subject="the workloads are")
    require_fresh(services)


def require_fresh(services: Services) -> None:
    """Refuse a request while the state may be out of date."""
    staleness = services.state.staleness
    if staleness.stale_since is not None:
        since = staleness.stale_since.isoformat(timespec="seconds")
        raise Refusal(
            503,
            f"the state of the service is stale since {since}: {staleness.problem}",
            headers=RETRY_SOON,
            kind=kind_of_staleness(services.state),
        )
