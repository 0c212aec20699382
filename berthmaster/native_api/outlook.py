"""The native API's answer about the groups of a binding: what each could hold now, and the move of the binding."""

from berthmaster.model.move import MoveState
from berthmaster.native_api.wire import AnswerPart, Staleness
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
