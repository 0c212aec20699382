"""The rule about the size of policies. If it denies a policy, no other rule runs."""

from collections.abc import Iterable, Iterator
from typing import Final

from berthmaster.model.errors import FieldError
from berthmaster.model.policy import PropagationSpec
from berthmaster.model.validation import PlacementLimits, kubeadmiral_excess, policy_excess
from webhook.admission.outcome import ABSENT, FieldProblem
from webhook.admission.rules.rule import AdmissionRule, ReviewedKubeAdmiralSpec, ReviewedPolicy
from webhook.admission.settings import Level

TOO_LARGE: Final = "too-large"
_SUMMARY: Final = "More groups, weights, selectors or names than are scheduled."


def has_long_list(spec: PropagationSpec, limits: PlacementLimits) -> bool:
    """Return whether a list whose entries get defaults is too long. A quick check before the rule."""
    constraints = len(spec.placement.spread_constraints)
    return len(spec.resource_selectors) > limits.resource_selectors or constraints > limits.spread_constraints


def _policy(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    return _problems(policy_excess(reviewed.policy, reviewed.settings.limits))


def _kubeadmiral(reviewed: ReviewedKubeAdmiralSpec) -> Iterator[FieldProblem]:
    return _problems(kubeadmiral_excess(reviewed.spec, reviewed.settings.limits))


def _problems(errors: Iterable[FieldError]) -> Iterator[FieldProblem]:
    yield from (FieldProblem(each.path, ABSENT, each.fault, each.remedy) for each in errors)


SIZE_RULES: Final = (AdmissionRule(TOO_LARGE, _SUMMARY, _policy, default=Level.DENY),)
KUBEADMIRAL_SIZE_RULE: Final = AdmissionRule(TOO_LARGE, _SUMMARY, _kubeadmiral, default=Level.DENY)
"""The same rule for KubeAdmiral's policies. It is not in the catalog twice."""
