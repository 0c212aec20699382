"""Judges webhooks: whether ours are registered once with matching settings, and what they do to dry-run policies."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from berthmaster.model.foreign_texts import call_failure, denying_webhook, failed_webhook, reason_of_denial
from berthmaster_cli.doctor.facts import DeploymentFacts, DryRunFacts, Facts, Setup, Unobserved, WebhookFacts
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning
from berthmaster_cli.doctor.judge.certificates import diagnosis_of
from webhook.admission.reviews import IMPACT_PATHS, ROUTES

SHORTEST_S: Final = 2.0
"""A shorter timeout leaves no time for a new connection to a busy machine."""
LONGEST_S: Final = 10.0
"""A longer timeout delays every write to a policy while the webhook is unavailable."""
MARGIN_S: Final = 1.0
"""What the slowest dry run should leave of timeoutSeconds, though it includes two calls, one for each configuration."""
_GROUPS: Final = frozenset({"policy.karmada.io", "apps.karmada.io"})
WANTED: Final = {path: route for path, route in ROUTES.items() if route.group in _GROUPS and path not in IMPACT_PATHS}
"""The reviews that every release registers. Those of impacts are optional, and must never refuse a policy."""
_PLURALS: Final = {
    "PropagationPolicy": "propagationpolicies", "ClusterPropagationPolicy": "clusterpropagationpolicies",
    "WorkloadRebalancer": "workloadrebalancers",
}  # fmt: skip
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_PERMANENT_ID: Final = "propagationpolicy.karmada.io/permanent-id"
_RULE: Final = "preemption-without-namespace"
_DRY_RUN: Final = "admission/trial"


def registration(facts: Facts) -> Iterator[Finding]:
    """Judge the webhook configurations."""
    setup = facts.setup
    if facts.webhooks is None:
        return
    if isinstance(facts.webhooks, Unobserved):
        remedy = f"Run as a user who may list them: {setup.target} auth can-i list mutatingwebhookconfigurations"
        message = f"webhook configurations cannot be read: {facts.webhooks.problem}"
        yield skipped("registration/present", message, remedy)
        return
    ours = [webhook for webhook in facts.webhooks if webhook.ours]
    if not ours:
        remedy = f"Register it: {setup.upgrade} --set webhook.enabled=true --set registration.enabled=true"
        yield failed("registration/present", "no webhook of Berthmaster is registered", remedy)
        return
    yield _coverage(ours, setup)
    yield from _copies(ours, setup)
    yield _urls(ours, setup)
    yield _failure_policy(ours, setup)
    yield _timeouts(ours, setup)
    yield from _request_timeout(ours, facts.known_deployments, setup)


def _coverage(ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    covered = {(webhook.path, resource) for webhook in ours for resource in webhook.resources}
    missing = [path for path, route in WANTED.items() if (path, f"{_PLURALS[route.kind]}.{route.group}") not in covered]
    if missing:
        message = f"the API server does not call the webhook for {', '.join(missing)}"
        return warning("registration/present", message, f"Register the webhooks of this release: {setup.upgrade}")
    return ok("registration/present", f"{len(ours)} webhooks of Berthmaster are registered")


def _copies(ours: Sequence[WebhookFacts], setup: Setup) -> Iterator[Finding]:
    """Two releases review each policy twice. When one is removed, its configuration denies everything."""
    by_review = defaultdict(list)
    for webhook in ours:
        for resource in webhook.resources:
            by_review[webhook.kind, resource, webhook.path in IMPACT_PATHS].append(webhook)
    copies = next((webhooks for webhooks in by_review.values() if len(webhooks) > 1), None)
    if copies is None:
        return
    surplus = next((webhook for webhook in copies if webhook.configuration != setup.release), copies[-1])
    message = f"{_list(webhook.full_name for webhook in copies)} review the same objects"
    delete = f"{setup.target} delete {surplus.kind} {surplus.configuration}"
    yield failed("registration/once", message, f"Delete the configuration that belongs to no release: {delete}")


def _urls(ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    check = "registration/url"
    invalid = next((webhook for webhook in ours if webhook.endpoint is None), None)
    if invalid is not None:
        message = f"{invalid.full_name} has no valid URL: {invalid.url!r}"
        return failed(check, message, f"Register the webhooks of this release: {setup.upgrade}")
    if any(webhook.is_service for webhook in ours) and not setup.single:
        message = "the webhooks are registered by Service, and the target API server has no such Service"
        return failed(check, message, f"Register them by URL: {setup.upgrade} --set registration.clientConfig=url")
    return ok(check, f"the API server calls {_list(webhook.endpoint.host for webhook in ours if webhook.endpoint)}")


def _failure_policy(ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    check = "registration/failure-policy"
    opened = [webhook.name for webhook in ours if not webhook.fails_closed and webhook.path not in IMPACT_PATHS]
    if opened:
        message = f"policies are not reviewed while the webhook is unavailable: {_list(opened)}"
        remedy = f"Set it to Fail once the webhook responds: {setup.upgrade} --set webhook.failurePolicy=Fail"
        return warning(check, message, remedy)
    return ok(check, "policies are refused while the webhook is unavailable")


def _timeouts(ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    check = "registration/timeout"
    shortest, longest = min(webhook.timeout_s for webhook in ours), max(webhook.timeout_s for webhook in ours)
    remedy = f"Set it to 3: {setup.upgrade} --set webhook.timeoutSeconds=3"
    if shortest < SHORTEST_S:
        return warning(check, f"timeoutSeconds is {shortest:g}, too short for a busy machine", remedy)
    if longest > LONGEST_S:
        message = f"timeoutSeconds is {longest:g}, which delays writes while the webhook is unavailable"
        return warning(check, message, remedy)
    return ok(check, f"timeoutSeconds is {shortest:g}")


def _request_timeout(
    ours: Sequence[WebhookFacts], deployments: Sequence[DeploymentFacts], setup: Setup
) -> Iterator[Finding]:
    """The webhook must time out before the API server does, or its error message is lost."""
    timeout_s = min(webhook.timeout_s for webhook in ours)
    for deployment in deployments:
        own_s = _number(deployment.option("request-timeout-s", "2.5"))
        if deployment.component == "webhook" and own_s is not None and own_s >= timeout_s:
            message = (
                f"{deployment.name} takes up to {own_s:g} s for a review, and the API server waits {timeout_s:g} s"
            )
            remedy = f"Set a lower value: {setup.upgrade} --set webhook.requestTimeoutSeconds={timeout_s - 0.5:g}"
            yield failed("registration/request-timeout", message, remedy)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _list(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def admission(facts: Facts) -> Iterator[Finding]:
    """Judge the dry run of a good policy, then that of a policy that breaks a rule."""
    dry_run, webhooks = facts.dry_run, facts.known_webhooks
    if dry_run is None or facts.webhooks is None:
        return
    if isinstance(dry_run, Unobserved):
        remedy = f"Find out what keeps the API server busy: {facts.setup.target} get --raw /readyz?verbose"
        yield failed(_DRY_RUN, f"a dry-run policy got no response: {dry_run.problem}", remedy)
        return
    if dry_run.policy is None:
        yield _refused(dry_run, webhooks, facts.setup)
        return
    ours = [webhook for webhook in webhooks if webhook.ours]
    yield _duration(dry_run, ours, facts.setup)
    if ours:
        yield _defaults(dry_run.policy, ours, facts.setup)
        yield _permanent_id(dry_run.policy, facts.setup)
        if dry_run.bad_tried:
            yield _rules(dry_run, ours, facts.setup)


def _refused(dry_run: DryRunFacts, webhooks: Sequence[WebhookFacts], setup: Setup) -> Finding:
    problem = dry_run.problem
    if name := failed_webhook(problem):
        return _call_failed(name, problem, webhooks, setup)
    if name := denying_webhook(problem):
        remedy = f"Find out why {name} denies it, or choose another namespace with --trial-namespace"
        return failed(_DRY_RUN, f"{name} denies a plain policy: {_reason(problem)}", remedy)
    if dry_run.status == _FORBIDDEN:
        remedy = f"Run as a user who may create policies: {setup.target} auth can-i create propagationpolicies"
        return skipped(_DRY_RUN, "this user may not create policies, not even as a dry run", remedy)
    if dry_run.status == _NOT_FOUND:
        remedy = "Install Karmada's definitions (see definitions), or choose a namespace with --trial-namespace"
        return skipped(
            _DRY_RUN, "no policy can be tried: the API server has no such kind, or no such namespace", remedy
        )
    remedy = f"Create a policy by hand and read the whole response: {setup.target} create --dry-run=server -f POLICY"
    return failed(_DRY_RUN, f"the API server refuses a dry-run policy: {_reason(problem)}", remedy)


def _call_failed(name: str, problem: str, webhooks: Sequence[WebhookFacts], setup: Setup) -> Finding:
    # If the configurations cannot be read, the URL is the one that the chart sets.
    unread = WebhookFacts("", "", name, f"https://{setup.release}-webhook.{setup.namespace}.svc:443/")
    webhook = next((each for each in webhooks if each.name == name), unread)
    if webhook.ours:
        failure = diagnosis_of(call_failure(problem), webhook, setup)
        return failed(f"{_DRY_RUN}-{failure.name}", f"{failure.message}, so policies are refused", failure.remedy)
    remedy = f"Repair that webhook, or remove its configuration: {setup.target} get mutatingwebhookconfigurations"
    message = f"the API server cannot call another webhook, {name}, so policies are refused"
    return failed(_DRY_RUN, message, remedy)


def _duration(dry_run: DryRunFacts, ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    slowest_s = max(dry_run.took_s)
    message = f"a dry-run policy passes in {_ms(min(dry_run.took_s))} to {_ms(slowest_s)}"
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
        remedy = (
            "Choose a namespace whose policies are reviewed with --trial-namespace, or widen webhook.namespaceSelector"
        )
        return warning(check, f"policies in {setup.trial_namespace} get no defaults; selectors may exclude it", remedy)
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


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _reason(problem: str) -> str:
    """The reason at the end of a refusal, shortened."""
    text = reason_of_denial(problem)
    return text if len(text) <= 160 else f"{text[:159]}…"
