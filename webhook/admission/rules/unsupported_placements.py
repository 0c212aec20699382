"""Rules about the fields of a placement that this version does not know."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.placement import Placement
from berthmaster.model.policy_defaults import DEFAULT_SCHEDULER
from berthmaster.model.unknown_fields import has_unknown_fields, unknown_fields
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.rules.rule import ReviewedPolicy, rule
from webhook.admission.settings import Level


@rule(
    "unsupported-placement",
    "A placement field that this version does not know, in a policy of our scheduler.",
    default=Level.DENY,
)
def _held(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    if _is_own(reviewed):
        yield from _problems(
            reviewed,
            "this version does not know the field; our scheduler holds the workloads unless --unknown-fields=ignore",
            "remove it, name another scheduler, or upgrade Berthmaster",
        )


@rule("placement-field-unknown", "A placement field that this version does not know, in a policy of another scheduler.")
def _of_others(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    if not _is_own(reviewed):
        yield from _problems(
            reviewed,
            "this version of Berthmaster does not know the field and has not checked it",
            "do not hand the policy to Berthmaster's scheduler before an upgrade",
        )


UNSUPPORTED_RULES: Final = (_held, _of_others)


def _is_own(reviewed: ReviewedPolicy) -> bool:
    return (reviewed.policy.spec.scheduler_name or DEFAULT_SCHEDULER) in reviewed.settings.scheduler_names


def _problems(reviewed: ReviewedPolicy, fault: str, remedy: str) -> Iterator[FieldProblem]:
    placement = reviewed.placement
    if has_unknown_fields(Placement, placement):
        for each in unknown_fields(Placement, placement):
            yield FieldProblem(each.below("spec.placement").path, ABSENT, fault, remedy)
