"""The native API's answers about one binding: what each of its groups could hold, and all that is known about it."""

from berthmaster.model.move import MoveState
from berthmaster.native_api.why import ClaimsView
from berthmaster.native_api.wire import AnswerPart, BindingExplanation, BindingView, Staleness
from berthmaster.scheduling.diagnosis import GroupDiagnosis
from berthmaster.simulation.drift import WorkloadDrift
from berthmaster.simulation.group_outlook import GroupOutlook


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
