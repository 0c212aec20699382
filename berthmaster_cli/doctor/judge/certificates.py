"""Judges certificates: the bundles, what endpoints present, and the serving Secret."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from berthmaster.model.foreign_texts import CallFailure, call_failure, denying_webhook
from berthmaster_cli.doctor.facts import (
    DryRunFacts,
    EndpointFacts,
    Facts,
    Observed,
    SecretFacts,
    Unobserved,
    WebhookFacts,
)
from berthmaster_cli.doctor.findings import Finding, failed, ok, skipped, warning
from berthmaster_cli.doctor.judge.call_failures import diagnosis_of
from certs.certificate import issued_by, names_of
from certs.leaf import OVERDUE_AT, moment_of_life

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
