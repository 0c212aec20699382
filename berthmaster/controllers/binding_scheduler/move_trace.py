"""What a decision asked about moves, for a ledger: recorded while it is taken, and answered again for a replay."""

import msgspec

from berthmaster.controllers.decision_recorder import MoveInputs
from berthmaster.controllers.moves.budgets import Waiting
from berthmaster.controllers.moves.context import MoveContext, PolicyMoves
from berthmaster.model.binding import Binding
from berthmaster.model.decode import decode_json
from berthmaster.model.move import MoveState


class MoveTrace:
    """Passes the questions of one decision on, and keeps the answers.

    Attributes:
        context: what the decision asks.
    """

    def __init__(self, context: MoveContext) -> None:
        self._asked = context
        self._policy: PolicyMoves | None = None
        self._admissions: list[Waiting | None] = []
        self.context = context._replace(policy=self._policy_of, admit=self._admit)

    def inputs(self) -> MoveInputs:
        """Return the answers so far."""
        return MoveInputs(
            self._asked.now,
            self._asked.producer,
            self._asked.braked,
            b"" if self._policy is None else msgspec.json.encode(self._policy),
            tuple(None if each is None else (each.reason, each.retry_after_s, each.cause) for each in self._admissions),
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
    admissions = iter(inputs.admissions)

    def admit(_binding: Binding, _state: MoveState) -> Waiting | None:
        answer = next(admissions, None)
        return None if answer is None else Waiting(*answer)

    return MoveContext(inputs.now, lambda _binding: policy, admit, inputs.producer, inputs.braked)
