"""The gate: whether a change above the blast radius is refused.

A user accepts a plan by its id. The id stands for the change and its effect: if the effect is another one by now, the
id is another one, and the change is refused again.
"""

from collections.abc import Collection
from typing import Final

from berthmaster.model.meta import object_name
from webhook.admission.blast_radius import RULE
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.gate_decision import GateDecision, GateResult
from webhook.admission.impact import NotComputed, PolicyImpact, ReviewedChange
from webhook.admission.impact_texts import summary
from webhook.admission.settings import AdmissionSettings, Level
from webhook.admission.wire import UserInfo

ACCEPT_PLAN: Final = "policy.berthmaster.io/accept-plan"
"""The annotation with the id of a plan that the user accepts."""
ACCEPT_PATH: Final = f"metadata.annotations[{ACCEPT_PLAN}]"
_UNKNOWN: Final = "the impact of this change is not known"
_WHEN_REACHABLE: Final = "try again when the extender answers; users who are exempt can write the change now"


def decide(
    change: ReviewedChange,
    answer: PolicyImpact | NotComputed,
    accepted: str | None,
    user: UserInfo,
    settings: AdmissionSettings,
) -> GateDecision | None:
    """Decide on a change. None if the gate is off."""
    level = settings.levels.get(RULE, Level.OFF)
    if level is Level.OFF:
        return None
    exceeded = [] if isinstance(answer, NotComputed) else list(settings.blast_radius.exceeded(answer))
    exempt = _is_exempt(user, settings.exempt_users, settings.exempt_groups)
    if isinstance(answer, NotComputed) or not (exceeded or answer.planned):
        return _not_judged(change, answer, user, settings, exempt=exempt)
    if not exceeded:
        return GateDecision(GateResult.WITHIN, change, answer.plan)
    over = "; ".join(exceeded) if answer.planned else f"at least {'; at least '.join(exceeded)}"
    if answer.planned and accepted == answer.plan:
        return GateDecision(GateResult.ACCEPTED, change, answer.plan, f"the user accepted the plan: {over}")
    if level is Level.WARN:
        return GateDecision(GateResult.WARNED, change, answer.plan, over)
    if exempt:
        return GateDecision(GateResult.EXEMPT, change, answer.plan, f"{user.username} is exempt: {over}")
    return GateDecision(GateResult.REFUSED, change, answer.plan, over)


def _not_judged(
    change: ReviewedChange,
    answer: PolicyImpact | NotComputed,
    user: UserInfo,
    settings: AdmissionSettings,
    *,
    exempt: bool,
) -> GateDecision:
    """Decide on a change that is within the limits as far as it is known."""
    unreachable = isinstance(answer, NotComputed) and answer.unreachable
    reason = answer.reason if isinstance(answer, NotComputed) else "the time was too short to plan the whole change"
    level = settings.unreachable if unreachable else settings.unjudged
    if level is not Level.DENY or settings.levels.get(RULE) is not Level.DENY:
        return GateDecision(GateResult.UNKNOWN, change, message=reason)
    if exempt:
        return GateDecision(GateResult.EXEMPT, change, message=f"{user.username} is exempt: {reason}")
    return GateDecision(GateResult.UNJUDGED, change, message=reason)


def _is_exempt(user: UserInfo, users: Collection[str], groups: Collection[str]) -> bool:
    return user.username in users or any(group in groups for group in user.groups)


def refusal(decision: GateDecision, answer: PolicyImpact | NotComputed, accepted: str | None) -> FieldProblem:
    """Return why a change is refused and what to do."""
    change = decision.change
    if isinstance(answer, NotComputed):
        remedy = _WHEN_REACHABLE if answer.unreachable else _again(change, _remedy(change, ""))
        return FieldProblem(ACCEPT_PATH, ABSENT, f"{_UNKNOWN}: {answer.reason}", remedy, RULE)
    details = "; ".join((summary(answer), *answer.worst))
    problem = decision.message if decision.result is GateResult.REFUSED else f"{_UNKNOWN}: {decision.message}"
    remedy = _remedy(change, answer.plan)
    if not answer.planned and accepted is not None:
        problem = (
            f"the plan is not known yet, so that it cannot be compared with the accepted plan {accepted}; {problem}"
        )
    elif accepted is not None:
        problem = f"the annotation accepts plan {accepted}, but the plan is now {answer.plan}; {problem}"
    if answer.planning:
        remedy = _again(change, remedy)
    return FieldProblem(ACCEPT_PATH, ABSENT, f"{problem}; {details}", remedy, RULE)


def _again(change: ReviewedChange, otherwise: str) -> str:
    verb = "delete" if change.deletes else "apply"
    return f"{verb} again in a few seconds; or {otherwise}"


def _remedy(change: ReviewedChange, plan: str) -> str:
    """Return how to accept a plan. An empty plan has an id that is not known here."""
    if not change.deletes:
        if not plan:
            lazy = " --lazy-counts" if change.is_lazy else ""
            find = f"run `berthmaster plan -f FILE{lazy}` for the id of the plan"
            return f"to accept the plan, {find}, and apply again with the annotation {ACCEPT_PLAN}: ID"
        return f"to accept this plan, apply again with the annotation {ACCEPT_PLAN}: {plan}"
    namespace = f" -n {change.namespace}" if change.namespace else ""
    command = f"kubectl annotate {change.kind.lower()} {change.name}{namespace} {ACCEPT_PLAN}={plan or 'ID'}"
    if not plan:
        named = object_name(change.namespace, change.kind, change.name)
        find = f"run `berthmaster plan --delete {named}` for the id of the plan"
        return f"to accept the plan, {find}, then `{command}`, then delete again"
    return f"to accept this plan, run `{command}`, then delete again"
