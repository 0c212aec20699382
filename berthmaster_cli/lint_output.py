"""What lint found, for people, programs, code scanners and GitHub."""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import click
import msgspec

from berthmaster.version import __version__
from webhook.admission.lint import OWN_RULES
from webhook.admission.rules.catalog import ALL_RULES

FORMATS: Final = ("text", "json", "sarif", "github")
_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding.

    Attributes:
        level: ``error`` or ``warning``.
        rule: the id of the rule; ``invalid`` for what can never be stored.
        source: the file.
        document, line: which document of the file, and which line of the file, from 1.
        object: kind, namespace and name.
        path: the field.
        message: what is wrong and what to do.
    """

    level: str
    rule: str
    source: str
    document: int
    line: int
    object: str
    path: str
    message: str


def write(findings: Sequence[Finding], output: str, *, documents: int) -> None:
    """Print findings on standard output."""
    errors = sum(each.level == "error" for each in findings)
    warnings = len(findings) - errors
    match output:
        case "json":
            summary = {"documents": documents, "errors": errors, "warnings": warnings}
            _write_json({"findings": findings, "summary": summary})
        case "sarif":
            _write_json(_sarif(findings))
        case "github":
            for each in findings:
                click.echo(_github(each))
        case _:
            for each in findings:
                click.echo(f"{each.source}:{each.line}: {each.level}: {each.path}: {each.message} [{each.rule}]")
            click.echo(f"{_count(documents, 'document')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _write_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _github(finding: Finding) -> str:
    """A workflow command, which GitHub shows beside the line."""
    properties = {"file": finding.source, "line": finding.line, "title": f"{finding.rule} ({finding.object})"}
    shown = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items())
    return f"::{finding.level} {shown}::{_escaped(f'{finding.path}: {finding.message}')}"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """A log of SARIF 2.1.0."""
    summaries = {rule.id: rule.summary for rule in ALL_RULES} | OWN_RULES
    used = sorted({each.rule for each in findings})
    driver = {
        "name": "berthmaster",
        "version": __version__,
        "rules": [
            {"id": rule, "shortDescription": {"text": summaries.get(rule, "What can never be stored.")}}
            for rule in used
        ],
    }
    results = [
        {
            "ruleId": each.rule,
            "ruleIndex": used.index(each.rule),
            "level": each.level,
            "message": {"text": f"{each.object}: {each.path}: {each.message}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(each.source)},
                        "region": {"startLine": each.line},
                    },
                    "logicalLocations": [{"fullyQualifiedName": each.path}],
                }
            ],
        }
        for each in findings
    ]
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _uri(source: str) -> str:
    path = PurePath(source)
    return Path(source).as_uri() if path.is_absolute() else path.as_posix()
