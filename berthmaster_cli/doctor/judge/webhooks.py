"""Judges webhooks and their certificates: registration, trust and validity, and what they do to dry-run policies."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from cryptography import x509

from berthmaster.model.foreign_texts import CallFailure, call_failure, denying_webhook, failed_webhook, reason_of_denial
from berthmaster_cli.doctor.facts import (
    DryRunFacts,
    EndpointFacts,
    Facts,
    Observed,
    SecretFacts,
    Setup,
    Unobserved,
    WebhookFacts,
)
from berthmaster_cli.doctor.findings import Finding, failed, ok, skipped, warning
from certs.bundle import issued_by, names_of
from certs.leaf import OVERDUE_AT, moment_of_life
from webhook.admission.reviews import IMPACT_PATHS, ROUTES


class CallDiagnosis(NamedTuple):
    """Why a webhook could not be called, and what to do."""

    name: str
    message: str
    remedy: str


_Texts: TypeAlias = Mapping[str, Mapping[str, str]]
_FAILURES: Final[_Texts] = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes())


def diagnosis_of(failure: CallFailure, webhook: WebhookFacts, setup: Setup) -> CallDiagnosis:
    """Return what to say about a failure."""
    host, texts = webhook.url.removeprefix("https://").partition("/")[0], _FAILURES[failure.name]
    remedy = texts["remedy"].format(bare=host.rpartition(":")[0] or host, setup=setup)
    return CallDiagnosis(failure.name.lower(), texts["message"].format(host=host), remedy)


SOON: Final = timedelta(days=7)
"""The least time that a person needs to react. Shorter-lived certificates are judged by their share of life only."""
_EXPIRED: Final = frozenset({9, 10})  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_NAMES: Final = frozenset({62, 63, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, and the same for e-mail and IP addresses


def certificates(facts: Facts) -> Iterator[Finding]:
    """Judge the bundles, the certificates that endpoints present, and the serving Secret."""
    ours = facts.ours
    if ours:
        yield _bundles(ours, facts)
        for endpoint in facts.endpoints:
            yield from _endpoint(endpoint, ours, facts)
        if facts.secret is not None:
            yield from _secret(facts.secret, ours, facts)


def _bundles(ours: Sequence[WebhookFacts], facts: Facts) -> Finding:
    check = "certificates/bundle"
    remedy = diagnosis_of(CallFailure.AUTHORITY, ours[0], facts.setup).remedy
    for webhook in ours:
        if not webhook.has_bundle:
            message = f"caBundle of {webhook.full_name} is empty, so the API server trusts public authorities only"
            return failed(check, message, remedy)
        if not len(webhook.bundle):
            return failed(check, f"caBundle of {webhook.full_name} contains no CA certificate", remedy)
    valid = [
        [each for each in webhook.bundle if each.not_valid_before_utc <= facts.now < _end(each)] for webhook in ours
    ]
    if not all(valid):
        return failed(check, "every authority in caBundle has expired or is not valid yet", remedy)
    last = min((max(bundle, key=_end) for bundle in valid), key=_end)
    left = _span_text(_end(last) - facts.now)
    if _is_overdue(last, facts.now):
        return warning(check, f"the authority in caBundle expires in {left} and has no successor", remedy)
    return ok(check, f"the API server trusts an authority that is valid for another {left}")


def _endpoint(endpoint: EndpointFacts, ours: Sequence[WebhookFacts], facts: Facts) -> Iterator[Finding]:
    """Judge what a client that trusts ``caBundle`` says, in the same words for every TLS library."""
    check, setup, leaf = "certificates/served", facts.setup, endpoint.leaf
    where = f"{endpoint.host}:{endpoint.port}"
    called = (each for each in ours if each.endpoint and each.endpoint[:2] == (endpoint.host, endpoint.port))
    webhook = next(called, ours[0])
    if endpoint.contact != "served":
        yield _unreached(endpoint, where, webhook, facts)
        return
    if leaf is None:
        remedy = diagnosis_of(CallFailure.EXPIRED, webhook, setup).remedy
        yield failed(check, f"{where} presents a certificate that cannot be read", remedy)
        return
    yield _validity("certificates/life", f"the certificate of {where}", leaf, webhook, facts)
    if not endpoint.verify_error:
        yield ok(check, f"caBundle trusts the certificate that {where} presents for that name")
        return
    cause, why = CallFailure.AUTHORITY, f" ({endpoint.verify_error})"
    if endpoint.verify_code in _NAMES:
        cause, why = CallFailure.NAMES, f"; it is valid for {', '.join(sorted(names_of(leaf))) or 'no name'}"
    elif endpoint.verify_code in _EXPIRED:
        cause = CallFailure.EXPIRED
    failure = diagnosis_of(cause, webhook, setup)
    yield failed(f"{check}-{failure.name}", f"{failure.message}{why}", failure.remedy)


def _unreached(endpoint: EndpointFacts, where: str, webhook: WebhookFacts, facts: Facts) -> Finding:
    """Judge an endpoint without a session. The dry run shows whether the API server can reach it."""
    check, setup = "certificates/served", facts.setup
    unresolved = endpoint.contact == "unresolved"
    why = "does not resolve" if unresolved else f"cannot be checked ({endpoint.problem})"
    message = f"{where} {why} from here"
    if _is_proven(facts.dry_run, facts.ours):
        return skipped(check, f"{message}; the API server reaches it")
    if unresolved:
        forward = f"{setup.in_release} port-forward service/{setup.release}-webhook 8443:443"
        return warning(check, message, f"Rely on admission/trial. To check from here, forward the port: {forward}")
    cause = call_failure(f"dial: {endpoint.problem}".lower())
    return failed(check, message, diagnosis_of(cause, webhook, setup).remedy)


def _secret(secret: Observed[SecretFacts], ours: Sequence[WebhookFacts], facts: Facts) -> Iterator[Finding]:
    check = "certificates/secret"
    if isinstance(secret, Unobserved):
        yield skipped(check, f"the serving Secret cannot be read: {secret.problem}")
        return
    renewal = diagnosis_of(CallFailure.EXPIRED, ours[0], facts.setup).remedy
    leaf, what = secret.leaf, f"the certificate in Secret {secret.name}"
    if leaf is None:
        yield failed(check, f"Secret {secret.name} contains no certificate", renewal)
        return
    if not secret.key_fits:
        yield failed(check, f"the key in Secret {secret.name} does not belong to its certificate", renewal)
        return
    yield _validity("certificates/secret-life", what, leaf, ours[0], facts)
    for webhook in ours:
        if len(webhook.bundle) and not any(issued_by(leaf, each) for each in webhook.bundle):
            message, cause = f"caBundle of {webhook.full_name} does not trust {what}", CallFailure.AUTHORITY
        elif webhook.endpoint and not _is_for(leaf, webhook.endpoint.host):
            names = ", ".join(sorted(names_of(leaf)))
            message, cause = f"{what} is valid for {names}, not for {webhook.endpoint.host}", CallFailure.NAMES
        else:
            continue
        yield failed(check, message, diagnosis_of(cause, webhook, facts.setup).remedy)
        return
    yield ok(check, f"caBundle trusts {what}, which names the hosts of all URLs")


def _validity(check: str, what: str, leaf: x509.Certificate, webhook: WebhookFacts, facts: Facts) -> Finding:
    left = _end(leaf) - facts.now
    remedy = diagnosis_of(CallFailure.EXPIRED, webhook, facts.setup).remedy
    if facts.now < leaf.not_valid_before_utc:
        return failed(check, f"{what} is not valid before {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC", remedy)
    if left <= timedelta(0):
        return failed(check, f"{what} expired {_span_text(-left)} ago", remedy)
    if _is_overdue(leaf, facts.now):
        return warning(check, f"{what} expires in {_span_text(left)} and was not renewed", remedy)
    return ok(check, f"{what} is valid for another {_span_text(left)}")


def _is_overdue(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether the certificate is overdue for replacement, or leaves a person little time to replace it."""
    long_lived = _end(certificate) - certificate.not_valid_before_utc > 4 * SOON
    return moment_of_life(certificate, OVERDUE_AT) <= now or (long_lived and _end(certificate) - now < SOON)


def _end(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc


def _is_proven(dry_run: Observed[DryRunFacts] | None, ours: Sequence[WebhookFacts]) -> bool:
    """Whether the dry run can have passed only because the API server reached the webhook."""
    if not isinstance(dry_run, DryRunFacts) or dry_run.policy is None:
        return False
    denied = denying_webhook(dry_run.bad_problem) in {webhook.name for webhook in ours}
    return denied or all(webhook.fails_closed and not webhook.narrowed for webhook in ours)


def _is_for(leaf: x509.Certificate, host: str) -> bool:
    """Whether a certificate names a host, literally or by a wildcard for the first label."""
    names = {each.lower() for each in names_of(leaf)}
    first, dot, rest = host.lower().partition(".")
    return host.lower() in names or bool(first and dot and f"*.{rest}" in names)


def _span_text(span: timedelta) -> str:
    hours = span.total_seconds() / 3600
    if hours >= 48:
        return f"{hours / 24:.0f} days"
    return f"{hours:.0f} hours" if hours >= 2 else f"{hours * 60:.0f} minutes"


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
