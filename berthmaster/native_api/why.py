"""The answers of the native API to questions that begin with why: moves, policies, claims, why-not, resilience.

Recorded decisions are explained by ``berthmaster.ledger.records.PastExplanation`` as it is.
"""

from datetime import datetime
from typing import Any, Final

from berthmaster.model.move import MoveState
from berthmaster.native_api.policies import ClaimsView
from berthmaster.native_api.wire import AnswerPart, BindingExplanation, BindingView, Staleness
from berthmaster.scheduling.diagnosis import GroupDiagnosis, GroupOutlook
from berthmaster.simulation.drift import WorkloadDrift
from berthmaster.simulation.failures import FailureDomain, Impact
from berthmaster.simulation.plan_answer import Assumptions
from berthmaster.simulation.why_not import WhyNot
from berthmaster.views.move_rows import MovesReport

MAX_NAMES: Final = 100
"""The most names of workloads in each list of a failure."""


class MovesView(MovesReport, frozen=True, rename="camel", omit_defaults=True):
    """What moves, what waits and for what.

    Attributes:
        matched: how many moves the question selects. ``moves`` is a page of them.
    """

    counts: dict[str, int] = {}
    matched: int = 0
    version: str = ""
    staleness: Staleness | None = None


class WhyNotView(WhyNot, frozen=True, rename="camel"):
    """Why a workload does not run on a cluster, now or at a recorded decision.

    Attributes:
        record: the id of the recorded decision; null for the present.
    """

    record: str | None = None
    gaps: list[str] = []
    version: str = ""
    staleness: Staleness | None = None


class ImpactView(Impact, frozen=True, rename="camel"):
    """What a failure does. The lists of workloads have at most ``MAX_NAMES`` names.

    Attributes:
        totals: the lengths of the whole lists ``only_copy``, ``nowhere``, ``short`` and ``staying``.
    """

    totals: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.totals


class ResilienceView(AnswerPart, frozen=True):
    """What each failure alone would do.

    Attributes:
        failures: the number of all failures; ``impacts`` may have fewer.
        harmless: how many of all failures leave every workload running and no cluster overcommitted.
    """

    by: list[FailureDomain]
    assumptions: Assumptions
    impacts: list[ImpactView]
    failures: int
    harmless: int
    workloads: int
    clusters: list[str]
    computed_at: datetime
    gaps: list[str]
    version: str
    staleness: Staleness


class BindingOutlook(AnswerPart, frozen=True):
    """What each group of a binding could hold, as if it were scheduled from scratch into this group.

    Attributes:
        groups: one entry for each group, in order; one without a name for a placement without groups. Empty for a
            binding without a placement.
        diagnosis: each cluster in the group of the query; null without one.
        move_note: the same in one sentence, as it stands in the notes of the explanation; empty without a move.
    """

    groups: list[GroupOutlook]
    diagnosis: GroupDiagnosis | None
    move: MoveState | None
    move_note: str
    notes: list[str]
    gaps: list[str]
    staleness: Staleness


class FreeAmount(AnswerPart, frozen=True):
    """What one cluster has free of a resource, in the units of ``FleetAmount``; less than 0 if it is overcommitted."""

    cluster: str
    amount: int


class Room(AnswerPart, frozen=True):
    """The most that one ready cluster has free of each resource that a replica requests.

    Attributes:
        passing: whether only clusters that pass the filters were looked at. If none passes, all are.
        free: by resource. One that no ready cluster reports is absent.
    """

    passing: bool
    free: dict[str, FreeAmount]


class BindingManifests(AnswerPart, frozen=True):
    """A binding and its workload as manifests, without what may be confidential.

    Environments, commands, images, data, and annotations of other owners are left out, as in a redacted dump. A Secret
    has its metadata only.

    Attributes:
        workload: null if the service does not know it.
    """

    binding: dict[str, Any]
    workload: dict[str, Any] | None
    version: str


class BindingEvent(AnswerPart, frozen=True):
    """An event about a binding, with its repeats.

    Attributes:
        time: when it was seen last, as the API server has it; empty if it has no time.
        count: how often it was seen.
        reporter: the controller that recorded it.
    """

    time: str
    type: str
    reason: str
    note: str
    count: int
    reporter: str


class BindingEvents(AnswerPart, frozen=True):
    """The events of a binding that the API server has now, the latest first.

    Attributes:
        more: whether the API server has others: it lists them by name.
    """

    items: list[BindingEvent]
    more: bool


class BindingOverview(AnswerPart, frozen=True):
    """All that the service knows about a binding, except what the ledger has. A part that is missing is null.

    Attributes:
        room: null if all replicas have a place, or request nothing.
    """

    binding: BindingView
    decision: BindingExplanation | None
    outlook: BindingOutlook | None
    claims: ClaimsView | None
    missing: dict[str, str]
    version: str
    room: Room | None = None
    drift: WorkloadDrift | None = None
