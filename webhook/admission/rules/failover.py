"""Rules about failover."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.failover_behavior import FORMER_PURGE_MODES
from webhook.admission.field_problem import FieldProblem
from webhook.admission.releases import accepts_former_purge_modes
from webhook.admission.rules.rule import ReviewedPolicy, rule

PURGE_MODE: Final = "purge-mode-removed"


@rule(PURGE_MODE, "A purge mode by a name that Karmada 1.19 has removed.")
def _former_name(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    failover = reviewed.policy.spec.failover
    application = failover.application if failover is not None else None
    if application is None or application.purge_mode not in FORMER_PURGE_MODES:
        return
    if accepts_former_purge_modes(reviewed.settings.karmada):
        return
    today = FORMER_PURGE_MODES[application.purge_mode]
    yield FieldProblem(
        "spec.failover.application.purgeMode", application.purge_mode,
        f"Karmada 1.19 has removed this name of {today}", f"write {today} if Karmada is 1.15 or newer",
    )  # fmt: skip


FAILOVER_RULES: Final = (_former_name,)
