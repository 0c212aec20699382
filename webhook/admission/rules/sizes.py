"""The rule about the size of policies."""

from collections.abc import Iterable, Iterator
from typing import Final

from berthmaster.model.errors import FieldError
from berthmaster.model.placement_limits import PlacementLimits, policy_excess
from berthmaster.model.policy import PropagationSpec
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.rules.rule import AdmissionRule, ReviewedPolicy
from webhook.admission.settings import Level

TOO_LARGE: Final = "too-large"
TOO_LARGE_SUMMARY: Final = "More groups, weights, selectors or names than are scheduled."


def has_long_list(spec: PropagationSpec, limits: PlacementLimits) -> bool:
    """Return whether a list whose entries get defaults is too long. A quick check before the rule."""
    constraints = len(spec.placement.spread_constraints)
    return len(spec.resource_selectors) > limits.resource_selectors or constraints > limits.spread_constraints


def size_problems(errors: Iterable[FieldError]) -> Iterator[FieldProblem]:
    yield from (FieldProblem(each.path, ABSENT, each.fault, each.remedy) for each in errors)


def _too_large(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    return size_problems(policy_excess(reviewed.policy, reviewed.settings.limits))


SIZE_RULES: Final = (AdmissionRule(TOO_LARGE, TOO_LARGE_SUMMARY, _too_large, default=Level.DENY),)
