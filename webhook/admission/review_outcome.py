"""The outcome of a review."""

from typing import Any, Final

import msgspec

from webhook.admission.field_problem import FieldProblem
from webhook.admission.gate_decision import GateDecision
from webhook.admission.json_patch import PatchOperation


class ReviewOutcome(msgspec.Struct, frozen=True):
    """The result of one review.

    Attributes:
        warnings: the warnings for the user, the most important first.
        mutated: the object with the patch; None from a review that only validates.
        malformed: why the request is invalid. The answer is then 400 Bad Request instead of 403 Forbidden.
    """

    denials: tuple[FieldProblem, ...] = ()
    warnings: tuple[FieldProblem | str, ...] = ()
    patch: tuple[PatchOperation, ...] = ()
    mutated: dict[str, Any] | None = None
    audit: dict[str, str] = {}
    gate: GateDecision | None = None
    malformed: str = ""

    @property
    def allowed(self) -> bool:
        return not self.denials and not self.malformed

    @property
    def rules(self) -> list[str]:
        """The id of the rule of each finding, with duplicates."""
        found = [*self.denials, *(each for each in self.warnings if isinstance(each, FieldProblem))]
        return [each.rule for each in found if each.rule]


ALLOWED: Final = ReviewOutcome()
