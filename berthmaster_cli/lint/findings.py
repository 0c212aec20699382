"""The findings of lint, and the objects that they are about."""

from typing import Final

import msgspec

from berthmaster_cli.lint.sources import Broken, Skipped, SourceObject
from webhook.admission.outcome import FieldProblem

INVALID: Final = "invalid"
UNREADABLE: Final = "unreadable"


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of one object, or of one file.

    Attributes:
        rule: the id of the rule; ``invalid`` if the API server would never store the object.
        document, line: the number of the document and of the line in the file, from 1; document 0 is the whole file.
    """

    level: str
    rule: str
    source: str
    document: int
    line: int
    object: str
    path: str
    message: str


class LintReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run found."""

    findings: list[LintFinding]
    skipped: list[Skipped]
    objects: int
    checked: int

    def count(self, level: str) -> int:
        return sum(each.level == level for each in self.findings)

    @property
    def unreadable(self) -> bool:
        """Whether a file could not be read."""
        return any(each.rule == UNREADABLE for each in self.findings)


def finding(found: SourceObject, level: str, problem: FieldProblem) -> LintFinding:
    """Return the finding for a problem of an object."""
    return LintFinding(
        level=level,
        rule=problem.rule or INVALID,
        source=found.source,
        document=found.number,
        line=found.line(problem.path),
        object=label(found),
        path=found.path(problem.path),
        message=problem.detail,
    )


def unreadable(broken: Broken) -> LintFinding:
    """Return the finding for a file or document that cannot be read."""
    return LintFinding(
        level="error",
        rule=UNREADABLE,
        source=broken.source,
        document=broken.document,
        line=broken.line,
        object="",
        path=broken.path,
        message=broken.problem,
    )


def label(found: SourceObject) -> str:
    """Return kind, namespace and name of an object."""
    name = "/".join(filter(None, (found.namespace, found.name)))
    return f"{found.raw['kind']} {name}" if name else str(found.raw["kind"])
