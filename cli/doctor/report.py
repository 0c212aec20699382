"""What the doctor found, for a person: what is wrong first, each with its remedy, then the rest in a few lines."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from cli.doctor.finding import Finding, Verdict
from cli.doctor.judge.everything import GROUPS

_STYLES: Final = {
    Verdict.FAILED: "bold red", Verdict.WARNING: "yellow", Verdict.SKIPPED: "dim", Verdict.OK: "green",
}  # fmt: skip
_ORDER: Final = tuple(Verdict)
_WIDTH: Final = 8


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """The worst first, and among equals in the order of the parts."""
    return sorted(findings, key=lambda each: (_ORDER.index(each.verdict), GROUPS.index(each.group)))


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many findings there are of each verdict."""
    return {verdict.value: sum(each.verdict is verdict for each in findings) for verdict in Verdict}


def as_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """For programs."""
    told = [
        {"group": each.group, "check": each.check, "verdict": each.verdict, "told": each.told, "remedy": each.remedy}
        for each in in_order(findings)
    ]
    return {"summary": counts(findings), "findings": told}


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """For people."""
    for finding in in_order(findings):
        style = _STYLES[finding.verdict]
        word = f"[{style}]{finding.verdict.value:<{_WIDTH}}[/]"
        console.print(f"{word} {finding.check}: {escape(finding.told)}", soft_wrap=True)
        if finding.remedy:
            console.print(Padding(f"-> {escape(finding.remedy)}", (0, 0, 0, _WIDTH + 1)), soft_wrap=True)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts(findings).items() if count)
    console.print(f"{len(findings)} checks: {said}")
