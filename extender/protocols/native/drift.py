"""``/v1/drift``: how far the fleet is from its policies, and what a repair would move."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Final

from msgspec.structs import asdict, replace

from berthmaster.kube.watch_options import BINDINGS
from berthmaster.model.readers import ANY_READER, Reader
from berthmaster.native_api.drift import DRIFT_SORTS, DriftQuery, DriftView
from berthmaster.runtime.forked import Forked
from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.simulation.drift import FleetDrift, WorkloadDrift, summary, workload_drifts
from extender.protocols.native import parameters
from extender.protocols.native.background import LIMIT_S, Background, BackgroundTexts
from extender.protocols.native.schedule import require_watched
from extender.protocols.services import Call, Services

_MOST: Final = 1000
_REFRESH_S: Final = 300.0
_READERS: Final = 16
_SENT: Final = 100
"""How many workloads are received at a time: other threads wait for each part."""
_TOLERANCE: Final = DriftQuery().tolerance
_NO_FIGURES: Final[Mapping[str, Mapping[str, int]]] = {"clusters": {}, "minimal": {}, "full": {}}
_ORDERS: Final[Mapping[str, Callable[[WorkloadDrift], int | str]]] = {
    "moves": attrgetter("moves"),
    "fullMoves": attrgetter("full_moves"),
    "name": attrgetter("resource"),
}
PARAMETERS: Final = {
    "q": parameters.text("Only workloads whose NAMESPACE/KIND/NAME contains this, in any case."),
    "kind": parameters.word("Only this kind of drift.", [each.value for each in DriftKind]),
    "policy": parameters.text("Only workloads whose policy contains this, in any case."),
    "cluster": parameters.text(
        "Only workloads with replicas on a cluster whose name contains this, before or after a repair."
    ),
    "tolerance": parameters.number(
        "By how many percent the share of a cluster may differ from its weight.", 100, least=0, default=_TOLERANCE
    ),
    "sort": parameters.sort("The order; a dash before it reverses it. Default: the most moves first.", DRIFT_SORTS),
    "offset": parameters.number("How many workloads to leave out first.", parameters.MAX_OFFSET, least=0),
    "limit": parameters.number("The most workloads; 0 for the figures without any list.", _MOST, least=0),
    "stale": parameters.flag("Whether to answer at once, with the last figures."),
    **parameters.NAMESPACES,
}


class Drifts:
    """Answers how far the fleet is from its policies. A question to its background is the tolerance."""

    def __init__(self) -> None:
        self._background = Background("drift", _texts, _computed)

    def refresh(self, services: Services) -> None:
        """Compute the drift for the metrics, if the last figures are old. Does not wait for it."""
        if services.state.staleness.synced and services.state.watches(BINDINGS):
            self._background.refresh(services, _TOLERANCE, after_s=_REFRESH_S)

    def answer(self, services: Services, call: Call) -> DriftView:
        reader = parameters.reader_of(call)
        query = DriftQuery(**parameters.values(PARAMETERS, call.query), namespaces=reader.namespaces)
        require_watched(services, BINDINGS, subject="the workloads are")
        result, seen_by = self._background.answer(services, call, query.tolerance, wait=not query.stale)
        seen = seen_by(reader)
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


def _matches(drift: WorkloadDrift, query: DriftQuery) -> bool:
    return (
        query.q.casefold() in drift.resource.casefold()
        and (not query.kind or query.kind in drift.kinds)
        and query.policy.casefold() in drift.policy.casefold()
        and (not query.cluster or any(query.cluster in name for name in (*drift.clusters, *drift.minimal)))
    )


def _texts(_: int) -> BackgroundTexts:
    return BackgroundTexts(
        "the drift",
        "the drift is being computed; retry in a few seconds",
        "the drift could not be computed",
        f"the drift takes longer than {LIMIT_S:g} s to compute; run `berthmaster drift`",
    )


def _computed(
    services: Services, tolerance: int, now: datetime, check: Callable[[], None]
) -> Callable[[Reader], FleetDrift]:
    """Return the summary for a reader, which keeps those of the last readers."""
    state = services.state
    world = state.world(check)

    def compute(send: Callable[[list[WorkloadDrift]], None]) -> None:
        drifts = workload_drifts(world, state.profile, now, tolerance=tolerance)
        # Only figures of a workload without drift are needed, and a large fleet has many.
        kept = [each if each.kinds else replace(each, **_NO_FIGURES) for each in drifts]
        for first in range(0, len(kept), _SENT):
            send(kept[first : first + _SENT])

    kept = [each for part in Forked(compute, check) for each in part]

    @lru_cache(_READERS)
    def seen_by(reader: Reader) -> FleetDrift:
        return summary([each for each in kept if reader.sees_resource(each.resource)])

    if tolerance == _TOLERANCE:
        services.metrics.drifted(seen_by(ANY_READER), now)
    return seen_by
