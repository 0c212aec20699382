"""The reviews of KubeAdmiral's kinds, each a function of a request."""

from typing import Any

from fleet.errors import FieldError
from fleet.model.decode import convert
from fleet.model.kubeadmiral import KubeAdmiralSpec
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
    found = context.kubeadmiral_rules.run(spec)
    return Outcome(denials=(*check_spec(spec), *found.denials), warnings=found.warnings)


def _spec(raw: dict[str, Any]) -> KubeAdmiralSpec:
    try:
        return convert(KubeAdmiralSpec, {} if raw.get("spec") is None else raw["spec"])
    except FieldError as error:
        raise error.below("spec") from None
