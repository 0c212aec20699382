"""The command ``berthmaster lint``."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import click

from berthmaster.manifests.heads import head_errors
from berthmaster.model.control_planes import CLUSTER_KINDS, CONTROL_PLANES
from berthmaster.model.kinds import group_of
from berthmaster.model.releases import KarmadaReleases
from berthmaster.views.texts import count_text
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import Parsed, argument, option, options
from berthmaster_cli.line_finder import LineFinder
from berthmaster_cli.lint import sources
from berthmaster_cli.lint.findings import Across, LintReport, LintSummary, PrintedReport, finding
from berthmaster_cli.lint.listed_rules import LINT_RULE_IDS, PrintedRules, across_level, listed_rules
from berthmaster_cli.lint.sarif import RULE_IN_URL, sarif_log
from berthmaster_cli.main import EXIT_BAD_INPUT, EXIT_CHECK_FAILED
from berthmaster_cli.options import KustomizeFlags, PlaneFlags
from berthmaster_cli.output import annotate, complain_about, echo, print_answer, print_json, print_table
from berthmaster_cli.reading import source_of
from berthmaster_cli.rule_options import RuleFlags, rule_levels, scopes
from berthmaster_cli.watching import WatchFlags, watched
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.linting import lint
from webhook.admission.schema import UNKNOWN_FIELD
from webhook.admission.settings import AdmissionSettings, Level

FORMATS: Final = ("text", "json", "sarif", "github")
_ANSWER: Final = AnswerKind("LintReport", PrintedReport)
_RULES: Final = AnswerKind("LintRules", PrintedRules)
_NO_ID: Final = ""
_PLANES: Final = " or ".join(each.name for each in CONTROL_PLANES)


def write(report: LintReport, output: str, docs_url: str = "") -> None:
    """Print a report on standard output in one of ``FORMATS``."""
    match output:
        case "json":
            counts = report.count("error"), report.count("warning")
            summary = LintSummary(report.objects, report.checked, len(report.skipped), *counts)
            print_answer(_ANSWER, PrintedReport(report.findings, report.skipped, summary), "json")
        case "sarif":
            log = sarif_log(
                report.findings,
                {each.id: each.summary for each in listed_rules(AdmissionSettings())},
                report.skipped,
                successful=not report.unreadable,
                more="`berthmaster lint --rules` lists all rules.",
                docs_url=docs_url,
            )
            print_json(log)
        case "github":
            for each in report.findings:
                about = f"{each.rule} ({each.object})" if each.object else each.rule
                annotate(each.level, each.source, each.line, about, f"{_path(each)}{each.message}")
            for note in report.skipped:
                annotate("notice", note.source, note.line, "skipped", f"not checked: {note.reason}")
        case _:
            _write_text(report)


def _write_text(report: LintReport) -> None:
    for each in report.findings:
        echo(f"{each.source}:{each.line}: {each.level}: {_path(each)}{each.message} [{each.rule}]")
    for note in report.skipped:
        echo(f"{note.source}:{note.line}: note: skipped: {note.reason}")
    counts = [count_text(report.count("error"), "error"), count_text(report.count("warning"), "warning")]
    if report.skipped:
        counts.append(f"{len(report.skipped)} skipped")
    echo(f"{count_text(report.objects, 'object')}, {report.checked} checked: {', '.join(counts)}")


def _path(finding: sources.LintFinding) -> str:
    return f"{finding.path}: " if finding.path else ""


def _address(_: click.Context, __: click.Parameter, url: str) -> str:
    if url and RULE_IN_URL not in url:
        raise click.BadParameter(f"{url} has no {RULE_IN_URL}; write {RULE_IN_URL} where the id of the rule stands")
    return url


class _LintFlags(PlaneFlags, KustomizeFlags, RuleFlags, WatchFlags):
    arguments: tuple[str, ...] = argument(nargs=-1, metavar="[PATH]...")
    paths: tuple[str, ...] = option(
        "Manifests, like the arguments: a file, a folder, or - for standard input. Repeatable.",
        names=("-f", "--filename"), metavar="PATH",
    )  # fmt: skip
    output: str = option("Output format.", "text", click.Choice(FORMATS), names=("-o", "--output"))
    strict: bool = option("Exit with 1 on warnings too.")
    strict_files: bool = option("Documents that are skipped are errors.")
    only_policies: bool = option(
        f"Leave out files whose text names no policy and no group of {_PLANES}, without a note. For hooks that name "
        "every file of a repository."
    )
    fleet_paths: tuple[str, ...] = option(
        "Manifests of the fleet, to find policies that name clusters which neither these nor the checked files have. "
        "Repeatable.",
        names=("--fleet",), metavar="PATH",
    )  # fmt: skip
    namespace: str = option(
        "The namespace of objects that name none.", "default", names=("-n", "--namespace"), metavar="NAME"
    )
    list_rules: bool = option("List the rules with their levels and exit.", names=("--rules",))
    docs_url: str = option(
        "With -o sarif: the address of a rule's page, with {rule} for the id.", "", metavar="URL", callback=_address
    )
    live: bool = option("Check the policies of the control plane, too.")
    karmada: KarmadaReleases | None = option(
        "The release of Karmada that the policies are for, for example 1.16. With --live: that of the control plane. "
        "Default: every supported release.",
        type=Parsed("RELEASE", KarmadaReleases.parse),
    )  # fmt: skip


@click.command(
    context_settings={"auto_envvar_prefix": "BERTHMASTER_LINT"},
    epilog="Exit codes: 0 no errors; 1 errors, or warnings with --strict; 2 bad usage, or a file cannot be read. All "
    "files are checked in any case. Text that is no Kubernetes object is skipped with a note, and so is a template "
    "that is not rendered.",
)
@options(_LintFlags, server="the control plane whose policies are checked")
@watched()
def command(flags: _LintFlags) -> None:
    """Check policies and rebalancers offline, as the API server, the webhook and karmada-webhook would.

    With --live, --kubeconfig or --context it checks the policies that a control plane stores, too.

    \b
    Examples:
      berthmaster lint policies/
      berthmaster lint --live
      berthmaster lint --fleet clusters.yaml -o sarif policies/
    """
    settings = AdmissionSettings(
        peer_checks=True,
        levels=rule_levels(flags.rules, LINT_RULE_IDS),
        scopes=scopes(flags.cluster_scoped_kinds, flags.namespaced_kinds),
        limits=flags.placement_limits,
        scheduler_names=frozenset(flags.scheduler_names),
        karmada=flags.karmada,
    )
    if flags.list_rules:
        _list_rules(settings, flags.output)
        return
    paths = (*flags.paths, *flags.arguments)
    live = flags.live or flags.kubeconfig is not None or flags.context is not None
    if not paths and not flags.kustomizations and not live:
        raise click.UsageError("nothing to check: name files or folders (- for standard input), or use --live")
    if not live:
        flags.refuse_manner_of_files("add --live, --kubeconfig or --context")
    run = _LintRun(settings if not live else _for_live(settings, flags), flags)
    run.add_fleet()
    if live:
        run.add_live()
    report = run.report(paths)
    write(report, flags.output, flags.docs_url)
    if report.unreadable:
        sys.exit(EXIT_BAD_INPUT)
    if report.count("error") or (flags.strict and report.findings):
        sys.exit(EXIT_CHECK_FAILED)


def _for_live(settings: AdmissionSettings, flags: _LintFlags) -> AdmissionSettings:
    """Return the settings for a control plane: the release of its definitions counts, unless an option names one."""
    from berthmaster.controllers.target import releases_served  # noqa: PLC0415 - files need no client
    from berthmaster.kube.http_client import connect  # noqa: PLC0415 - the same

    if settings.karmada is not None:
        return settings
    return replace(settings, karmada=releases_served(connect(flags.access())))


def _list_rules(settings: AdmissionSettings, output: str) -> None:
    rules = list(listed_rules(settings))
    if output == "json":
        print_answer(_RULES, PrintedRules(rules), "json")
    elif output == "text":
        rows = [(each.id, each.level, "" if each.configurable else "fixed", each.summary) for each in rules]
        print_table(("RULE", "LEVEL", "", "SUMMARY"), rows)
    else:
        raise click.UsageError(f"--rules: the output {output} has no form for rules; accepted are text, json")


class _LintRun:
    """One run: reads everything, then checks."""

    def __init__(self, settings: AdmissionSettings, flags: _LintFlags) -> None:
        self._settings, self._flags = settings, flags
        self._context = AdmissionContext(settings, lambda: _NO_ID)
        # A newer Karmada than that of the table has stored an unknown field.
        levels = {UNKNOWN_FIELD: Level.WARN, **settings.levels}
        self._stored = AdmissionContext(replace(settings, levels=levels), lambda: _NO_ID)
        self._across = Across(flags.namespace)
        self._findings: list[sources.LintFinding] = []
        self._skipped: list[sources.Skipped] = []
        self._objects = self._checked = 0

    def add_fleet(self) -> None:
        """Read the clusters of the fleet. Nothing else in these files is checked."""
        for found in sources.scan(self._flags.fleet_paths):
            if isinstance(found, sources.SourceObject):
                self._across.add_cluster(found)
            elif isinstance(found, sources.LintFinding):
                self._findings.append(found)

    def add_live(self) -> None:
        """Check the policies of a control plane, and know its clusters."""
        from berthmaster_cli.live.collections import ReadLimits  # noqa: PLC0415 - files need no client
        from berthmaster_cli.live.source import reading  # noqa: PLC0415 - the same

        with reading(self._flags.access(), ReadLimits(timeout_s=self._flags.read_timeout_s)) as live:
            live.read_policies()
        complain_about(live.gaps)
        for document in live.documents:
            found = sources.SourceObject(document.source, 0, "", document.raw, LineFinder(b""))
            if (group_of(document.api_version), document.kind) in CLUSTER_KINDS:
                self._across.add_cluster(found)
            else:
                self._objects += 1
                self._check(found, self._stored)

    def report(self, paths: Sequence[str]) -> LintReport:
        """Read and check files and folders, and return all findings."""
        known, folders = self._objects, self._flags.kustomizations
        for found in sources.scan(paths, folders, only_policies=self._flags.only_policies):
            match found:
                case sources.SourceObject():
                    self._objects += 1
                    self._check(found, self._context)
                case sources.Skipped():
                    self._skip(found)
                case sources.LintFinding():
                    self._findings.append(found)
        given = (*paths, *map(source_of, folders))
        nothing = self._objects == known and not (self._findings or self._skipped or self._flags.only_policies)
        if given and nothing:
            message = "there is no object in the input"
            self._findings.append(sources.unreadable(source=given[0], line=1, message=message))
        for about, problem in self._across.problems():
            level = across_level(problem.rule, self._settings)
            if level is not Level.OFF:
                self._findings.append(finding(about, "error" if level is Level.DENY else "warning", problem))
        return LintReport(findings=self._findings, skipped=self._skipped, objects=self._objects, checked=self._checked)

    def _check(self, found: sources.SourceObject, context: AdmissionContext) -> None:
        linted = lint(found.raw, context, self._flags.namespace)
        if linted is None:
            self._across.add(found)
            self._check_head(found)
            return
        if sources.is_template(found.raw):
            self._skip(sources.Skipped(found.source, found.line(""), sources.TEMPLATE))
            return
        self._checked += 1
        self._across.add(found)
        for level, problems in (("error", linted.errors), ("warning", linted.warnings)):
            self._findings.extend(finding(found, level, problem) for problem in problems)

    def _check_head(self, found: sources.SourceObject) -> None:
        """Check the head of an object that lint does not review. A stored one can come from a newer version."""
        for error in () if found.metadata.get("uid") else head_errors(found.raw):
            problem = FieldProblem(error.path, ABSENT, error.fault, error.remedy)
            self._findings.append(finding(found, "error", problem))

    def _skip(self, what: sources.Skipped) -> None:
        if self._flags.strict_files:
            self._findings.append(sources.unreadable(source=what.source, line=what.line, message=what.reason))
        else:
            self._skipped.append(what)
