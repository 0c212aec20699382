"""What a decision about moves reads besides clusters and binding, as values and functions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from berthmaster.controllers.moves.budgets import Waiting
from berthmaster.controllers.moves.config import MoveSettings
from berthmaster.model.binding import Binding
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import MoveState


@dataclass(frozen=True, slots=True)
class PolicyMoves:
    """What configuration and policy say about the moves of one binding.

    Attributes:
        settings: how it moves.
        reschedules: whether a requested rescheduling is a move.
        problem: what is wrong with the annotations of its policy; empty if nothing is.
    """

    settings: MoveSettings = field(default_factory=MoveSettings)
    reschedules: bool = False
    problem: str = ""


class MoveContext(NamedTuple):
    """The configuration of moves at one time.

    Attributes:
        now: the time of day.
        policy: returns what applies to a binding.
        admit: asks the budgets for a move that is about to start; returns what it waits for, or None.
        producer: the ``producer`` of eviction tasks.
        braked: why the storm brake stops moves; empty if it does not.
    """

    now: Timestamp
    policy: Callable[[Binding], PolicyMoves] = lambda _: PolicyMoves()
    admit: Callable[[Binding, MoveState], Waiting | None] = lambda _binding, _state: None
    producer: str = "berthmaster"
    braked: str = ""
