"""The review of a change: its impact as warnings, the gate, and the annotation by which a user accepts a plan.

An API server calls this review in the mutating phase, because only that phase can drop the annotation from what is
stored. A validating review comes later and would not see the annotation any more. The API server calls the review
once, after the defaults are set (``reinvocationPolicy: Never``): a second call would miss the annotation, too.

A deletion has no object, so the acceptance of a deletion is stored first, by an update that changes only the
annotation. Such an update keeps the annotation if it accepts the plan of the deletion.

Whether an update changes the spec of an object, apart from defaults.

The gate: whether a change above the blast radius is refused.

A user accepts a plan by its id. The id stands for the change and its effect: if the effect is another one by now, the
id is another one, and the change is refused again.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.impact import (
    MAX_LINES,
    RULE,
    GateDecision,
    GateResult,
    ImpactSource,
    NotComputed,
    PolicyImpact,
    ReviewedChange,
    audit,
    line,
    not_computed,
    summary,
    warnings,
)
from webhook.admission.json_patch import Draft, PatchTooLargeError
from webhook.admission.karmada_defaults import apply_defaults
from webhook.admission.lenient_policy import read
from webhook.admission.review_outcome import ALLOWED, ReviewOutcome
from webhook.admission.settings import AdmissionSettings, Level
from webhook.admission.wire import AdmissionRequest, UserInfo

_GENERATED_NAME: Final = "generated"


def review_impact(request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Review the impact of a change of one of Karmada's policies.

    Raises:
        FieldError: a value of the policy has the wrong type.
    """
    source = context.impact
    if source is None:
        return ALLOWED
    if request.operation == "DELETE":
        accepted = _annotation(request.old_object)
        change = _change(request, None, accepted)
        return _outcome(request, context, change, source.impact(change), accepted)
    document = request.object or {}
    read(document)
    if spec_is_unchanged(request, partial(apply_defaults, namespace=request.namespace)):
        return _annotated(request, source)
    accepted = _annotation(document)
    change = _change(request, document, accepted)
    return _outcome(request, context, change, source.impact(change), accepted)


def _outcome(
    request: AdmissionRequest,
    context: AdmissionContext,
    change: ReviewedChange,
    answer: PolicyImpact | NotComputed,
    accepted: str | None,
) -> ReviewOutcome:
    gate = decide(change, answer, accepted, request.user_info, context.settings)
    texts = [not_computed(answer)] if isinstance(answer, NotComputed) else [*warnings(answer, deletes=change.deletes)]
    denials: tuple[FieldProblem, ...] = ()
    if gate is not None and gate.result in {GateResult.REFUSED, GateResult.UNJUDGED}:
        denials = (refusal(gate, answer, accepted),)
    elif gate is not None and (note := _note(gate)):
        kept = texts[:-1] if isinstance(answer, PolicyImpact) else texts
        texts = [*kept[: MAX_LINES - 1], line(note)]
    draft = Draft(request.object or {})
    if not change.deletes and accepted is not None:
        draft.remove("metadata", "annotations", ACCEPT_PLAN)
    records = audit(answer) | ({"blast-radius": gate.result.value} if gate is not None else {})
    return ReviewOutcome(
        denials=denials, warnings=tuple(texts), patch=draft.operations, mutated=draft.document, audit=records, gate=gate
    )  # fmt: skip


def _note(gate: GateDecision) -> str:
    """Return the line about the gate. It replaces the last line of the impact and so repeats the id."""
    match gate.result:
        case GateResult.WARNED:
            return f"{_plan(gate)} is over the blast radius: {gate.message}"
        case GateResult.EXEMPT | GateResult.ACCEPTED:
            return f"{_plan(gate)} passes the blast radius: {gate.message}"
        case GateResult.UNKNOWN:
            return "the gate blast-radius let the change pass, because its impact is not known"
    return ""


def _plan(gate: GateDecision) -> str:
    return f"plan {gate.plan}" if gate.plan else "the change"


def _annotated(request: AdmissionRequest, source: ImpactSource) -> ReviewOutcome:
    """Review an update that changes no spec. It may accept the deletion of the policy."""
    accepted = _annotation(request.object)
    if accepted is None or accepted == _annotation(request.old_object):
        return ALLOWED
    answer = source.impact(_change(request, None, accepted))
    if isinstance(answer, PolicyImpact) and answer.planned and answer.plan == accepted:
        return ReviewOutcome(warnings=(line(f"plan {accepted} is accepted: it is the deletion of this policy"),))
    draft = Draft(request.object or {})
    draft.remove("metadata", "annotations", ACCEPT_PLAN)
    reason = "it is not the id of the deletion of this policy"
    if isinstance(answer, NotComputed):
        reason = answer.reason
    elif not answer.planned:
        reason = "the plan of the deletion is not known yet; annotate the policy again in a few seconds"
    text = line(f"annotation {ACCEPT_PLAN} is removed: {reason}")
    return ReviewOutcome(warnings=(text,), patch=draft.operations, mutated=draft.document)


def _change(request: AdmissionRequest, document: dict[str, Any] | None, accepted: str | None) -> ReviewedChange:
    metadata = (document or request.old_object or {}).get("metadata") or {}
    name = request.name or metadata.get("name") or f"{metadata.get('generateName') or ''}{_GENERATED_NAME}"
    namespace = request.namespace if request.kind.kind == "PropagationPolicy" else ""
    return ReviewedChange(
        request.kind.kind,
        namespace,
        str(name),
        document,
        creates=request.operation == "CREATE",
        author=request.user_info.username,
        dry_run=bool(request.dry_run),
        accepts=accepted is not None,
    )


def _annotation(document: dict[str, Any] | None) -> str | None:
    """Return the id of the plan that an object accepts; None without one."""
    metadata = (document or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    found = annotations.get(ACCEPT_PLAN) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) else None


ACCEPT_PLAN: Final = "policy.berthmaster.io/accept-plan"
"""The annotation with the id of a plan that the user accepts."""
ACCEPT_PATH: Final = f"metadata.annotations[{ACCEPT_PLAN}]"


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
        named = (
            f"{change.namespace}/{change.kind}/{change.name}" if change.namespace else f"{change.kind}/{change.name}"
        )
        find = f"run `berthmaster plan --delete {named}` for the id of the plan"
        return f"to accept the plan, {find}, then `{command}`, then delete again"
    return f"to accept this plan, run `{command}`, then delete again"


_UNKNOWN: Final = "the impact of this change is not known"
_WHEN_REACHABLE: Final = "try again when the extender answers; users who are exempt can write the change now"


Complete = Callable[[Draft], None]


def spec_is_unchanged(request: AdmissionRequest, complete: Complete) -> bool:
    """Return whether a request is an update that does not change the spec.

    Args:
        complete: applies the same defaults to the stored object, which may be older than they are. The shape of both
            objects has been checked.
    """
    new, old = request.object or {}, request.old_object
    if request.operation != "UPDATE" or old is None:
        return False
    if new.get("spec") == old.get("spec"):
        return True
    try:
        return bool(_completed_spec(new, complete) == _completed_spec(old, complete))
    except PatchTooLargeError:
        return False  # the mutating webhook denies such an update


def _completed_spec(raw: dict[str, Any], complete: Complete) -> Any:  # noqa: ANN401 - any JSON value
    draft = Draft(raw)
    complete(draft)
    return draft.get("spec")
