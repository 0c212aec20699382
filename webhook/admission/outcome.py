"""What a review comes to."""

from dataclasses import dataclass, field
from typing import Any

from webhook.admission.patch import Operation
from webhook.admission.problem import Problem


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one review, before it is put into the words of the wire.

    Attributes:
        denials: why the object is refused; empty when it is allowed.
        warnings: what its author should know, first things first.
        patch: how the object is to be changed.
        mutated: the object with the patch; None from a review that does not change objects.
        audit: annotations for the API server's audit log.
        malformed: the request itself makes no sense: it is answered as a bad request, not as forbidden.
    """

    denials: tuple[Problem, ...] = ()
    warnings: tuple[Problem | str, ...] = ()
    patch: tuple[Operation, ...] = ()
    mutated: dict[str, Any] | None = None
    audit: dict[str, str] = field(default_factory=dict)
    malformed: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the object may be stored."""
        return not self.denials and not self.malformed

    @property
    def rules(self) -> list[str]:
        """The ids of the rules that found something, once for each finding."""
        found = [*self.denials, *(each for each in self.warnings if isinstance(each, Problem))]
        return [each.rule for each in found if each.rule]


ALLOWED = Outcome()
