"""What is wrong, or questionable, about one field."""

from typing import Final, NamedTuple

from berthmaster.model.errors import shown


class _Absent:
    """Stands for a field that is not there, which differs from any value it could have."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


class Problem(NamedTuple):
    """One field that is not acceptable, or that does something else than its author thinks.

    Attributes:
        path: where it stands, as in ``spec.placement.spreadConstraints[0]``.
        value: what stands there, or ``ABSENT``.
        fault: what is wrong and what will happen.
        remedy: what to do about it.
        rule: the id of the configurable rule that found it; empty for what can never be stored.
    """

    path: str
    value: object
    fault: str
    remedy: str
    rule: str = ""

    @property
    def detail(self) -> str:
        """All but the path."""
        value = "" if self.value is ABSENT else f"{_quoted(self.value)}: "
        return f"{value}{self.fault}; {self.remedy}"

    def __str__(self) -> str:
        rule = f" [{self.rule}]" if self.rule else ""
        return f"{self.path}: {self.detail}{rule}"


def _quoted(value: object) -> str:
    """A value in a message: JSON's words for JSON's constants."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shown(value)
