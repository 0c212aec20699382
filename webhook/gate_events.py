"""Events about the gate, which ``kubectl describe`` shows: refusals, exemptions and accepted plans."""

from typing import Final

from berthmaster.kube.events import EventContent, EventType, Recorder, Reference
from webhook.admission.impact import GateDecision, GateResult

CONTROLLER: Final = "berthmaster.io/webhook"
_API_VERSION: Final = "policy.karmada.io/v1alpha1"
_EVENTS: Final[dict[GateResult, tuple[EventType, str]]] = {
    GateResult.REFUSED: ("Warning", "BlastRadiusExceeded"),
    GateResult.UNJUDGED: ("Warning", "BlastRadiusNotJudged"),
    GateResult.EXEMPT: ("Warning", "BlastRadiusExempted"),
    GateResult.ACCEPTED: ("Normal", "PlanAccepted"),
}


def record(recorder: Recorder, decision: GateDecision, username: str, *, created: bool) -> None:
    """Record an event about a decision of the gate, if it deserves one."""
    if decision.result not in _EVENTS:
        return
    kind, reason = _EVENTS[decision.result]
    change = decision.change
    verb = "deletion" if change.deletes else "creation" if created else "update"
    about = Reference(_API_VERSION, change.kind, change.namespace, change.name)
    plan = f", plan {decision.plan}" if decision.plan else ""
    note = f"{verb} by {username}{plan}: {decision.message}"
    recorder.record(EventContent(about, kind, reason, "Admission", note))
