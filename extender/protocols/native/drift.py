"""``/v1/drift``: how far the fleet is from its policies, and what a repair would move."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import asdict, replace

from berthmaster.kube.kinds import BINDINGS
from berthmaster.model.gaps import ANY_READER, Reader
from berthmaster.native_api.why import DRIFT_SORTS, DriftQuery, DriftView
from berthmaster.scheduling.karmada.minimal import DriftKind
from berthmaster.simulation.drift import FleetDrift, WorkloadDrift, summary, workload_drift, workload_drifts
from berthmaster.simulation.eligibility import why_not_scheduled
from extender.protocols.native.background import LIMIT_S, Background, BackgroundTexts
from extender.protocols.native.bindings import require_binding
from extender.protocols.native.parameters import MAX_OFFSET, NAMESPACES, count, flag, sort, text, values, word
from extender.protocols.native.schedule import require_watched
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services

_MOST: Final = 1000
_REFRESH_S: Final = 300.0
_READERS: Final = 16
_NOTHING: Final[dict[str, int]] = {}
_ORDERS: Final[Mapping[str, Callable[[WorkloadDrift], int | str]]] = {
    "moves": attrgetter("moves"),
    "fullMoves": attrgetter("full_moves"),
    "name": attrgetter("resource"),
}
PARAMETERS: Final = {
    "q": text("Only workloads whose NAMESPACE/KIND/NAME contains this, in any case."),
    "kind": word("Only this kind of drift.", [each.value for each in DriftKind]),
    "policy": text("Only workloads whose policy contains this, in any case."),
    "cluster": text("Only workloads with replicas on a cluster whose name contains this, before or after a repair."),
    "tolerance": count(
        "By how many percent the share of a cluster may differ from its weight.",
        100,
        least=0,
        default=DriftQuery().tolerance,
    ),
    "sort": sort("The order; a dash before it reverses it. Default: the most moves first.", DRIFT_SORTS),
    "offset": count("How many workloads to leave out first.", MAX_OFFSET, least=0),
    "limit": count("The most workloads; 0 for the figures without any list.", _MOST, least=0),
    "stale": flag("Whether to answer at once, with the last figures."),
    **NAMESPACES,
}


def drift_query(query: Mapping[str, str], reader: Reader) -> DriftQuery:
    """Return the question of a request."""
    return DriftQuery(**values(PARAMETERS, query), namespaces=reader.namespaces)


class DriftQuestion(NamedTuple):
    """By how many percent a share may differ from its weight."""

    tolerance: int = DriftQuery().tolerance


class _FoundDrift:
    """The drift of all workloads, and its summaries for the last readers. Safe for several threads."""

    def __init__(self, workloads: Sequence[WorkloadDrift]) -> None:
        self._workloads = workloads
        self.seen_by = lru_cache(_READERS)(self._summary)

    def _summary(self, reader: Reader) -> FleetDrift:
        return summary([each for each in self._workloads if reader.sees_resource(each.resource)])


class Drifts:
    """Answers how far the fleet is from its policies."""

    def __init__(self) -> None:
        self._background = Background("drift", _texts, _computed)

    def refresh(self, services: Services) -> None:
        """Compute the drift for the metrics, if the last figures are old. Does not wait for it."""
        if services.state.staleness.synced and (services.state.watched is None or BINDINGS in services.state.watched):
            self._background.refresh(services, DriftQuestion(), after_s=_REFRESH_S)

    def answer(self, services: Services, call: Call, query: DriftQuery) -> DriftView:
        """Return the drift of the workloads that the reader may see, with a page of those that the query selects."""
        require_watched(services, BINDINGS, subject="the workloads are")
        result, found = self._background.answer(services, call, DriftQuestion(query.tolerance), wait=not query.stale)
        reader = Reader(query.namespaces)
        seen = found.seen_by(reader)
        selected = [each for each in seen.workloads if _matches(each, query)]
        if query.sort:
            order = _ORDERS[query.sort.removeprefix("-")]
            selected = sorted(selected, key=order, reverse=query.sort.startswith("-"))
        most = _MOST if query.limit else 0
        return DriftView(
            **{
                **asdict(seen),
                "policies": seen.policies[:most],
                "groups": seen.groups[:most],
                "clusters": seen.clusters[:most],
                "workloads": selected[query.offset :][: query.limit],
            },
            matched=len(selected),
            computed_at=result.computed_at,
            gaps=list(services.state.gaps(reader)),
            version=result.version,
            staleness=services.state.staleness,
        )


def drift_of_binding(services: Services, namespace: str, name: str) -> WorkloadDrift:
    """Return the drift of the workload of one binding now."""
    workload = require_binding(services, namespace, name).workload
    ineligible = why_not_scheduled(workload)
    if ineligible is not None:
        raise Refusal(409, str(ineligible))
    with services.state.reading() as cache:
        return workload_drift(cache.scheduler, workload, services.clock.now())


def _matches(drift: WorkloadDrift, query: DriftQuery) -> bool:
    return (
        query.q.casefold() in drift.resource.casefold()
        and (not query.kind or query.kind in drift.kinds)
        and query.policy.casefold() in drift.policy.casefold()
        and (not query.cluster or any(query.cluster in name for name in (*drift.clusters, *drift.minimal)))
    )


def _texts(_: DriftQuestion) -> BackgroundTexts:
    return BackgroundTexts(
        "the drift",
        "the drift is being computed; retry in a few seconds",
        "the drift could not be computed",
        f"the drift takes longer than {LIMIT_S:g} s to compute; run `berthmaster drift`",
    )


def _computed(services: Services, question: DriftQuestion, now: datetime, check: Callable[[], None]) -> _FoundDrift:
    state = services.state
    drifts = workload_drifts(state.world(check), state.profile, now, tolerance=question.tolerance, check=check)
    # Only figures of a workload without drift are needed, and a large fleet has many.
    found = _FoundDrift([
        each if each.kinds else replace(each, clusters=_NOTHING, minimal=_NOTHING, full=_NOTHING) for each in drifts
    ])  # fmt: skip
    if question == DriftQuestion():
        services.metrics.drifted(found.seen_by(ANY_READER), now)
    return found
