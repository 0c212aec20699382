"""The native API's answers about one binding: what each of its groups could hold, and all that is known about it."""

from berthmaster.model.move import MoveState
from berthmaster.native_api.why import ClaimsView
from berthmaster.native_api.wire import AnswerPart, BindingExplanation, BindingView, Staleness
from berthmaster.scheduling.diagnosis import GroupDiagnosis
from berthmaster.simulation.group_outlook import GroupOutlook


class BindingOutlook(AnswerPart, frozen=True):
    """What each group of a binding could hold, as if it were scheduled from scratch into this group.

    Attributes:
        groups: one entry for each group, in order; one without a name for a placement without groups. Empty for a
            binding without a placement.
        diagnosis: each cluster in the group of the query; null without one.
        move: the state of the binding's move; null without one.
        move_note: the same in one sentence, as it stands in the notes of the explanation; empty without a move.
        notes: what to know about the answer, one sentence each.
        gaps: what the service does not know and what follows, one sentence each.
        staleness: how current the state of the service is.
    """

    groups: list[GroupOutlook]
    diagnosis: GroupDiagnosis | None
    move: MoveState | None
    move_note: str
    notes: list[str]
    gaps: list[str]
    staleness: Staleness


class BindingOverview(AnswerPart, frozen=True):
    """All that the service knows about a binding, except what the ledger has. A part that is missing is null.

    Attributes:
        binding: the binding.
        decision: the decision that would be made now.
        outlook: what each group could hold.
        claims: which policy holds the workload, and which others match it.
        missing: why a part is missing, by its name.
        version: the version of the state; see ``StateVersion``.
    """

    binding: BindingView
    decision: BindingExplanation | None
    outlook: BindingOutlook | None
    claims: ClaimsView | None
    missing: dict[str, str]
    version: str
