"""``/v1/resilience``: what each failure of a cluster, region, zone or provider alone would do."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec.structs

from berthmaster.kube.kinds import BINDINGS
from berthmaster.model.gaps import NO_NAMES
from berthmaster.native_api.why import MAX_NAMES, ImpactView, ResilienceView
from berthmaster.simulation.failures import FailureDomain, Failures, Impact, losses, ranked
from berthmaster.simulation.plan_answer import Assumptions, Switch
from extender.protocols.native.background import LIMIT_S, WAIT_S, Background, BackgroundTexts, Run
from extender.protocols.native.parameters import NAMESPACES, choice, count, flag, reader_of, refused, text, values, word
from extender.protocols.native.schedule import require_watched
from extender.protocols.native.visible import visible_impact
from extender.protocols.services import Call, Services

_INSTEAD: Final = "ask for larger parts of the fleet, such as each region, or run `berthmaster resilience`"

_FAILURES: Final = 200
_MAX_FAILURES: Final = 1000

Domains = tuple[FailureDomain, ...]


PARAMETERS: Final = {
    "by": text(
        "What fails as a whole: cluster, region, zone, provider, or several of them with commas. Default: cluster."
    ),
    "limit": count("The most failures.", _MAX_FAILURES, default=_FAILURES),
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

    domains: Domains
    failover: Switch = Switch.AUTO


class _FailureResult(NamedTuple):
    """The failures of one version of the state."""

    impacts: list[Impact]
    workloads: int
    clusters: Sequence[str]
    gaps: Sequence[str]
    assumptions: Assumptions


def domains_of(text: str) -> Domains:
    """Return the domains of a request."""
    names = tuple(dict.fromkeys(filter(None, text.split(","))))
    if not names:
        raise refused("by", text, ", ".join(FailureDomain))
    return tuple(choice("by", each, FailureDomain) for each in names)


class Resilience:
    """Answers what each failure would do."""

    def __init__(self) -> None:
        self._background = Background("resilience", _texts, _computed)

    def asked(self, services: Services, call: Call) -> ResilienceView:
        """Answer a request."""
        given = values(PARAMETERS, call.query)
        question = FailureQuestion(domains_of(given.get("by", FailureDomain.CLUSTER)), Switch(given["failover"]))
        if given["stale"]:
            call = call._replace(deadline_s=min(call.deadline_s, services.clock.monotonic_s() + WAIT_S))
        found, reader = self.answer(services, call, question, given["limit"]), reader_of(call)
        impacts = [visible_impact(each, reader) for each in found.impacts]
        return msgspec.structs.replace(found, impacts=impacts)

    def answer(self, services: Services, call: Call, question: FailureQuestion, limit: int) -> ResilienceView:
        """Return what each failure of these domains would do."""
        require_watched(services, BINDINGS, subject="the workloads are")
        result, found = self._background.answer(services, call, question)
        return ResilienceView(
            by=list(question.domains),
            assumptions=found.assumptions,
            impacts=[impact_view(each) for each in found.impacts[:limit]],
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
    if failures:
        simulated = Failures(world, state.profile, now, check=run)
        for run.done, each in enumerate(failures):
            impacts.append(simulated.impact(each))
    gaps = [*state.gaps(NO_NAMES), *([] if failures else [f"no cluster has a {' or a '.join(domains)}"])]
    return _FailureResult(ranked(impacts), len(world.workloads), sorted(world.clusters), gaps, world.assumptions)


def impact_view(impact: Impact) -> ImpactView:
    """Return a failure with at most ``MAX_NAMES`` names in each list."""
    fields = msgspec.structs.asdict(impact)
    for name in ("only_copy", "nowhere", "short", "staying", "not_simulated"):
        fields[name] = fields[name][:MAX_NAMES]
    return ImpactView(**fields, totals=impact.counts)
