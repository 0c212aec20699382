"""Judges what the webhook does to dry-run policies: defaults, the permanent id, rules, and how long it takes."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from berthmaster.model.foreign_texts import call_failure, denying_webhook, failed_webhook, reason_of_denial
from berthmaster_cli.doctor.facts import DryRunFacts, Facts, Setup, Unobserved, WebhookFacts
from berthmaster_cli.doctor.findings import Finding, failed, ok, skipped, warning
from berthmaster_cli.doctor.judge.call_failures import diagnosis_of

MARGIN_S: Final = 1.0
"""What the slowest dry run should leave of timeoutSeconds, though it includes two calls, one for each configuration."""
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_PERMANENT_ID: Final = "propagationpolicy.karmada.io/permanent-id"
_RULE: Final = "preemption-without-namespace"
_DRY_RUN: Final = "admission/trial"


def admission(facts: Facts) -> Iterator[Finding]:
    """Judge the dry run of a good policy, then that of a policy that breaks a rule."""
    dry_run, ours = facts.dry_run, facts.ours
    if dry_run is None or facts.webhooks is None:
        return
    if isinstance(dry_run, Unobserved):
        remedy = f"Find out what keeps the API server busy: {facts.setup.target} get --raw /readyz?verbose"
        yield failed(_DRY_RUN, f"a dry-run policy got no response: {dry_run.problem}", remedy)
        return
    if dry_run.policy is None:
        yield _refused(dry_run, ours, facts.setup)
        return
    yield _duration(dry_run, ours, facts.setup)
    if ours:
        yield _defaults(dry_run.policy, ours, facts.setup)
        yield _permanent_id(dry_run.policy, facts.setup)
        if dry_run.bad_tried:
            yield _rules(dry_run, ours, facts.setup)


def _refused(dry_run: DryRunFacts, ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    problem = dry_run.problem
    if name := failed_webhook(problem):
        # If the configurations cannot be read, the URL is the one that the chart sets.
        unread = WebhookFacts("", "", name, f"https://{setup.release}-webhook.{setup.namespace}.svc:443/")
        webhook = next((each for each in ours if each.name == name), unread)
        if webhook.ours:
            failure = diagnosis_of(call_failure(problem), webhook, setup)
            return failed(f"{_DRY_RUN}-{failure.name}", f"{failure.message}, so policies are refused", failure.remedy)
        remedy = f"Repair that webhook, or remove its configuration: {setup.target} get mutatingwebhookconfigurations"
        message = f"the API server cannot call another webhook, {name}, so policies are refused"
        return failed(_DRY_RUN, message, remedy)
    if name := denying_webhook(problem):
        remedy = f"Find out why {name} denies it, or choose another namespace with --trial-namespace"
        return failed(_DRY_RUN, f"{name} denies a plain policy: {_reason(problem)}", remedy)
    if dry_run.status == _FORBIDDEN:
        remedy = f"Run as a user who may create policies: {setup.target} auth can-i create propagationpolicies"
        return skipped(_DRY_RUN, "this user may not create policies, not even as a dry run", remedy)
    if dry_run.status == _NOT_FOUND:
        message = "no policy can be tried: the API server has no such kind, or no such namespace"
        remedy = "See the findings of definitions, or choose a namespace with --trial-namespace"
        return skipped(_DRY_RUN, message, remedy)
    remedy = f"Create a policy by hand and read the whole response: {setup.target} create --dry-run=server -f POLICY"
    return failed(_DRY_RUN, f"the API server refuses a dry-run policy: {_reason(problem)}", remedy)


def _duration(dry_run: DryRunFacts, ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    slowest_s = max(dry_run.took_s)
    message = f"a dry-run policy passes in {min(dry_run.took_s) * 1000:.0f} ms to {slowest_s * 1000:.0f} ms"
    limit_s = min((webhook.timeout_s for webhook in ours), default=None)
    if limit_s is not None and slowest_s > limit_s - MARGIN_S:
        upgrade = f"{setup.upgrade} --set webhook.timeoutSeconds={slowest_s + 2:.0f}"
        remedy = f"Give the webhook more CPU or a longer timeout: {upgrade}"
        return warning(f"{_DRY_RUN}-time", f"{message}, and the API server waits at most {limit_s:g} s", remedy)
    return ok(_DRY_RUN, message)


def _defaults(policy: Any, ours: Sequence[WebhookFacts], setup: Setup) -> Finding:  # noqa: ANN401 - JSON
    check = "admission/defaults"
    spec = policy.get("spec") or {}
    constraint = ((spec.get("placement") or {}).get("spreadConstraints") or [{}])[0]
    has_constraint = constraint.get("spreadByField") == "cluster" and constraint.get("minGroups") == 1
    if has_constraint and spec.get("preemption") == "Never" and spec.get("priority") == 0:
        return ok(check, "the webhook sets defaults")
    if any(webhook.narrowed for webhook in ours):
        choose = "Choose a namespace whose policies are reviewed with --trial-namespace"
        message = f"policies in {setup.trial_namespace} get no defaults; selectors may exclude it"
        return warning(check, message, f"{choose}, or widen webhook.namespaceSelector")
    remedy = f"Check whether the API server calls the webhook: {setup.in_release} logs deploy/{setup.release}-webhook"
    message = "policies are stored without defaults: the API server does not call the webhook, or it is unavailable"
    return failed(check, message, remedy)


def _permanent_id(policy: Any, setup: Setup) -> Finding:  # noqa: ANN401 - JSON
    """Judge the label by which Karmada's controllers identify policies. One webhook has to set it."""
    check = "admission/permanent-id"
    if (policy.get("metadata", {}).get("labels") or {}).get(_PERMANENT_ID):
        return ok(check, "policies get their permanent id")
    remedy = (
        "Run karmada-webhook too, or let Berthmaster replace it: "
        f"helm upgrade {setup.release} charts/berthmaster --reset-then-reuse-values --set webhook.mode=standalone"
    )
    return failed(check, "policies do not get the permanent id that Karmada's controllers need", remedy)


def _rules(dry_run: DryRunFacts, ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    check = "admission/rules"
    name = denying_webhook(dry_run.bad_problem)
    if name in {webhook.name for webhook in ours}:
        return ok(check, "a policy that breaks a rule is denied")
    if any(_RULE in each for each in dry_run.bad_warnings):
        return ok(check, "a policy that breaks a rule gets a warning")
    if dry_run.bad_problem:
        reason = _reason(dry_run.bad_problem)
        message = f"{name or 'the API server'} denies the policy that breaks a rule before Berthmaster does: {reason}"
        return warning(check, message, f"Find out why: {setup.target} get validatingwebhookconfigurations")
    remedy = f"Enable the rule again unless it is off on purpose: webhook.rules.{_RULE} in the chart's values"
    return warning(check, f"a policy that breaks the rule {_RULE} is accepted", remedy)


def _reason(problem: str) -> str:
    """The reason at the end of a refusal, shortened."""
    text = reason_of_denial(problem)
    return text if len(text) <= 160 else f"{text[:159]}…"
