"""The reviews of KubeAdmiral's policies."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from berthmaster.model.decode import convert, decode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral.limits import kubeadmiral_excess
from berthmaster.model.kubeadmiral.policies import KubeAdmiralPolicy, KubeAdmiralSpec
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import FieldProblem, bounded
from webhook.admission.json_patch import Draft
from webhook.admission.kubeadmiral.policies import KUBEADMIRAL_RULES, apply_defaults, check_spec
from webhook.admission.policy_group import PolicyGroup
from webhook.admission.review_outcome import ReviewOutcome
from webhook.admission.reviews import outcome_of, spec_of
from webhook.admission.rules.rule import AdmissionRule
from webhook.admission.rules.sizes import TOO_LARGE, TOO_LARGE_SUMMARY, size_problems
from webhook.admission.settings import AdmissionSettings, Level
from webhook.admission.wire import AdmissionRequest, UnreadRequest


class ReviewedKubeAdmiralSpec(NamedTuple):
    """The subject of the rule about the size of KubeAdmiral's policies."""

    spec: KubeAdmiralSpec
    settings: AdmissionSettings


def mutate(request: AdmissionRequest, _context: AdmissionContext) -> ReviewOutcome:
    """Apply the defaults of a KubeAdmiral policy."""
    draft = Draft(request.object or {})
    spec_of(KubeAdmiralSpec, draft.document)
    apply_defaults(draft)
    return ReviewOutcome(patch=draft.operations, mutated=draft.document)


def validate(request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Run the checks and the rules on a KubeAdmiral policy."""
    spec = spec_of(KubeAdmiralSpec, request.object or {})
    if request.operation == "UPDATE":
        spec_of(KubeAdmiralSpec, request.old_object or {})  # `outcome_of` applies the defaults to the stored object too
    size = context.enabled(_SIZE_RULES).run(ReviewedKubeAdmiralSpec(spec, context.settings))
    if size.denials:
        return outcome_of(size.denials, (), request, apply_defaults)
    found = size.joined(context.enabled(KUBEADMIRAL_RULES).run(spec))
    refused = bounded(check_spec(spec))
    return outcome_of((*refused, *found.denials), found.warnings, request, apply_defaults)


def _too_large(reviewed: ReviewedKubeAdmiralSpec) -> Iterator[FieldProblem]:
    return size_problems(kubeadmiral_excess(reviewed.spec, reviewed.settings.limits))


_SIZE_RULES: Final = (AdmissionRule(TOO_LARGE, TOO_LARGE_SUMMARY, _too_large, default=Level.DENY),)
"""The rule that Karmada's policies have, too. It is not in the catalog twice."""


def _excess(_request: UnreadRequest, spec: bytes, context: AdmissionContext) -> tuple[FieldProblem, ...]:
    if spec == b"null":
        return ()
    try:
        decoded = decode_json(KubeAdmiralSpec, spec)
    except FieldError as error:
        raise error.below("spec") from None
    return context.enabled(_SIZE_RULES).run(ReviewedKubeAdmiralSpec(decoded, context.settings)).denials


def _named_clusters(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        policy = convert(KubeAdmiralPolicy, raw)
    except FieldError:
        return
    for index, entry in enumerate(policy.spec.placement or ()):
        yield f"spec.placement[{index}].cluster", entry.cluster


KUBEADMIRAL_POLICIES: Final = PolicyGroup("core.kubeadmiral.io", _excess, _named_clusters)
