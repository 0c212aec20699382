"""``berthmaster lint``: the webhook's defaults and rules over manifests, for pipelines."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from berthmaster.manifests import read_documents
from berthmaster.manifests.document import Document
from berthmaster_cli.lines import Lines
from berthmaster_cli.lint_output import FORMATS, Finding, write
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.rule_options import rule_levels, rule_options, scopes
from webhook.admission.context import Context
from webhook.admission.lint import lint
from webhook.admission.problem import Problem
from webhook.admission.settings import Settings

_NO_ID: Final = ""


@click.command(
    context_settings={"auto_envvar_prefix": "BERTHMASTER_LINT"},
    epilog="Exit codes: 0 nothing wrong; 1 errors, or warnings with --strict; 2 bad usage or input.",
)
@click.option(
    "-f", "--filename", "paths", multiple=True, required=True, metavar="PATH",
    help="Manifests: a file, a folder, or - for stdin. Repeatable.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="Output format.")
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Where objects without a namespace would go."
)
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
    """Check policies and rebalancers as the webhook and karmada-webhook would."""
    settings = Settings(
        peer_checks=True, levels=rule_levels(rules), scopes=scopes(cluster_scoped_kinds, namespaced_kinds)
    )
    context = Context(settings, lambda: _NO_ID)
    documents = list(read_documents(paths, stdin=sys.stdin.buffer))
    findings = list(_findings(documents, context, namespace))
    write(findings, output, documents=len(documents))
    errors = any(each.level == "error" for each in findings)
    if errors or (strict and findings):
        sys.exit(EXIT_CHECK_FAILED)


def _findings(documents: Sequence[Document], context: Context, namespace: str) -> Iterator[Finding]:
    lines: dict[str, Lines] = {}
    for document in documents:
        found = lint(document.raw, context, namespace)
        if found is None or not (found.errors or found.warnings):
            continue
        if document.source not in lines:
            lines[document.source] = Lines(document.source)
        for level, problems in (("error", found.errors), ("warning", found.warnings)):
            for problem in problems:
                yield _finding(document, lines[document.source], level, problem)


def _finding(document: Document, lines: Lines, level: str, problem: Problem) -> Finding:
    path = ".".join(filter(None, (document.prefix, problem.path)))
    return Finding(
        level=level,
        rule=problem.rule or "invalid",
        source=document.source,
        document=document.number,
        line=lines.line(document.number, path),
        object=f"{document.kind} {'/'.join(filter(None, (document.namespace, document.name)))}",
        path=path,
        message=problem.detail,
    )
