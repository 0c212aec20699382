"""What the doctor found, for a person: what is wrong first, each with its remedy, then the rest in a few lines."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from berthmaster_cli.doctor.finding import Finding, Verdict
from berthmaster_cli.doctor.judge.everything import GROUPS

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


def print_findings(console: Console, findings: Sequence[Finding], *, verbose: bool = False) -> None:
    """For people; what is well in one line for each part, unless they want all of it."""
    for finding in in_order(findings):
        if finding.verdict is Verdict.OK and not verbose:
            continue
        _line(console, finding.verdict, f"{finding.check}: {finding.told}")
        if finding.remedy:
            # Not wrapped: a command that is cut in lines cannot be copied.
            console.print(f"{'':<{_WIDTH}} -> {escape(finding.remedy)}", soft_wrap=True)
    if not verbose:
        for group in GROUPS:
            fine = [each.name for each in findings if each.verdict is Verdict.OK and each.group == group]
            if fine:
                _line(console, Verdict.OK, f"{group}: {', '.join(dict.fromkeys(fine))}")
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts(findings).items() if count)
    console.print(f"{len(findings)} checks: {said}")


def _line(console: Console, verdict: Verdict, text: str) -> None:
    console.print(f"[{_STYLES[verdict]}]{verdict.value:<{_WIDTH}}[/] {escape(text)}", soft_wrap=True)
