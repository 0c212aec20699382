"""The reviews of KubeAdmiral's kinds, each a function of a request."""

from typing import Any

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral import KubeAdmiralSpec
from webhook.admission import ratchet
from webhook.admission.context import Context
from webhook.admission.kubeadmiral.checks import check_spec
from webhook.admission.kubeadmiral.defaulting import apply_defaults
from webhook.admission.outcome import Outcome
from webhook.admission.patch import Draft
from webhook.admission.review import Request


def mutate_policy(request: Request, _context: Context) -> Outcome:
    """Default a policy."""
    draft = Draft(request.object or {})
    _spec(draft.document)
    apply_defaults(draft)
    return Outcome(patch=draft.operations, mutated=draft.document)


def validate_policy(request: Request, context: Context) -> Outcome:
    """Check a policy, and run the rules."""
    spec = _spec(request.object or {})
    if request.operation == "UPDATE":
        _spec(request.old_object or {})  # has to be readable, too
    found = context.kubeadmiral_rules.run(spec)
    return ratchet.outcome((*check_spec(spec), *found.denials), found.warnings, request, apply_defaults)


def _spec(raw: dict[str, Any]) -> KubeAdmiralSpec:
    try:
        return convert(KubeAdmiralSpec, {} if raw.get("spec") is None else raw["spec"])
    except FieldError as error:
        raise error.below("spec") from None
