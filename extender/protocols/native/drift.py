"""``/v1/drift``: how far the fleet is from its policies, and what a repair would move."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import asdict

from berthmaster.kube.kinds import BINDINGS
from berthmaster.model.gaps import Reader
from berthmaster.native_api.why import DriftView
from berthmaster.simulation.drift import WorkloadDrift, summary, workload_drifts
from extender.protocols.native.background import LIMIT_S, Background, BackgroundTexts
from extender.protocols.native.fleet import staleness_of
from extender.protocols.native.schedule import require_watched
from extender.protocols.services import Call, Services


class DriftQuestion(NamedTuple):
    """By how many percent a share may differ from its weight."""

    tolerance: int


class Drifts:
    """Answers how far the fleet is from its policies."""

    def __init__(self) -> None:
        self._background = Background("drift", _texts, _computed)

    def answer(self, services: Services, call: Call, question: DriftQuestion, reader: Reader, limit: int) -> DriftView:
        """Return the drift of the workloads that the reader may see, with at most ``limit`` of them."""
        require_watched(services, BINDINGS, subject="the workloads are")
        result, found = self._background.answer(services, call, question)
        seen = summary([each for each in found if reader.sees_resource(each.resource)])
        return DriftView(
            **{**asdict(seen), "workloads": seen.workloads[:limit]},
            computed_at=result.computed_at,
            gaps=list(services.state.gaps(reader)),
            version=result.version,
            staleness=staleness_of(services.state.freshness),
        )


def _texts(_: DriftQuestion) -> BackgroundTexts:
    return BackgroundTexts(
        "the drift is being computed; retry in a few seconds",
        "the drift could not be computed",
        f"the drift takes longer than {LIMIT_S:g} s to compute; run `berthmaster drift`",
    )


def _computed(
    services: Services, question: DriftQuestion, now: datetime, check: Callable[[], None]
) -> Sequence[WorkloadDrift]:
    state = services.state
    return workload_drifts(state.world(check), state.profile, now, tolerance=question.tolerance, check=check)
