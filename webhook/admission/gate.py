"""The gate: whether a change above the blast radius is refused.

A user accepts a plan by its id. The id stands for the change and its effect: if the effect is another one by now, the
id is another one, and the change is refused again.
"""

from collections.abc import Collection
from typing import Final

from webhook.admission.blast_radius import RULE
from webhook.admission.impact import GateDecision, GateResult, Impact, NotComputed, PolicyChange
from webhook.admission.impact_messages import summary
from webhook.admission.outcome import ABSENT, FieldProblem
from webhook.admission.settings import AdmissionSettings, Level
from webhook.admission.wire import UserInfo

ACCEPT_PLAN: Final = "policy.berthmaster.io/accept-plan"
"""The annotation with the id of a plan that the user accepts."""
ACCEPT_PATH: Final = f"metadata.annotations[{ACCEPT_PLAN}]"


def decide(
    change: PolicyChange,
    answer: Impact | NotComputed,
    accepted: str | None,
    user: UserInfo,
    settings: AdmissionSettings,
) -> GateDecision | None:
    """Decide on a change. None if the gate is off.

    Args:
        change: the change.
        answer: its impact.
        accepted: the id of the plan that the user accepts; None without one.
        user: the user who sent the change.
        settings: the level of the gate, its limits, and who is exempt.
    """
    level = settings.levels.get(RULE, Level.OFF)
    if level is Level.OFF:
        return None
    if isinstance(answer, NotComputed):
        return GateDecision(GateResult.UNKNOWN, change, message=answer.reason)
    exceeded = list(settings.blast_radius.exceeded(answer))
    if not exceeded:
        return GateDecision(GateResult.WITHIN, change, answer.plan)
    over = "; ".join(exceeded)
    if accepted == answer.plan:
        return GateDecision(GateResult.ACCEPTED, change, answer.plan, f"the user accepted the plan: {over}")
    if level is Level.WARN:
        return GateDecision(GateResult.WARNED, change, answer.plan, over)
    if _is_exempt(user, settings.exempt_users, settings.exempt_groups):
        return GateDecision(GateResult.EXEMPT, change, answer.plan, f"{user.username} is exempt: {over}")
    return GateDecision(GateResult.REFUSED, change, answer.plan, over)


def _is_exempt(user: UserInfo, users: Collection[str], groups: Collection[str]) -> bool:
    return user.username in users or any(group in groups for group in user.groups)


def refusal(decision: GateDecision, impact: Impact, accepted: str | None) -> FieldProblem:
    """Return why a change is refused and what to do.

    Args:
        decision: the decision to refuse it.
        impact: its impact.
        accepted: the id of the plan that the user accepts; None without one.
    """
    stale = (
        f"the annotation accepts plan {accepted}, but the plan is now {impact.plan}; " if accepted is not None else ""
    )
    details = "; ".join((summary(impact), *impact.worst))
    return FieldProblem(
        ACCEPT_PATH, ABSENT, f"{stale}{decision.message}; {details}", _remedy(decision.change, impact.plan), RULE
    )


def _remedy(change: PolicyChange, plan: str) -> str:
    if not change.deletes:
        return f"to accept this plan, apply again with the annotation {ACCEPT_PLAN}: {plan}"
    namespace = f" -n {change.namespace}" if change.namespace else ""
    command = f"kubectl annotate {change.kind.lower()} {change.name}{namespace} {ACCEPT_PLAN}={plan}"
    return f"to accept this plan, run `{command}`, then delete again"
