"""Findings as a SARIF log, which code hosts show beside the lines of files."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote

from berthmaster.version import __version__
from berthmaster_cli.lint.sources import LintFinding, Skipped

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT: Final = "berthmasterFinding/v1"
RULE_IN_URL: Final = "{rule}"
_KEPT: Final = "/-._~!$&'()*+,;=@"


def sarif_log(
    findings: Sequence[LintFinding],
    rules: Mapping[str, str],
    skipped: Sequence[Skipped] = (),
    *,
    successful: bool,
    more: str = "",
    docs_url: str = "",
) -> dict[str, Any]:
    """Return findings as a SARIF log.

    Args:
        rules: what each rule is about, by its id.
        successful: whether all files could be read.
        more: a sentence that follows what a rule is about.
        docs_url: the address of a rule's page, with ``{rule}`` for the id; empty for none.
    """
    used = sorted({each.rule for each in findings})
    driver: dict[str, Any] = {
        "name": "berthmaster",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule, rules[rule], more, docs_url) for rule in used],
    }
    seen: dict[str, int] = {}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{
            "executionSuccessful": successful,
            "toolExecutionNotifications": list(map(_note, skipped)),
        }],
        "results": [_result(each, used.index(each.rule), seen) for each in findings],
    }  # fmt: skip
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str, summary: str, more: str, docs_url: str) -> dict[str, Any]:
    plain = summary.replace("`", "")
    listed: dict[str, Any] = {
        "id": rule,
        "shortDescription": {"text": plain},
        "help": {"text": " ".join(filter(None, (plain, more))), "markdown": summary},
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
