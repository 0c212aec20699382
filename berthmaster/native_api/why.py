"""The answers of the native API to questions that begin with why: moves, policies, claims, why-not, resilience.

Recorded decisions are explained by ``berthmaster.ledger.records.PastExplanation`` as it is.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

from berthmaster.model.move import MoveState
from berthmaster.model.policy import Policy
from berthmaster.native_api.fleet import FleetAmount
from berthmaster.native_api.wire import AnswerPart, BindingExplanation, BindingView, Staleness
from berthmaster.scheduling.diagnosis import GroupDiagnosis, GroupOutlook
from berthmaster.simulation.drift import FleetDrift, WorkloadDrift
from berthmaster.simulation.failures import FailureDomain, Impact
from berthmaster.simulation.plan_answer import Assumptions
from berthmaster.simulation.report import ClaimRow
from berthmaster.simulation.why_not import WhyNot
from berthmaster.views.move_rows import MovesReport
from berthmaster.views.policy_rows import PolicyRow

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


POLICY_SORTS: Final = ("name", "priority", "claims", "findings", "takeovers")
"""The orders of policies. A number of findings or takeovers that is not known comes last."""


class PolicyQuery(NamedTuple):
    """Which policies to list. All conditions must hold.

    Attributes:
        q: a part of ``NAMESPACE/NAME``, in any case; empty for all.
    """

    q: str = ""
    kind: str = ""
    name: str = ""
    only: tuple[str, ...] = ()
    namespaces: frozenset[str] | None = None
    sort: str = ""
    offset: int = 0
    limit: int = 200


class PolicyList(AnswerPart, frozen=True):
    """A page of the policies."""

    items: list[PolicyRow]
    matched: int
    total: int
    gaps: list[str]
    version: str
    staleness: Staleness


class AllowedGroup(AnswerPart, frozen=True):
    """The clusters that a group of a placement allows. Whether a workload fits there is another question.

    Attributes:
        extends: the group that overflows to this one; empty for a group of its own.
        repelling: how many of them have a taint that the placement does not tolerate.
        unready: how many of the others are not ready or are being removed.
        names: the clusters that remain, by name; at most ``MAX_NAMES``.
    """

    name: str
    extends: str
    matching: int
    repelling: int
    unready: int
    names: list[str]
    resources: dict[str, FleetAmount]

    @property
    def remaining(self) -> int:
        return self.matching - self.repelling - self.unready


class PolicyView(AnswerPart, frozen=True):
    """One policy, and what its placement allows.

    Attributes:
        policy: the policy as the service reads it: the fields that decisions use, with Karmada's defaults.
        failback: the default mode of failbacks of the controllers; null if it is not known.
    """

    row: PolicyRow
    policy: Policy
    groups: list[AllowedGroup]
    failback: str | None
    gaps: list[str]
    version: str
    staleness: Staleness


class ClaimsView(AnswerPart, frozen=True):
    """Which policy holds a workload, and which others match it.

    Attributes:
        holder: the policy that holds it: kind, namespace and name; null if none does or it is not known.
        claims: the policies that match, the holder first, then the best. Each other one says why it does not hold.
    """

    resource: str
    holder: str | None
    why: str
    claims: list[ClaimRow]
    gaps: list[str]
    version: str
    staleness: Staleness


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


DRIFT_SORTS: Final = ("moves", "fullMoves", "name")


class DriftQuery(NamedTuple):
    """Which workloads that drift to list. All conditions must hold. The summaries are about all of them.

    Attributes:
        q: a part of ``NAMESPACE/KIND/NAME``, in any case; empty for all.
        kind: a kind of drift; empty for all.
        policy, cluster: a part of the policy, and of the name of a cluster that has replicas before or after a repair.
        tolerance: by how many percent a share may differ from its weight.
        namespaces: as in ``PolicyQuery``.
        sort: one of ``DRIFT_SORTS``, with a leading ``-`` for descending; empty for the most moves first.
        offset: how many workloads to leave out first.
        limit: the most workloads; 0 for the figures without any list.
        stale: whether to answer at once, with the last figures.
    """

    q: str = ""
    kind: str = ""
    policy: str = ""
    cluster: str = ""
    tolerance: int = 10
    namespaces: frozenset[str] | None = None
    sort: str = ""
    offset: int = 0
    limit: int = 200
    stale: bool = False


class DriftView(FleetDrift, frozen=True, rename="camel", kw_only=True):
    """The drift of the workloads that a reader may see. ``workloads`` is a page of those that the question selects."""

    matched: int
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
