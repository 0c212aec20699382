"""A problem of a field of an object, with its value, what is wrong and the remedy."""

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from berthmaster.model.errors import MAX_PATH_LENGTH, printable, shown

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
    more = sum(1 for _ in remaining) if len(kept) == MAX_PROBLEMS else 0
    if more:
        noun = "problem" if more == 1 else "problems"
        kept.append(FieldProblem("spec", ABSENT, f"{more:,} more {noun} like these", "correct them too", rule))
    return kept


def _quoted(value: object) -> str:
    """Return a value as text, with JSON's words for JSON's constants."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shown(value)
