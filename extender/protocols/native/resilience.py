"""``/v1/resilience``: what each failure of a cluster, region, zone or provider alone would do."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec.structs

from berthmaster.kube.watch_options import BINDINGS
from berthmaster.model.readers import NO_NAMES
from berthmaster.native_api.why import MAX_NAMES, ImpactView, ResilienceView
from berthmaster.runtime.forked import Forked
from berthmaster.simulation.failures import FailureDomain, Failures, Impact, losses, ranked
from berthmaster.simulation.plan_answer import Assumptions, Switch
from extender.protocols.native.background import LIMIT_S, WAIT_S, Background, BackgroundTexts, Run
from extender.protocols.native.parameters import (
    NAMESPACES,
    choice,
    flag,
    number,
    reader_of,
    refused,
    text,
    values,
    word,
)
from extender.protocols.native.schedule import require_watched
from extender.protocols.native.visible import limited, visible
from extender.protocols.services import Call, Services

_INSTEAD: Final = "ask for larger parts of the fleet, such as each region, or run `berthmaster resilience`"

_FAILURES: Final = 200
_MAX_FAILURES: Final = 1000
PARAMETERS: Final = {
    "by": text(
        "What fails as a whole: cluster, region, zone, provider, or several of them with commas. Default: cluster."
    ),
    "limit": number("The most failures.", _MAX_FAILURES, default=_FAILURES),
    "stale": flag("Whether to answer soon, with the last figures, or without any with the progress."),
    "failover": word(
        "What moves off lost clusters: nothing (off), what does not tolerate a NoExecute taint (on), or what the "
        "control plane is known to move (auto).",
        list(Switch),
        default=Switch.AUTO.value,
    ),
    **NAMESPACES,
}


class FailureQuestion(NamedTuple):
    """What fails as a whole, and what is assumed about failover."""

    domains: tuple[FailureDomain, ...]
    failover: Switch = Switch.AUTO


class _FailureResult(NamedTuple):
    impacts: list[Impact]
    workloads: int
    clusters: Sequence[str]
    gaps: Sequence[str]
    assumptions: Assumptions


class Resilience:
    """Answers what each failure would do."""

    def __init__(self) -> None:
        self._background = Background("resilience", _texts, _computed)

    def asked(self, services: Services, call: Call) -> ResilienceView:
        given, reader = values(PARAMETERS, call.query), reader_of(call)
        by = tuple(dict.fromkeys(filter(None, given.get("by", FailureDomain.CLUSTER).split(","))))
        if not by:
            raise refused("by", given["by"], ", ".join(FailureDomain))
        question = FailureQuestion(tuple(choice("by", each, FailureDomain) for each in by), Switch(given["failover"]))
        if given["stale"]:
            call = call.until(services.clock.monotonic_s() + WAIT_S)
        require_watched(services, BINDINGS, subject="the workloads are")
        result, found = self._background.answer(services, call, question)
        return ResilienceView(
            by=list(question.domains),
            assumptions=found.assumptions,
            impacts=[visible(impact_view(each), reader) for each in found.impacts[: given["limit"]]],
            failures=len(found.impacts),
            harmless=sum(each.harmless for each in found.impacts),
            workloads=found.workloads,
            clusters=list(found.clusters),
            computed_at=result.computed_at,
            gaps=list(found.gaps),
            version=result.version,
            staleness=services.state.staleness,
        )


def _texts(question: FailureQuestion) -> BackgroundTexts:
    return BackgroundTexts(
        f"the loss of each {' or '.join(question.domains)}",
        "the failures are being simulated; retry in a few seconds",
        "the failures could not be simulated",
        f"the simulation of each {' or '.join(question.domains)} takes longer than {LIMIT_S:g} s; {_INSTEAD}",
    )


def _computed(
    services: Services, question: FailureQuestion, now: datetime, run: Run[FailureQuestion]
) -> _FailureResult:
    domains, state = question.domains, services.state
    world = state.assuming(state.world(run), now, question.failover)
    failures = losses(world.clusters, domains)
    run.total, impacts = len(failures), list[Impact]()

    def compute(send: Callable[[Impact], None]) -> None:
        simulated = Failures(world, state.profile, now)
        for each in failures:
            send(simulated.impact(each))

    if failures:
        for impact in Forked(compute, run):
            impacts.append(impact)
            run.done = len(impacts)
    gaps = [*state.gaps(NO_NAMES), *([] if failures else [f"no cluster has a {' or a '.join(domains)}"])]
    return _FailureResult(ranked(impacts), len(world.workloads), sorted(world.clusters), gaps, world.assumptions)


def impact_view(impact: Impact) -> ImpactView:
    """Return a failure with at most ``MAX_NAMES`` names in each list."""
    return limited(ImpactView(**msgspec.structs.asdict(impact), totals=impact.counts), MAX_NAMES)
