"""The findings of lint, and the objects that they are about."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote

import msgspec

from berthmaster.version import __version__
from berthmaster_cli.lint.across import ACROSS_RULES
from berthmaster_cli.lint.sources import Broken, Skipped, SourceObject
from webhook.admission.outcome import FieldProblem
from webhook.admission.reviews import OWN_RULES, UNKNOWN_FIELD_SUMMARY, unknown_level
from webhook.admission.rule_catalog import ALL_RULES
from webhook.admission.schema import UNKNOWN_FIELD
from webhook.admission.settings import AdmissionSettings, Level

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


LINT_RULE_IDS: Final = frozenset({*ACROSS_RULES, UNKNOWN_FIELD})
"""The rules that only lint has, and whose level can be set."""
_ALWAYS: Final = {
    UNREADABLE: "A file or document that cannot be read.",
    INVALID: "A value that the API server or karmada-webhook denies.",
    **OWN_RULES,
}


class ListedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as ``lint --rules`` lists it."""

    id: str
    level: str
    configurable: bool
    summary: str


def listed_rules(settings: AdmissionSettings) -> Iterator[ListedRule]:
    """Yield every rule with the level that it has with these settings."""
    for rule, summary in _ALWAYS.items():
        yield ListedRule(id=rule, level="error", configurable=False, summary=summary)
    level = _LEVELS[unknown_level(settings)]
    yield ListedRule(id=UNKNOWN_FIELD, level=level, configurable=True, summary=UNKNOWN_FIELD_SUMMARY)
    for each in ALL_RULES:
        yield ListedRule(id=each.id, level=_LEVELS[each.level(settings)], configurable=True, summary=each.summary)
    for rule, summary in ACROSS_RULES.items():
        yield ListedRule(id=rule, level=_LEVELS[across_level(rule, settings)], configurable=True, summary=summary)


def across_level(rule: str, settings: AdmissionSettings) -> Level:
    """Return the level of a rule that needs several objects."""
    return settings.levels.get(rule, Level.WARN)


_LEVELS: Final = {Level.DENY: "error", Level.WARN: "warning", Level.OFF: "off"}


_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT: Final = "berthmasterFinding/v1"
RULE_IN_URL: Final = "{rule}"
_KEPT: Final = "/-._~!$&'()*+,;=@"


def sarif(report: LintReport, docs_url: str = "") -> dict[str, Any]:
    """Return a report as a SARIF log.

    Args:
        docs_url: the address of a rule's page, with ``{rule}`` for the id; empty for no ``helpUri``.
    """
    known = {each.id: each.summary for each in listed_rules(AdmissionSettings())}
    used = sorted({each.rule for each in report.findings})
    driver: dict[str, Any] = {
        "name": "berthmaster",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule, known[rule], docs_url) for rule in used],
    }
    seen: dict[str, int] = {}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not report.unreadable,
                "toolExecutionNotifications": list(map(_note, report.skipped)),
            }
        ],
        "results": [_result(each, used.index(each.rule), seen) for each in report.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str, summary: str, docs_url: str) -> dict[str, Any]:
    plain = summary.replace("`", "")
    listed: dict[str, Any] = {
        "id": rule,
        "shortDescription": {"text": plain},
        "help": {"text": f"{plain} `berthmaster lint --rules` lists all rules.", "markdown": summary},
    }
    return {**listed, "helpUri": docs_url.replace(RULE_IN_URL, rule)} if docs_url else listed


def _result(finding: LintFinding, index: int, seen: dict[str, int]) -> dict[str, Any]:
    text = ": ".join(filter(None, (finding.object, finding.path, finding.message)))
    location: dict[str, Any] = {"physicalLocation": _place(finding.source, finding.line)}
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path, "kind": "member"}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {_FINGERPRINT: _fingerprint(finding, seen)},
    }


def _fingerprint(finding: LintFinding, seen: dict[str, int]) -> str:
    """Return a text that stays the same if lines move. Equal findings of one file are numbered."""
    parts = f"{finding.rule}\n{finding.source}\n{finding.object}\n{finding.path}"
    digest = sha256(parts.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    seen[digest] = seen.get(digest, 0) + 1
    return f"{digest}:{seen[digest]}"


def _note(note: Skipped) -> dict[str, Any]:
    message = {"text": f"skipped: {note.reason}"}
    return {"level": "note", "message": message, "locations": [{"physicalLocation": _place(note.source, note.line)}]}


def _place(source: str, line: int) -> dict[str, Any]:
    return {"artifactLocation": {"uri": uri(source)}, "region": {"startLine": line}}


def uri(source: str) -> str:
    """Return the URI of a file: relative to the working directory if its path is, percent-encoded."""
    path = PurePath(source)
    if path.is_absolute():
        return path.as_uri()
    # In the first part of a relative reference, a colon would end a scheme. It is encoded, too.
    return quote(path.as_posix(), safe=_KEPT, errors="surrogateescape")
