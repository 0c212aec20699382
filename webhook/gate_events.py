"""Events on policies about decisions of the gate."""

from typing import Final

from berthmaster.kube.events import EventContent, EventType, Recorder, Reference
from webhook.admission.gate_decision import GateDecision, GateResult
from webhook.admission.wire import RequestHead
from webhook.notes import verb_of

CONTROLLER: Final = "berthmaster.io/webhook"
_API_VERSION: Final = "policy.karmada.io/v1alpha1"
_EVENTS: Final[dict[GateResult, tuple[EventType, str]]] = {
    GateResult.REFUSED: ("Warning", "BlastRadiusExceeded"),
    GateResult.UNJUDGED: ("Warning", "BlastRadiusNotJudged"),
    GateResult.EXEMPT: ("Warning", "BlastRadiusExempted"),
    GateResult.ACCEPTED: ("Normal", "PlanAccepted"),
}


def record_gate_event(recorder: Recorder, decision: GateDecision, request: RequestHead) -> None:
    """Record an event about a decision of the gate, if it deserves one."""
    if decision.result not in _EVENTS:
        return
    kind, reason = _EVENTS[decision.result]
    change = decision.change
    about = Reference(_API_VERSION, change.kind, change.namespace, change.name)
    plan = f", plan {decision.plan}" if decision.plan else ""
    note = f"{verb_of(request)} by {request.user_info.username}{plan}: {decision.message}"
    recorder.record(EventContent(about, kind, reason, "Admission", note))
