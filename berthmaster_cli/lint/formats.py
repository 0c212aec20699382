"""The output formats of lint: text, JSON, GitHub annotations and SARIF."""

from typing import Final

from berthmaster.views.texts import count_text
from berthmaster_cli.lint.findings import LintFinding, LintReport
from berthmaster_cli.lint.sarif import sarif
from berthmaster_cli.lint.sources import Skipped
from berthmaster_cli.output import echo, echo_command, inert, print_data

FORMATS: Final = ("text", "json", "sarif", "github")


def write(report: LintReport, output: str, docs_url: str = "") -> None:
    """Print a report on standard output in one of ``FORMATS``.

    Args:
        report: the findings.
        output: the format.
        docs_url: the address of a rule's page, with ``{rule}`` for the id, for SARIF; empty if there is none.
    """
    match output:
        case "json":
            summary = {
                "documents": report.objects,
                "checked": report.checked,
                "skipped": len(report.skipped),
                "errors": report.count("error"),
                "warnings": report.count("warning"),
            }
            print_data({"findings": report.findings, "skipped": report.skipped, "summary": summary}, "json")
        case "sarif":
            print_data(sarif(report, docs_url), "json")
        case "github":
            for each in report.findings:
                echo_command(_github(each))
            for note in report.skipped:
                echo_command(_notice(note))
        case _:
            _write_text(report)


def _write_text(report: LintReport) -> None:
    for each in report.findings:
        path = f"{each.path}: " if each.path else ""
        echo(f"{each.source}:{each.line}: {each.level}: {path}{each.message} [{each.rule}]")
    for note in report.skipped:
        echo(f"{note.source}:{note.line}: note: skipped: {note.reason}")
    counts = [count_text(report.count("error"), "error"), count_text(report.count("warning"), "warning")]
    if report.skipped:
        counts.append(f"{len(report.skipped)} skipped")
    echo(f"{count_text(report.objects, 'object')}, {report.checked} checked: {', '.join(counts)}")


def _github(finding: LintFinding) -> str:
    """Format a finding as a workflow command, which GitHub shows beside the line."""
    title = f"{finding.rule} ({finding.object})" if finding.object else finding.rule
    path = f"{finding.path}: " if finding.path else ""
    return _annotation(finding.level, finding.source, finding.line, title, f"{path}{finding.message}")


def _notice(note: Skipped) -> str:
    return _annotation("notice", note.source, note.line, "skipped", f"not checked: {note.reason}")


def _annotation(level: str, source: str, line: int, title: str, message: str) -> str:
    properties = {"file": source, "line": line, "title": title}
    shown = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items())
    return f"::{level} {shown}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    text = inert(text)
    for character in f"%{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
