"""What users and the audit log read about an impact.

API servers cut warnings at 256 characters and drop all after 4,096 in total. kubectl prints one warning a line, so a
line is short enough for a terminal.
"""

from typing import Final

from berthmaster.model.errors import printable
from webhook.admission.impact import NotComputed, PolicyImpact

MAX_LINES: Final = 5
MAX_LENGTH: Final = 120
_PARTIAL: Final = "the change was not planned in full; `berthmaster plan` shows everything"


def warnings(impact: PolicyImpact, *, deletes: bool = False) -> tuple[str, ...]:
    """Return at most ``MAX_LINES`` lines of at most ``MAX_LENGTH`` characters: totals, the worst, the plan id.

    ``deletes``: whether the policy is deleted. A stored one that concerns no workload selects nothing, or too late.
    """
    first = [summary(impact)]
    if not deletes and impact.planned and impact.complete and not impact.concerned:
        first.append("the policy selects no workload that is known, or other policies hold all that it selects")
    if not impact.complete and (impact.planned or impact.gaps):
        gap = impact.gaps[0] if impact.gaps else "the cause is not known"
        more = f" (and {len(impact.gaps) - 1} more)" if len(impact.gaps) > 1 else ""
        first.append(f"not everything is known{more}: {gap}")
    last = [f"plan {impact.plan}" if impact.planned else _PARTIAL]
    room = MAX_LINES - len(first) - len(last)
    return tuple(line(each) for each in (*first, *impact.worst[:room], *last))


def not_computed(unanswered: NotComputed) -> str:
    """Return the warning for an impact that is not known."""
    return line(f"impact not computed: {unanswered.reason}")


def summary(impact: PolicyImpact) -> str:
    """Return the totals as a sentence. Incomplete totals are lower bounds, and the sentence says so."""
    assumed = "; if preemption is on" if impact.assumes_preemption else ""
    assumed += "; when their templates change" if impact.lazy and impact.moved else ""
    at_least = "" if impact.complete else "at least "
    if not impact.moved and not impact.lost and not impact.short:
        nothing = "no workload moves" if impact.complete else "at least 0 workloads move"
        return f"{nothing}: the change concerns {at_least}{impact.concerned} of {impact.workloads}{assumed}"
    verb = "moves" if impact.moved == 1 and impact.workloads == 1 else "move"
    noun = "workload" if impact.workloads == 1 else "workloads"
    replicas = "1 replica" if impact.replicas == 1 else f"{impact.replicas} replicas"
    parts = [f"{at_least}{impact.moved} of {impact.workloads} {noun} {verb}, {replicas}"]
    if impact.lost:
        parts.append(f"{impact.lost} would have no place")
    if impact.short:
        parts.append(f"{impact.short} would lack replicas")
    return "; ".join(parts) + assumed


def audit(answer: PolicyImpact | NotComputed) -> dict[str, str]:
    """Return the annotations for the API server's audit log."""
    if isinstance(answer, NotComputed):
        return {"impact": "not computed", "impact-reason": answer.reason}
    names = ("plan", "workloads", "concerned", "moved", "replicas", "lost", "short", "deleted")
    return {"impact": answer.extent, **{f"impact-{name}": str(getattr(answer, name)) for name in names}}


def line(text: str) -> str:
    """Return text as one line of at most ``MAX_LENGTH`` printable characters."""
    text = printable(" ".join(text.split()))
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 3]}..."
