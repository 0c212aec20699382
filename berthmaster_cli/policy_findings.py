"""What the rules of the webhook find in stored policies, for services that must not import the webhook."""

from collections.abc import Callable, Sequence

from berthmaster.model.decode import builtins
from berthmaster.model.policy import DEFAULT_NAMESPACE, Policy
from berthmaster.model.unsupported import PLACEMENT, unsupported_message, unsupported_parts
from berthmaster.model.validation import PlacementLimits
from berthmaster.views.policy_rows import PolicyFinding
from webhook.admission.outcome import FieldProblem
from webhook.admission.reviews import lint
from webhook.admission.rule_catalog import AdmissionContext
from webhook.admission.settings import AdmissionSettings

_UNSUPPORTED = "unsupported-placement"


def policy_findings(limits: PlacementLimits) -> Callable[[Policy], Sequence[PolicyFinding]]:
    """Return a pure function that says what the rules find in a stored policy, at their default levels."""
    context = AdmissionContext(AdmissionSettings(peer_checks=True, limits=limits), lambda: "")

    def findings(policy: Policy) -> list[PolicyFinding]:
        parts = unsupported_parts(policy.spec.placement)
        if parts:
            return [PolicyFinding(_UNSUPPORTED, "error", PLACEMENT, unsupported_message(parts))]
        linted = lint(builtins(policy), context, policy.metadata.namespace or DEFAULT_NAMESPACE)
        if linted is None:
            return []
        found = (("error", linted.errors), ("warning", linted.warnings))
        return [_finding(severity, each) for severity, problems in found for each in problems]

    return findings


def _finding(severity: str, problem: FieldProblem) -> PolicyFinding:
    return PolicyFinding(problem.rule or "invalid", severity, problem.path, problem.detail)
