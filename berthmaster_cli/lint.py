"""``berthmaster lint``: check manifests offline with the defaults and rules of the webhook."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import click
import msgspec
import yaml

from berthmaster.manifests import read_documents
from berthmaster.manifests.document import Document
from berthmaster.version import __version__
from berthmaster_cli.console import print_data
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.rule_options import rule_levels, rule_options, scopes
from webhook.admission.lint import OWN_RULES, lint
from webhook.admission.outcome import FieldProblem
from webhook.admission.rule_catalog import ALL_RULES, AdmissionContext
from webhook.admission.settings import AdmissionSettings

_NO_ID: Final = ""
FORMATS: Final = ("text", "json", "sarif", "github")
_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TOKENS: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_MAX_BYTES: Final = 4 * 2**20


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of one object.

    Attributes:
        level: ``error`` or ``warning``.
        rule: the id of the rule; ``invalid`` if the API server would never store the object.
        source: the file.
        document, line: the number of the document and of the line in the file, from 1.
        object: kind, namespace and name.
        path: the path of the field.
        message: what is wrong and how to fix it.
    """

    level: str
    rule: str
    source: str
    document: int
    line: int
    object: str
    path: str
    message: str


class LineFinder:
    """Finds the lines of fields in one file. Parses the file again, because values have no line numbers."""

    def __init__(self, path: str) -> None:
        self._documents: list[Any] = []
        try:
            if Path(path).stat().st_size <= _MAX_BYTES:
                self._documents = list(yaml.compose_all(Path(path).read_text("utf-8"), Loader=_LOADER))
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            self._documents = []  # for example standard input: every field is on line 1

    def line(self, document: int, path: str) -> int:
        """Return the line of the deepest part of a path that exists. Documents and lines count from 1."""
        # The numbers include empty documents, which the composer yields as None.
        if not 0 < document <= len(self._documents):
            return 1
        node = self._documents[document - 1]
        line = node.start_mark.line + 1 if node is not None else 1
        for index, key in _TOKENS.findall(path):
            found = _child(node, index or key)
            if found is None:
                return line
            line, node = found
        return line


@click.command(
    context_settings={"auto_envvar_prefix": "BERTHMASTER_LINT"},
    epilog="Exit codes: 0 no errors; 1 errors, or warnings with --strict; 2 bad usage or input.",
)
@click.option(
    "-f", "--filename", "paths", multiple=True, required=True, metavar="PATH",
    help="Manifests: a file, a folder, or - for standard input. Repeatable.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="Output format.")
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option(
    "-n", "--namespace", default="default", show_default=True, metavar="NAME",
    help="The namespace of objects that name none.",
)  # fmt: skip
@rule_options
def command(
    paths: tuple[str, ...],
    output: str,
    namespace: str,
    rules: tuple[str, ...],
    cluster_scoped_kinds: tuple[str, ...],
    namespaced_kinds: tuple[str, ...],
    *,
    strict: bool,
) -> None:
    """Check policies and rebalancers offline, as the webhook and karmada-webhook would."""
    settings = AdmissionSettings(
        peer_checks=True, levels=rule_levels(rules), scopes=scopes(cluster_scoped_kinds, namespaced_kinds)
    )
    context = AdmissionContext(settings, lambda: _NO_ID)
    documents = list(read_documents(paths, stdin=sys.stdin.buffer))
    findings = list(_findings(documents, context, namespace))
    write(findings, output, documents=len(documents))
    errors = any(each.level == "error" for each in findings)
    if errors or (strict and findings):
        sys.exit(EXIT_CHECK_FAILED)


def _findings(documents: Sequence[Document], context: AdmissionContext, namespace: str) -> Iterator[LintFinding]:
    lines: dict[str, LineFinder] = {}
    for document in documents:
        found = lint(document.raw, context, namespace)
        if found is None or not (found.errors or found.warnings):
            continue
        if document.source not in lines:
            lines[document.source] = LineFinder(document.source)
        for level, problems in (("error", found.errors), ("warning", found.warnings)):
            for problem in problems:
                yield _finding(document, lines[document.source], level, problem)


def _finding(document: Document, lines: LineFinder, level: str, problem: FieldProblem) -> LintFinding:
    path = ".".join(filter(None, (document.prefix, problem.path)))
    return LintFinding(
        level=level,
        rule=problem.rule or "invalid",
        source=document.source,
        document=document.number,
        line=lines.line(document.number, path),
        object=f"{document.kind} {'/'.join(filter(None, (document.namespace, document.name)))}",
        path=path,
        message=problem.detail,
    )


def write(findings: Sequence[LintFinding], output: str, *, documents: int) -> None:
    """Print findings on standard output in one of ``FORMATS``."""
    errors = sum(each.level == "error" for each in findings)
    warnings = len(findings) - errors
    match output:
        case "json":
            summary = {"documents": documents, "errors": errors, "warnings": warnings}
            print_data({"findings": findings, "summary": summary}, "json")
        case "sarif":
            print_data(_sarif(findings), "json")
        case "github":
            for each in findings:
                click.echo(_github(each))
        case _:
            for each in findings:
                click.echo(f"{each.source}:{each.line}: {each.level}: {each.path}: {each.message} [{each.rule}]")
            click.echo(f"{_count(documents, 'document')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _github(finding: LintFinding) -> str:
    """Format a finding as a workflow command, which GitHub shows beside the line."""
    properties = {"file": finding.source, "line": finding.line, "title": f"{finding.rule} ({finding.object})"}
    shown = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items())
    return f"::{finding.level} {shown}::{_escaped(f'{finding.path}: {finding.message}')}"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _sarif(findings: Sequence[LintFinding]) -> dict[str, Any]:
    """Return the findings as a SARIF 2.1.0 log."""
    summaries = {rule.id: rule.summary for rule in ALL_RULES} | OWN_RULES
    used = sorted({each.rule for each in findings})
    driver = {
        "name": "berthmaster",
        "version": __version__,
        "rules": [
            {
                "id": rule,
                "shortDescription": {"text": summaries.get(rule, "The API server would never store the object.")},
            }
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


def _child(node: Any, token: str) -> tuple[int, Any] | None:  # noqa: ANN401 - PyYAML's node
    if isinstance(node, yaml.SequenceNode):
        if not token.isdecimal() or int(token) >= len(node.value):
            return None
        entry = node.value[int(token)]
        return entry.start_mark.line + 1, entry
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == token:
                return key.start_mark.line + 1, value
    return None
