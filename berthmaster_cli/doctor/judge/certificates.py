"""Judges certificates: bundles, serving certificates, whether they match, and how long they are valid."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509

from berthmaster.model.foreign_texts import CallFailure, call_failure, denying_webhook
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
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning
from certs.bundle import Bundle, issued_by, names_of
from certs.leaf import OVERDUE_AT, moment_of_life


class CallDiagnosis(NamedTuple):
    """Why a webhook could not be called.

    Attributes:
        message: what is wrong; ``{host}`` is replaced by the address that the API server called.
        remedy: what to do; names in braces are filled in.
    """

    name: str
    message: str
    remedy: str


_PODS: Final = "{in_release} get pods,endpointslices -l app.kubernetes.io/component=webhook"
_RESTART: Final = "{in_release} rollout restart deploy/{release}-certs"
_FAILURES: Final = {
    CallFailure.NAME: CallDiagnosis(
        "name", "the API server cannot resolve {host}",
        "Set dnsPolicy ClusterFirstWithHostNet on the API server's pod, and the release's namespace in the name: "
        "{in_release} get service {release}-webhook"),
    CallFailure.CLOSED: CallDiagnosis(
        "closed", "nothing listens at {host}", f"Check whether the webhook's pods are ready: {_PODS}"),
    CallFailure.EXPIRED: CallDiagnosis(
        "expired", "the certificate of {host} has expired or is not valid yet",
        f"Restart the certificate rotator, and read in its log why it did not renew the certificate: {_RESTART}"),
    CallFailure.NAMES: CallDiagnosis(
        "names", "the certificate of {host} is not valid for that name",
        "Add the host to the names of the certificate: "
        "{upgrade} --set 'certificates.webhookExtraNames={{{bare}}}'"),
    CallFailure.AUTHORITY: CallDiagnosis(
        "authority", "the API server does not trust the issuer of the certificate of {host}",
        f"Restart the certificate rotator, and read in its log why it did not update caBundle: {_RESTART}"),
    CallFailure.CLIENT: CallDiagnosis(
        "client", "{host} requires a client certificate, and the API server presents none",
        "Give the API server one (--admission-control-config-file), or leave webhook.clientCA empty in the chart"),
    CallFailure.LATE: CallDiagnosis(
        "late", "{host} does not respond within timeoutSeconds",
        f"Check whether pods are overloaded, or a NetworkPolicy drops the API server's packets: {_PODS}"),
    CallFailure.NETWORK: CallDiagnosis(
        "network", "packets of the API server do not reach {host}",
        f"Allow the traffic in NetworkPolicies, firewalls and proxies: {_PODS}"),
    CallFailure.ANSWER: CallDiagnosis(
        "answer", "another service, or another release of the webhook, responds at {host}",
        "Compare the URLs with the release: {target} get mutatingwebhookconfigurations {release} -o yaml"),
    CallFailure.CALL: CallDiagnosis(
        "call", "the API server cannot call {host}", f"Check the webhook's pods and logs: {_PODS}"),
}  # fmt: skip


def diagnosis_of(failure: CallFailure, webhook: WebhookFacts, setup: Setup) -> CallDiagnosis:
    """Return what to say about a failure."""
    found = _FAILURES[failure]
    host = webhook.url.removeprefix("https://").partition("/")[0]
    names = {
        "host": host,
        "bare": host.rpartition(":")[0] or host,
        "target": setup.target,
        "in_release": setup.in_release,
        "upgrade": setup.upgrade,
        "release": setup.release,
    }
    return CallDiagnosis(found.name, found.message.format(**names), found.remedy.format(**names))


SOON: Final = timedelta(days=7)
"""The least time that a person needs to react. Shorter-lived certificates are judged by their share of life only."""
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_NOT_YET: Final = 9  # X509_V_ERR_CERT_NOT_YET_VALID
_NAMES: Final = frozenset({62, 63, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, and the same for e-mail and IP addresses


def certificates(facts: Facts) -> Iterator[Finding]:
    """Judge the bundles, the certificates that endpoints present, and the serving Secret."""
    ours = [webhook for webhook in facts.known_webhooks if webhook.ours]
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
    valid = [_valid(webhook.bundle, facts.now) for webhook in ours]
    if not all(valid):
        return failed(check, "every authority in caBundle has expired or is not valid yet", remedy)
    last = min((max(bundle, key=_end) for bundle in valid), key=_end)
    left = _duration(_end(last) - facts.now)
    if _is_overdue(last, facts.now):
        return warning(check, f"the authority in caBundle expires in {left} and has no successor", remedy)
    return ok(check, f"the API server trusts an authority that is valid for another {left}")


def _endpoint(endpoint: EndpointFacts, ours: Sequence[WebhookFacts], facts: Facts) -> Iterator[Finding]:
    where = f"{endpoint.host}:{endpoint.port}"
    webhook = next(
        (each for each in ours if each.endpoint and each.endpoint[:2] == (endpoint.host, endpoint.port)), ours[0]
    )
    if endpoint.contact != "served":
        yield _unreached(endpoint, where, webhook, ours, facts)
        return
    if endpoint.leaf is None:
        remedy = diagnosis_of(CallFailure.EXPIRED, webhook, facts.setup).remedy
        yield failed("certificates/served", f"{where} presents a certificate that cannot be read", remedy)
        return
    yield _validity("certificates/life", f"the certificate of {where}", endpoint.leaf, webhook, facts)
    yield _trust(endpoint, endpoint.leaf, where, webhook, facts.setup)


def _trust(endpoint: EndpointFacts, leaf: x509.Certificate, where: str, webhook: WebhookFacts, setup: Setup) -> Finding:
    """Judge what a client that trusts ``caBundle`` says, in the same words for every TLS library."""
    check = "certificates/served"
    if not endpoint.verify_error:
        return ok(check, f"caBundle trusts the certificate that {where} presents for that name")
    if endpoint.verify_code in _NAMES:
        failure = diagnosis_of(CallFailure.NAMES, webhook, setup)
        names = ", ".join(sorted(names_of(leaf))) or "no name"
        return failed(f"{check}-names", f"{failure.message}; it is valid for {names}", failure.remedy)
    cause = CallFailure.EXPIRED if endpoint.verify_code in {_EXPIRED, _NOT_YET} else CallFailure.AUTHORITY
    failure = diagnosis_of(cause, webhook, setup)
    return failed(f"{check}-{failure.name}", f"{failure.message} ({endpoint.verify_error})", failure.remedy)


def _unreached(
    endpoint: EndpointFacts, where: str, webhook: WebhookFacts, ours: Sequence[WebhookFacts], facts: Facts
) -> Finding:
    """Judge an endpoint without a session. The dry run shows whether the API server can reach it."""
    check = "certificates/served"
    unresolved = endpoint.contact == "unresolved"
    why = "does not resolve" if unresolved else f"cannot be checked ({endpoint.problem})"
    message = f"{where} {why} from here"
    if _is_proven(facts.dry_run, ours):
        return skipped(check, f"{message}; the API server reaches it")
    if unresolved:
        forward = f"{facts.setup.in_release} port-forward service/{facts.setup.release}-webhook 8443:443"
        return warning(check, message, f"Rely on admission/trial. To check from here, forward the port: {forward}")
    return failed(
        check, message, diagnosis_of(call_failure(f"dial: {endpoint.problem}".lower()), webhook, facts.setup).remedy
    )


def _secret(secret: Observed[SecretFacts], ours: Sequence[WebhookFacts], facts: Facts) -> Iterator[Finding]:
    check = "certificates/secret"
    if isinstance(secret, Unobserved):
        yield skipped(check, f"the serving Secret cannot be read: {secret.problem}")
        return
    renewal = diagnosis_of(CallFailure.EXPIRED, ours[0], facts.setup).remedy
    if secret.leaf is None:
        yield failed(check, f"Secret {secret.name} contains no certificate", renewal)
        return
    if not secret.key_fits:
        yield failed(check, f"the key in Secret {secret.name} does not belong to its certificate", renewal)
        return
    yield _validity("certificates/secret-life", f"the certificate in Secret {secret.name}", secret.leaf, ours[0], facts)
    yield _match(check, secret.name, secret.leaf, ours, facts.setup)


def _match(check: str, name: str, leaf: x509.Certificate, ours: Sequence[WebhookFacts], setup: Setup) -> Finding:
    for webhook in ours:
        if len(webhook.bundle) and not any(issued_by(leaf, each) for each in webhook.bundle):
            message = f"caBundle of {webhook.full_name} does not trust the certificate in Secret {name}"
            return failed(check, message, diagnosis_of(CallFailure.AUTHORITY, webhook, setup).remedy)
        host = webhook.endpoint.host if webhook.endpoint else ""
        if host and not _is_for(leaf, host):
            names = ", ".join(sorted(names_of(leaf)))
            message = f"the certificate in Secret {name} is valid for {names}, not for {host}"
            return failed(check, message, diagnosis_of(CallFailure.NAMES, webhook, setup).remedy)
    return ok(check, f"caBundle trusts the certificate in Secret {name}, which names the hosts of all URLs")


def _validity(check: str, what: str, leaf: x509.Certificate, webhook: WebhookFacts, facts: Facts) -> Finding:
    left = _end(leaf) - facts.now
    remedy = diagnosis_of(CallFailure.EXPIRED, webhook, facts.setup).remedy
    if facts.now < leaf.not_valid_before_utc:
        return failed(check, f"{what} is not valid before {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC", remedy)
    if left <= timedelta(0):
        return failed(check, f"{what} expired {_duration(-left)} ago", remedy)
    if _is_overdue(leaf, facts.now):
        return warning(check, f"{what} expires in {_duration(left)} and was not renewed", remedy)
    return ok(check, f"{what} is valid for another {_duration(left)}")


def _is_overdue(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether the certificate is overdue for replacement, or leaves a person little time to replace it."""
    long_lived = _end(certificate) - certificate.not_valid_before_utc > 4 * SOON
    return moment_of_life(certificate, OVERDUE_AT) <= now or (long_lived and _end(certificate) - now < SOON)


def _end(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc


def _valid(bundle: Bundle, now: datetime) -> list[x509.Certificate]:
    return [each for each in bundle if each.not_valid_before_utc <= now < each.not_valid_after_utc]


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


def _duration(span: timedelta) -> str:
    hours = span.total_seconds() / 3600
    if hours >= 48:
        return f"{hours / 24:.0f} days"
    return f"{hours:.0f} hours" if hours >= 2 else f"{hours * 60:.0f} minutes"
