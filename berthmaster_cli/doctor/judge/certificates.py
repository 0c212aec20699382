"""Certificates: bundles, leaves, whether they go together, and how long they live."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from berthmaster.model.errors import InputError
from berthmaster_cli.doctor.facts import Facts, Hook, Served, Setup, Stored, Trial, Unknown
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning
from berthmaster_cli.doctor.judge.call_failures import cause_of, denied_by, known
from certs.bundle import Bundle, issued_by, names_of
from certs.leaf import OVERDUE_AT, moment_of_life
from certs.registration import Endpoint, endpoint_of

SOON: Final = timedelta(days=7)
"""Enough for a person to come back. Leaves that live shorter are judged by what is left of their life."""
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_NOT_YET: Final = 9  # X509_V_ERR_CERT_NOT_YET_VALID
_NAMES: Final = frozenset({62, 63, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, of an e-mail address, of an IP address


def certificates(facts: Facts) -> Iterator[Finding]:
    """Bundles first, since everything is judged by them."""
    if facts.hooks is None or isinstance(facts.hooks, Unknown):
        return
    ours = [hook for hook in facts.hooks if hook.ours]
    if ours:
        yield from _bundles(ours, facts)
        for served in facts.served:
            yield from _served(served, ours, facts)
        if facts.stored is not None:
            yield from _stored(facts.stored, ours, facts)


def _bundles(ours: Sequence[Hook], facts: Facts) -> Iterator[Finding]:
    """One finding about all, the worst."""
    check = "certificates/bundle"
    remedy = known("authority", ours[0], facts.setup).remedy
    for hook in ours:
        where = f"{hook.configuration}/{hook.name}"
        if not hook.has_bundle:
            told = f"caBundle of {where} is empty: the API server trusts public authorities only"
            yield failed(check, told, remedy)
            return
        if not len(hook.bundle):
            yield failed(check, f"caBundle of {where} holds no certificate of an authority", remedy)
            return
    living = [_living(hook.bundle, facts.now) for hook in ours]
    if not all(living):
        yield failed(check, "every authority in caBundle has expired, or is not valid yet", remedy)
        return
    last = min((max(bundle, key=_end) for bundle in living), key=_end)
    left = _end(last) - facts.now
    if _neglected(last, facts.now):
        yield warning(check, f"the authority in caBundle ends {_in(left)}, and has no successor", remedy)
    else:
        yield ok(check, f"the API server trusts an authority that lives {_for(left)}")


def _served(served: Served, ours: Sequence[Hook], facts: Facts) -> Iterator[Finding]:
    where = f"{served.host}:{served.port}"
    hook = next((each for each in ours if _endpoint(each)[:2] == (served.host, served.port)), ours[0])
    if served.contact != "served":
        yield _unseen(served, where, hook, ours, facts)
        return
    if served.leaf is None:
        told = f"{where} shows a certificate that cannot be read"
        yield failed("certificates/served", told, known("expired", hook, facts.setup).remedy)
        return
    yield _life("certificates/life", f"the certificate of {where}", served.leaf, hook, facts)
    yield _match(served, where, hook, facts.setup)


def _match(served: Served, where: str, hook: Hook, setup: Setup) -> Finding:
    """What a client that trusts ``caBundle`` says, in the same words for every TLS library."""
    check = "certificates/served"
    if not served.mistrust:
        return ok(check, f"{where} shows a certificate that caBundle vouches for, with that name")
    if served.mistrust_code in {_EXPIRED, _NOT_YET}:
        kind = "expired"
    elif served.mistrust_code in _NAMES:
        kind = "names"
        names = ", ".join(sorted(names_of(served.leaf))) if served.leaf is not None else ""
        cause = known(kind, hook, setup)
        return failed(f"{check}-names", f"{cause.told}: it is for {names or 'nobody'}", cause.remedy)
    else:
        kind = "authority"
    cause = known(kind, hook, setup)
    return failed(f"{check}-{kind}", f"{cause.told} ({served.mistrust})", cause.remedy)


def _unseen(served: Served, where: str, hook: Hook, ours: Sequence[Hook], facts: Facts) -> Finding:
    """The API server may well reach what cannot be reached from here: the trial says."""
    check = "certificates/served"
    why = "does not resolve" if served.contact == "unresolved" else f"cannot be looked at ({served.problem})"
    told = f"{where} {why} from here"
    if _proven(facts.trial, ours):
        return skipped(check, f"{told}; the API server reaches it")
    if served.contact == "unresolved":
        ports = f"port-forward service/{facts.setup.release}-webhook 8443:443"
        remedy = f"Rely on admission/trial; to look closer, forward its port: {facts.setup.in_release} {ports}"
        return warning(check, told, remedy)
    cause = cause_of(f"dial: {served.problem}".lower(), hook, facts.setup)
    return failed(check, told, cause.remedy)


def _stored(stored: Stored | Unknown, ours: Sequence[Hook], facts: Facts) -> Iterator[Finding]:
    check, setup = "certificates/secret", facts.setup
    if isinstance(stored, Unknown):
        yield skipped(check, f"the serving Secret cannot be read: {stored.problem}")
        return
    renewal = known("expired", ours[0], setup).remedy
    if stored.leaf is None:
        yield failed(check, f"Secret {stored.name} holds no certificate", renewal)
        return
    if not stored.key_fits:
        yield failed(check, f"the key in Secret {stored.name} is not its certificate's", renewal)
        return
    yield _life("certificates/secret-life", f"the certificate in Secret {stored.name}", stored.leaf, ours[0], facts)
    yield _fit(check, stored, stored.leaf, ours, setup)


def _fit(check: str, stored: Stored, leaf: x509.Certificate, ours: Sequence[Hook], setup: Setup) -> Finding:
    for hook in ours:
        if len(hook.bundle) and not any(issued_by(leaf, each) for each in hook.bundle):
            cause = known("authority", hook, setup)
            told = f"caBundle of {hook.configuration}/{hook.name} does not vouch for Secret {stored.name}"
            return failed(check, told, cause.remedy)
        host = _endpoint(hook).host
        if host and not _is_for(leaf, host):
            cause = known("names", hook, setup)
            told = f"the certificate in Secret {stored.name} is for {', '.join(sorted(names_of(leaf)))}, not for {host}"
            return failed(check, told, cause.remedy)
    return ok(check, f"Secret {stored.name} holds a certificate that caBundle vouches for, with the names of all URLs")


def _life(check: str, what: str, leaf: x509.Certificate, hook: Hook, facts: Facts) -> Finding:
    now, ends = facts.now, leaf.not_valid_after_utc
    remedy = known("expired", hook, facts.setup).remedy
    if now < leaf.not_valid_before_utc:
        return failed(check, f"{what} is not valid before {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC", remedy)
    if ends <= now:
        return failed(check, f"{what} expired {_for(now - ends)} ago", remedy)
    if _neglected(leaf, now):
        return warning(check, f"{what} ends {_in(ends - now)}, and nobody has renewed it", remedy)
    return ok(check, f"{what} lives {_for(ends - now)}")


def _neglected(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it should have been replaced, or a person has little time left to see to it."""
    long = _end(certificate) - certificate.not_valid_before_utc > 4 * SOON
    return moment_of_life(certificate, OVERDUE_AT) <= now or (long and _end(certificate) - now < SOON)


def _end(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc


def _living(bundle: Bundle, now: datetime) -> list[x509.Certificate]:
    return [each for each in bundle if each.not_valid_before_utc <= now < each.not_valid_after_utc]


def _proven(trial: Trial | Unknown | None, ours: Sequence[Hook]) -> bool:
    """Whether a policy on trial can have passed only because the API server reached the webhook."""
    if not isinstance(trial, Trial) or trial.stored is None:
        return False
    refused = denied_by(trial.bad_problem) in {hook.name for hook in ours}
    return refused or all(hook.fails_closed and not hook.narrowed for hook in ours)


def _endpoint(hook: Hook) -> Endpoint:
    try:
        return endpoint_of(hook.url)
    except InputError:
        return Endpoint("", 0, "")


def _is_for(leaf: x509.Certificate, host: str) -> bool:
    """Whether a certificate names a host, by itself or by a wildcard for its first label."""
    names = {each.lower() for each in names_of(leaf)}
    first, dot, rest = host.lower().partition(".")
    return host.lower() in names or bool(first and dot and f"*.{rest}" in names)


def _in(span: timedelta) -> str:
    return f"in {_for(span)}"


def _for(span: timedelta) -> str:
    hours = span.total_seconds() / 3600
    if hours >= 48:
        return f"{hours / 24:.0f} days"
    return f"{hours:.0f} hours" if hours >= 2 else f"{hours * 60:.0f} minutes"
