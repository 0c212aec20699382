"""What the ledger records about reviews: refusals, accepted plans and exemptions."""

from typing import Any, Final

from berthmaster.model.errors import printable
from berthmaster.model.note import Note, NoteKind
from berthmaster.model.policy import POLICY_KINDS
from webhook.admission.gate_decision import GateResult
from webhook.admission.review_outcome import ReviewOutcome
from webhook.admission.wire import RequestHead

_MAX_FIELDS: Final = 20
_MAX_MESSAGE: Final = 2048
_PASSED: Final[dict[GateResult, NoteKind]] = {
    GateResult.ACCEPTED: "plan-accepted",
    GateResult.EXEMPT: "exemption",
}
_VERBS: Final = {"CREATE": "creation", "UPDATE": "update", "DELETE": "deletion"}


def verb_of(request: RequestHead) -> str:
    return _VERBS.get(request.operation, request.operation.lower())


def note_of(request: RequestHead, outcome: ReviewOutcome) -> Note | None:
    """Return the record of a review; None for a review that is not recorded, such as a dry run.

    The record names the fields of a refused object and what is wrong with them. It has no other part of the object.
    """
    gate = outcome.gate
    if request.dry_run or outcome.malformed:
        return None
    if not outcome.allowed:
        what: NoteKind = "refusal"
        message = "; ".join(f"{each.field}: {each.fault}" for each in outcome.denials[:_MAX_FIELDS])
    elif gate is not None and gate.result in _PASSED:
        what, message = _PASSED[gate.result], gate.message
    else:
        return None
    kind, namespace, name = request.kind.kind, request.namespace, request.name
    policy = f"{kind} {'/'.join(filter(None, (namespace, name)))}" if kind in POLICY_KINDS and name else ""
    text = printable(f"{verb_of(request)} by {request.user_info.username}: {message}", _MAX_MESSAGE)
    return Note(what, text, namespace, name, kind, policy, details=_details(request, outcome))


def _details(request: RequestHead, outcome: ReviewOutcome) -> dict[str, Any]:
    details: dict[str, Any] = {
        "uid": request.uid,
        "operation": request.operation,
        "username": request.user_info.username,
        "fields": [each.field for each in outcome.denials][:_MAX_FIELDS],
        "rules": sorted({each.rule for each in outcome.denials if each.rule}),
    }
    if outcome.gate is not None:
        details |= {"gate": outcome.gate.result.value, "plan": outcome.gate.plan}
    return details
