"""``/v1/resilience``: what each failure of a cluster, region, zone or provider alone would do.

For a large fleet this takes longer than a request may. A thread computes it, one question at a time for each process,
and at most a tenth of the time. A request waits for it a little. Without a result for the present state it gets the
last one, which says its version and when it was computed. Without any result it is refused, and a later one finds it.
"""

import threading
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

import msgspec.structs

from berthmaster.kube.kinds import BINDINGS
from berthmaster.model.errors import InputError
from berthmaster.model.reader import NO_NAMES
from berthmaster.native_api.why import MAX_NAMES, ImpactView, ResilienceView
from berthmaster.runtime.logs import log_exceptions
from berthmaster.simulation.assumptions import ALL_OFF, Assumptions, Switch
from berthmaster.simulation.failures import FailureDomain, Failures, Impact, losses
from extender.protocols.native.fleet import staleness_of
from extender.protocols.native.parameters import choice, refused
from extender.protocols.native.schedule import require_watched
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services

_LIMIT_S: Final = 300.0
"""The longest computation."""
_INSTEAD: Final = "ask for larger parts of the fleet, such as each region, or run `berthmaster resilience`"
_WAIT_S: Final = 2.0
"""How long a request waits for a result for the present state, if there is an earlier one."""
_RESERVE_S: Final = 0.5
"""The part of the time of a request in which its answer is written."""
_REST: Final = 9
"""How long the thread rests after a computation, as a multiple of its duration."""
_KEPT: Final = 4
"""The most questions whose last result is kept."""
_RETRY: Final = (("Retry-After", "2"),)

Domains = tuple[FailureDomain, ...]


class FailureQuestion(NamedTuple):
    """What fails as a whole, and what is assumed about failover."""

    domains: Domains
    failover: Switch = Switch.AUTO


class _TooLong(Exception):  # noqa: N818 - a limit, not an error
    """The computation has reached its limit."""


class _Result(NamedTuple):
    """The result for one version of the state. ``problem`` says why there is none."""

    version: str
    computed_at: datetime
    impacts: list[Impact] = []
    workloads: int = 0
    clusters: Sequence[str] = ()
    gaps: Sequence[str] = ()
    problem: str = ""
    assumptions: Assumptions = ALL_OFF


def domains_of(text: str) -> Domains:
    """Return the domains of a request.

    Raises:
        Refusal: one of them is unknown, or there is none.
    """
    names = tuple(dict.fromkeys(filter(None, text.split(","))))
    if not names:
        raise refused("by", text, ", ".join(FailureDomain))
    return tuple(choice("by", each, FailureDomain) for each in names)


class Resilience:
    """Keeps the last result of each question, and computes new ones in a thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._results: dict[FailureQuestion, _Result] = {}
        self._running = False
        self._rests_until_s = float("-inf")

    def answer(self, services: Services, call: Call, question: FailureQuestion, limit: int) -> ResilienceView:
        """Return what each failure of these domains would do.

        Raises:
            Refusal: bindings are not watched, or there is no result yet.
        """
        require_watched(services, BINDINGS, subject="the workloads are")
        found = self._result(services, call, question)
        if found.problem:
            raise Refusal(503, found.problem, headers=_RETRY)
        return ResilienceView(
            by=list(question.domains),
            assumptions=found.assumptions,
            impacts=[impact_view(each) for each in found.impacts[:limit]],
            failures=len(found.impacts),
            harmless=sum(each.harmless for each in found.impacts),
            workloads=found.workloads,
            clusters=list(found.clusters),
            computed_at=found.computed_at,
            gaps=list(found.gaps),
            version=found.version,
            staleness=staleness_of(services.state.freshness),
        )

    def _result(self, services: Services, call: Call, question: FailureQuestion) -> _Result:
        clock, version = services.clock, services.state.version
        due_s = call.deadline_s - _RESERVE_S
        with self._changed:
            if question in self._results:
                due_s = min(due_s, clock.monotonic_s() + _WAIT_S)
            while True:
                known = self._results.get(question)
                if known is not None and known.version == version:
                    return known
                now_s = clock.monotonic_s()
                rests = known is not None and now_s < self._rests_until_s
                if not self._running and not rests:
                    self._start(services, question)
                if rests or now_s >= due_s or not self._changed.wait(due_s - now_s):
                    break
            known = self._results.get(question)
        if known is None:
            raise Refusal(503, "the failures are being simulated; retry in a few seconds", headers=_RETRY)
        return known

    def _start(self, services: Services, question: FailureQuestion) -> None:
        self._running = True
        work = partial(self._run, services, question)
        threading.Thread(target=work, name="resilience", daemon=True).start()

    def _run(self, services: Services, question: FailureQuestion) -> None:
        begun_s, begun = services.clock.monotonic_s(), services.clock.now()
        results = [_Result(services.state.version, begun, problem="the failures could not be simulated; see the log")]
        log_exceptions(
            lambda: results.append(_computed(services, question)), services.log, "the failures could not be simulated"
        )
        now_s = services.clock.monotonic_s()
        with self._changed:
            self._results.pop(question, None)
            self._results[question] = results[-1]
            while len(self._results) > _KEPT:
                del self._results[next(iter(self._results))]
            self._running = False
            self._rests_until_s = now_s + _REST * (now_s - begun_s)
            self._changed.notify_all()


def _computed(services: Services, question: FailureQuestion) -> _Result:
    domains = question.domains
    clock, state = services.clock, services.state
    until_s = clock.monotonic_s() + _LIMIT_S

    def check() -> None:
        services.reviews.pause()
        if clock.monotonic_s() >= until_s:
            raise _TooLong

    version, now = state.version, clock.now()
    try:
        world = state.assuming(state.world(check), now, question.failover)
        failures = losses(world.clusters, domains)
        impacts = Failures(world, state.profile, now, check=check).impacts(failures) if failures else []
    except _TooLong:
        wanted = " or ".join(domains)
        return _Result(
            version, now, problem=f"the simulation of each {wanted} takes longer than {_LIMIT_S:g} s; {_INSTEAD}"
        )
    except InputError as error:
        return _Result(version, now, problem=str(error))
    gaps = [*state.gaps(NO_NAMES), *([] if failures else [f"no cluster has a {' or a '.join(domains)}"])]
    return _Result(
        version, now, impacts, len(world.workloads), sorted(world.clusters), gaps, assumptions=world.assumptions
    )


def impact_view(impact: Impact) -> ImpactView:
    """Return a failure with at most ``MAX_NAMES`` names in each list."""
    fields = msgspec.structs.asdict(impact)
    for name in ("only_copy", "nowhere", "short", "staying", "not_simulated"):
        fields[name] = fields[name][:MAX_NAMES]
    return ImpactView(**fields, totals=impact.counts)
