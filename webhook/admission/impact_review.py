"""The review of a change: its impact as warnings, the gate, and the annotation by which a user accepts a plan.

An API server calls this review in the mutating phase, because only that phase can drop the annotation from what is
stored. A validating review comes later and would not see the annotation any more. The API server calls the review
once, after the defaults are set (``reinvocationPolicy: Never``): a second call would miss the annotation, too.

A deletion has no object, so the acceptance of a deletion is stored first, by an update that changes only the
annotation. Such an update keeps the annotation if it accepts the plan of the deletion.
"""

from functools import partial
from typing import Any, Final

from berthmaster.model.decode import mapping_of
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import FieldProblem
from webhook.admission.gate import ACCEPT_PLAN, decide, refusal
from webhook.admission.gate_decision import GateDecision, GateResult
from webhook.admission.impact import ImpactSource, NotComputed, PolicyImpact, ReviewedChange
from webhook.admission.impact_texts import MAX_LINES, audit, line, not_computed, warnings
from webhook.admission.json_patch import Draft
from webhook.admission.karmada_defaults import apply_defaults
from webhook.admission.lenient_policy import read
from webhook.admission.review_outcome import ALLOWED, ReviewOutcome
from webhook.admission.spec_changes import spec_is_unchanged
from webhook.admission.wire import AdmissionRequest

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
    found = mapping_of(mapping_of((document or {}).get("metadata")).get("annotations")).get(ACCEPT_PLAN)
    return found if isinstance(found, str) else None
