"""The outcome of a review, and the problems that it reports."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from berthmaster.model.errors import MAX_PATH_LENGTH, printable, shown
from webhook.admission.impact import GateDecision
from webhook.admission.patch import PatchOperation

MAX_PROBLEMS: Final = 50
_MAX_DETAIL_LENGTH: Final = 1024


class _Absent:
    """The value of a field that is absent. It differs from any JSON value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


class FieldProblem(NamedTuple):
    """An invalid field, or one that has another effect than expected.

    Attributes:
        path: the field, as in ``spec.placement.spreadConstraints[0]``. It may contain keys of the object.
        value: the value, or ``ABSENT``.
        rule: the id of the rule that found it; empty for a check that cannot be configured.
    """

    path: str
    value: object
    fault: str
    remedy: str
    rule: str = ""

    @property
    def detail(self) -> str:
        """Everything except the path and the rule, as one printable line."""
        value = "" if self.value is ABSENT else f"{_quoted(self.value)}: "
        return printable(f"{value}{self.fault}; {self.remedy}", _MAX_DETAIL_LENGTH)

    def __str__(self) -> str:
        rule = f" [{self.rule}]" if self.rule else ""
        return f"{self.field}: {self.detail}{rule}"

    @property
    def field(self) -> str:
        """The path, as one printable line."""
        return printable(self.path, MAX_PATH_LENGTH)


def bounded(problems: Iterable[FieldProblem], rule: str = "") -> list[FieldProblem]:
    """Return the first ``MAX_PROBLEMS`` problems, and one that says how many more there are.

    Args:
        problems: any number of problems. They are made one by one and not all kept.
    """
    remaining = iter(problems)
    kept = [each._replace(rule=rule) if rule else each for each in islice(remaining, MAX_PROBLEMS)]
    more = sum(1 for _ in remaining)
    if more:
        noun = "problem" if more == 1 else "problems"
        kept.append(FieldProblem("spec", ABSENT, f"{more:,} more {noun} like these", "correct them too", rule))
    return kept


def _quoted(value: object) -> str:
    """Return a value as text, with JSON's words for JSON's constants."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shown(value)


@dataclass(frozen=True, slots=True)
class ReviewOutcome:
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
    audit: dict[str, str] = field(default_factory=dict)
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
