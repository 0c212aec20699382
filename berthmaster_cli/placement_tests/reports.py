"""The results of placement tests as text with diffs, JSON, JUnit, SARIF and annotations of GitHub."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

import msgspec

from berthmaster.views.texts import count_text
from berthmaster_cli.lint.sarif import sarif_log
from berthmaster_cli.lint.sources import LintFinding
from berthmaster_cli.output import annotate, echo, print_json, print_line, print_page, styled
from berthmaster_cli.placement_tests.files import API_VERSION, INVALID_TEST, WrittenTest
from berthmaster_cli.placement_tests.running import CheckedTest, Mismatch, TestVerdict

FORMATS: Final = ("text", "json", "junit", "sarif", "github")
REPORT_KIND: Final = "PlacementTestReport"
_FAILED: Final = "placement-test"
_RULES: Final = {
    _FAILED: "A placement test expects what the plan does not have.",
    INVALID_TEST: "A file of a placement test is wrong.",
    "unreadable": "A file or document that cannot be read.",
}
_REASONS: Final = 5
"""How many reasons the text of a difference has."""


class ReportedDifference(msgspec.Struct, frozen=True, rename="camel"):
    """A difference in JSON. ``about``: the workload or the policy that the expectation names."""

    path: str
    line: int
    about: str
    expected: Any
    found: Any
    workloads: list[str]
    reasons: list[str]


class ReportedTest(msgspec.Struct, frozen=True, rename="camel"):
    """A test in JSON. ``plan``: the id of its plan, as ``berthmaster plan`` has it; empty if a file is wrong."""

    name: str
    source: str
    line: int
    result: TestVerdict
    plan: str
    moves: int
    differences: list[ReportedDifference]
    problems: list[LintFinding]


class ReportSummary(msgspec.Struct, frozen=True, rename="camel"):
    """How many tests ended in which way. ``problems`` counts those of files, which can have no test."""

    tests: int
    passed: int
    failed: int
    invalid: int
    problems: int


class PlacementTestReport(msgspec.Struct, frozen=True, rename="camel"):
    """The results of a run in JSON."""

    api_version: str
    kind: str
    summary: ReportSummary
    tests: list[ReportedTest]
    problems: list[LintFinding]


def write(results: Sequence[CheckedTest], problems: Sequence[LintFinding], output: str) -> None:
    """Print results in one of ``FORMATS``. ``problems``: those of files whose tests did not run."""
    match output:
        case "json":
            print_json(report_of(results, problems))
        case "junit":
            print_page(_junit(results, problems))
        case "sarif":
            print_json(sarif_log([*_findings(results), *problems], _RULES, successful=not problems))
        case "github":
            for each in (*_findings(results), *problems):
                about = f"{each.rule} ({each.object})" if each.object else each.rule
                annotate(each.level, each.source, each.line, about, _message(each))
            echo(_summary_text(results, problems))
        case _:
            _write_text(results, problems)


def report_of(results: Sequence[CheckedTest], problems: Sequence[LintFinding]) -> PlacementTestReport:
    """Return results as a value for programs."""
    tests = [
        ReportedTest(
            each.file.name, each.file.found.source, each.file.found.line("metadata.name"), each.verdict,
            each.plan.id if each.plan is not None else "", each.plan.summary.moved if each.plan is not None else 0,
            [_reported(each.file, mismatch) for mismatch in each.mismatches], each.problems,
        )
        for each in results
    ]  # fmt: skip
    return PlacementTestReport(API_VERSION, REPORT_KIND, _summary(results, problems), tests, list(problems))


def _reported(test: WrittenTest, mismatch: Mismatch) -> ReportedDifference:
    found = mismatch.difference
    return ReportedDifference(
        mismatch.path, test.found.line(mismatch.path), mismatch.about,
        found.expected, found.found, found.workloads, mismatch.reasons,
    )  # fmt: skip


def _summary(results: Sequence[CheckedTest], problems: Sequence[LintFinding]) -> ReportSummary:
    passed, failed, invalid = (sum(each.verdict is verdict for each in results) for verdict in TestVerdict)
    return ReportSummary(len(results), passed, failed, invalid, len(problems))


def _summary_text(results: Sequence[CheckedTest], problems: Sequence[LintFinding]) -> str:
    found = _summary(results, problems)
    parts = [f"{found.passed} passed", f"{found.failed} failed"]
    parts += [f"{found.invalid} invalid"] if found.invalid else []
    parts += [f"{count_text(found.problems, 'problem')} of files"] if problems else []
    return f"{count_text(found.tests, 'test')}: {', '.join(parts)}"


def _write_text(results: Sequence[CheckedTest], problems: Sequence[LintFinding]) -> None:
    for each in results:
        _write_result(each)
    for problem in problems:
        _write_problem(problem)
    print_line(_summary_text(results, problems))


def _write_result(result: CheckedTest) -> None:
    place = f"  ({result.file.found.source}:{result.file.found.line('metadata.name')})"
    match result.verdict:
        case TestVerdict.PASSED:
            print_line(styled("PASS", "green"), f"  {result.file.name}", styled(place, "dim"))
        case TestVerdict.FAILED:
            print_line(styled("FAIL", "bold red"), f"  {result.file.name}", styled(place, "dim"))
            for entry, mismatches in groupby(result.mismatches, attrgetter("entry")):
                _write_mismatches(result.file, entry, list(mismatches))
        case TestVerdict.INVALID:
            print_line(styled("ERROR", "bold red"), f" {result.file.name}", styled(place, "dim"))
            for problem in result.problems:
                _write_problem(problem)


def _write_problem(problem: LintFinding) -> None:
    print_line(f"{problem.source}:{problem.line}: error: {_message(problem)}")


def _write_mismatches(test: WrittenTest, entry: str, mismatches: Sequence[Mismatch]) -> None:
    """Print how the plan differs from one expectation, as a diff: what the file has, and what the plan has."""
    place = f"{test.found.source}:{test.found.line(entry)}: {entry or 'plan'}"
    print_line(styled(f"  {place}", "dim"), f"  {mismatches[0].about}")
    for each in mismatches:
        found = each.difference
        print_line(styled(f"    - {found.field}: {value_text(found.expected)}", "red"))
        print_line(styled(f"    + {found.field}: {value_text(found.found)}", "green"))
    why = dict.fromkeys(reason for each in mismatches for reason in each.reasons or each.difference.workloads)
    for reason in _first(list(why)):
        print_line(f"      {reason}")


def _first(reasons: Sequence[str]) -> Iterator[str]:
    yield from reasons[:_REASONS]
    if len(reasons) > _REASONS:
        yield f"and {len(reasons) - _REASONS} more"


def value_text(value: Any) -> str:  # noqa: ANN401 - a JSON value
    """Return a value as one line of YAML, as people write it in a test."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return f"{{{', '.join(f'{key}: {value_text(each)}' for key, each in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(value_text, value))}]"
        case "":
            return '""'
    return str(value)


def _findings(results: Sequence[CheckedTest]) -> Iterator[LintFinding]:
    """Yield each difference and each problem of tests as a finding of its line."""
    for result in results:
        test = result.file
        yield from result.problems
        for mismatch in result.mismatches:
            found = mismatch.difference
            why = "; ".join(_first(mismatch.reasons))
            message = f"expected {value_text(found.expected)}, found {value_text(found.found)}"
            yield LintFinding(
                level="error",
                rule=_FAILED,
                source=test.found.source,
                document=test.found.number,
                line=test.found.line(mismatch.path),
                object=test.name,
                path=mismatch.path,
                message=f"{mismatch.about}: {message}{f': {why}' if why else ''}",
            )


def _message(finding: LintFinding) -> str:
    return f"{finding.path}: {finding.message}" if finding.path else finding.message


def _junit(results: Sequence[CheckedTest], problems: Sequence[LintFinding]) -> Iterator[str]:
    """Yield the lines of a JUnit report: a suite for each file, and a case for each test."""
    found = _summary(results, problems)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        f'<testsuites name="berthmaster test" tests="{found.tests + found.problems}" failures="{found.failed}" '
        f'errors="{found.invalid + found.problems}">'
    )
    for source in dict.fromkeys([*(each.file.found.source for each in results), *(each.source for each in problems)]):
        here = [each for each in results if each.file.found.source == source]
        wrong = [each for each in problems if each.source == source]
        errors = len(wrong) + sum(each.verdict is TestVerdict.INVALID for each in here)
        failures = sum(each.verdict is TestVerdict.FAILED for each in here)
        yield (
            f'  <testsuite name={quoteattr(source)} tests="{len(here) + len(wrong)}" failures="{failures}" '
            f'errors="{errors}">'
        )
        for each in here:
            yield from _case(each.file.name, source, each)
        for problem in wrong:
            yield f"    <testcase name={quoteattr(problem.path or 'file')} classname={quoteattr(source)}>"
            yield f"      {_element('error', problem)}"
            yield "    </testcase>"
        yield "  </testsuite>"
    yield "</testsuites>"


def _case(name: str, source: str, result: CheckedTest) -> Iterator[str]:
    opened = f"    <testcase name={quoteattr(name)} classname={quoteattr(source)}"
    if result.verdict is TestVerdict.PASSED:
        yield f"{opened}/>"
        return
    yield f"{opened}>"
    tag = "failure" if result.verdict is TestVerdict.FAILED else "error"
    for finding in _findings([result]):
        yield f"      {_element(tag, finding)}"
    yield "    </testcase>"


def _element(tag: str, finding: LintFinding) -> str:
    message = _message(finding)
    return f"<{tag} message={quoteattr(message)}>{escape(f'{finding.source}:{finding.line}: {message}')}</{tag}>"
