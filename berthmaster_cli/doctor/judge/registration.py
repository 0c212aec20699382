"""Judges webhook configurations: what they cover, how they name the webhook, and for how long a call may take."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berthmaster_cli.doctor.facts import Facts, Setup, Unobserved, WebhookFacts
from berthmaster_cli.doctor.findings import Finding, failed, ok, skipped, warning
from webhook.admission.catalog import IMPACT_PATHS, ROUTES

SHORTEST_S: Final = 2.0
"""A shorter timeout leaves no time for a new connection to a busy machine."""
LONGEST_S: Final = 10.0
"""A longer timeout delays every write to a policy while the webhook is unavailable."""
_GROUPS: Final = frozenset({"policy.karmada.io", "apps.karmada.io"})
WANTED: Final = {path: route for path, route in ROUTES.items() if route.group in _GROUPS and path not in IMPACT_PATHS}
"""The reviews that every release registers. Those of impacts are optional, and must never refuse a policy."""
_PLURALS: Final = {
    "PropagationPolicy": "propagationpolicies", "ClusterPropagationPolicy": "clusterpropagationpolicies",
    "WorkloadRebalancer": "workloadrebalancers",
}  # fmt: skip


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
    ours = facts.ours
    if not ours:
        remedy = f"Register it: {setup.upgrade} --set webhook.enabled=true --set registration.enabled=true"
        yield failed("registration/present", "no webhook of Berthmaster is registered", remedy)
        return
    yield _coverage(ours, setup)
    yield from _copies(ours, setup)
    yield _urls(ours, setup)
    yield _failure_policy(ours, setup)
    yield from _timeouts(ours, facts)


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


def _timeouts(ours: Sequence[WebhookFacts], facts: Facts) -> Iterator[Finding]:
    check, upgrade = "registration/timeout", facts.setup.upgrade
    shortest, longest = min(webhook.timeout_s for webhook in ours), max(webhook.timeout_s for webhook in ours)
    remedy = f"Set it to 3: {upgrade} --set webhook.timeoutSeconds=3"
    if shortest < SHORTEST_S:
        yield warning(check, f"timeoutSeconds is {shortest:g}, too short for a busy machine", remedy)
    elif longest > LONGEST_S:
        message = f"timeoutSeconds is {longest:g}, which delays writes while the webhook is unavailable"
        yield warning(check, message, remedy)
    else:
        yield ok(check, f"timeoutSeconds is {shortest:g}")
    for deployment in facts.running("webhook"):
        own_s = _number(deployment.option("request-timeout-s", "2.5"))
        # The webhook must time out before the API server does, or its error message is lost.
        if own_s is not None and own_s >= shortest:
            own = f"{deployment.name} takes up to {own_s:g} s for a review"
            remedy = f"Set a lower value: {upgrade} --set webhook.requestTimeoutSeconds={shortest - 0.5:g}"
            yield failed("registration/request-timeout", f"{own}, and the API server waits {shortest:g} s", remedy)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _list(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
