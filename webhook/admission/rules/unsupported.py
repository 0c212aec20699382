"""Rules about fields of a placement that this version does not know.

An API server drops fields that its CRDs do not have. A field that arrives here is one of a newer Karmada.
"""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.decode import has_unknown_fields, unknown_fields
from berthmaster.model.policy import DEFAULT_SCHEDULER, Placement
from webhook.admission.outcome import ABSENT, FieldProblem
from webhook.admission.rules.rule import AdmissionRule, ReviewedPolicy
from webhook.admission.settings import Level


def _held(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    if _is_own(reviewed):
        yield from _problems(
            reviewed,
            "this version does not know the field; our scheduler holds the workloads unless --unknown-fields=ignore",
            "remove it, name another scheduler, or upgrade Berthmaster",
        )


def _of_others(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    if not _is_own(reviewed):
        yield from _problems(
            reviewed,
            "this version of Berthmaster does not know the field and has not checked it",
            "do not hand the policy to Berthmaster's scheduler before an upgrade",
        )


def _is_own(reviewed: ReviewedPolicy) -> bool:
    return (reviewed.policy.spec.scheduler_name or DEFAULT_SCHEDULER) in reviewed.settings.scheduler_names


def _problems(reviewed: ReviewedPolicy, fault: str, remedy: str) -> Iterator[FieldProblem]:
    placement = reviewed.placement
    if has_unknown_fields(Placement, placement):
        for each in unknown_fields(Placement, placement):
            yield FieldProblem(each.below("spec.placement").path, ABSENT, fault, remedy)


UNSUPPORTED_RULES: Final = (
    AdmissionRule(
        "unsupported-placement", "A placement field that this version does not know, in a policy of our scheduler.",
        _held, default=Level.DENY,
    ),
    AdmissionRule(
        "placement-field-unknown",
        "A placement field that this version does not know, in a policy of another scheduler.", _of_others,
    ),
)  # fmt: skip
UNSUPPORTED_IDS: Final = frozenset(rule.id for rule in UNSUPPORTED_RULES)
