"""What a decision about moves reads besides clusters and binding, and how a ledger records and replays that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from berthmaster.deciding.budgets import Waiting
from berthmaster.deciding.config import MoveSettings
from berthmaster.deciding.decision_recorder import MoveInputs
from berthmaster.model.binding import Binding
from berthmaster.model.decode import decode_json
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import MoveState
from berthmaster.model.work import Copies


@dataclass(frozen=True, slots=True)
class PolicyMoves:
    """What configuration and policy say about the moves of one binding."""

    settings: MoveSettings = field(default_factory=MoveSettings)
    reschedules: bool = False
    problem: str = ""


class MoveContext(NamedTuple):
    """The configuration of moves at one time.

    Attributes:
        admit: asks the budgets for a move that is about to start; returns what it waits for, or None.
        copies: the copies of the binding by their Works; None if they were not read. A decision that needs them then
            raises ``CopiesNotReadError``.
        stuck: the replicas that estimators report as unschedulable, by cluster. None if the decision does not look
            for drift.
    """

    now: Timestamp
    policy: Callable[[Binding], PolicyMoves] = lambda _: PolicyMoves()
    admit: Callable[[Binding, MoveState], Waiting | None] = lambda _binding, _state: None
    producer: str = "berthmaster"
    braked: str = ""
    copies: Copies | None = None
    stuck: Mapping[str, int] | None = None


class MoveTrace:
    """Passes the questions of one decision on, and keeps the answers."""

    def __init__(self, context: MoveContext) -> None:
        self._asked = context
        self._policy: PolicyMoves | None = None
        self._admissions: list[Waiting | None] = []
        self.context = context._replace(policy=self._policy_of, admit=self._admit)

    def inputs(self) -> MoveInputs:
        asked = self._asked
        return MoveInputs(
            asked.now,
            asked.producer,
            asked.braked,
            b"" if self._policy is None else msgspec.json.encode(self._policy),
            tuple(None if each is None else (each.reason, each.retry_after_s, each.cause) for each in self._admissions),
            tuple(() if each is None else each.about for each in self._admissions),
            b"" if asked.copies is None else msgspec.json.encode(asked.copies),
            asked.stuck,
        )

    def _policy_of(self, binding: Binding) -> PolicyMoves:
        self._policy = self._asked.policy(binding)
        return self._policy

    def _admit(self, binding: Binding, state: MoveState) -> Waiting | None:
        answer = self._asked.admit(binding, state)
        self._admissions.append(answer)
        return answer


def context_of(inputs: MoveInputs) -> MoveContext:
    """Return a context that answers as the recorded one did. What was never asked has the default answer.

    Raises:
        InputError: the recorded answers are damaged.
    """
    policy = decode_json(PolicyMoves, inputs.policy) if inputs.policy else PolicyMoves()
    # The recorded version did not need them. Another version, or another binding, may.
    copies = decode_json(Copies, inputs.copies) if inputs.copies else Copies(problem="the Works are not on record")
    abouts = inputs.abouts or ((),) * len(inputs.admissions)
    admissions = iter(zip(inputs.admissions, abouts, strict=True))

    def admit(_binding: Binding, _state: MoveState) -> Waiting | None:
        answer, about = next(admissions, (None, ()))
        return None if answer is None else Waiting(*answer, about=about)

    return MoveContext(inputs.now, lambda _binding: policy, admit, inputs.producer, inputs.braked, copies, inputs.stuck)
