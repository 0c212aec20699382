"""What is due: the next writes as requests that are ready to send, and each certificate and bundle as one item.

Pure except for the keys of new certificates. The order of writes keeps clients and servers compatible. An authority is
stored before its bundle is written to clients, and clients have the bundle before a leaf is issued.
"""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import msgspec
from cryptography import x509

from berthmaster.kube import requests
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import APIRequest
from certs import secrets
from certs.bundle import (
    EMPTY,
    MAX_COMMON_NAME,
    SERVERS_ONLY,
    Bundle,
    KeyPair,
    bundles,
    fingerprint,
    issue,
    names_of,
    new_authority,
    patch,
)
from certs.leaf import (
    OVERDUE_AT,
    RENEWED_AT,
    CertificateFinding,
    LeafRequirements,
    Reason,
    StoredLeaf,
    leaf_finding,
    moment_of_life,
    serves,
    timestamp_text,
)
from certs.options import MANAGER, CertificateOptions, Origin, ServingCertificate, TargetConfiguration
from certs.rotation import AuthorityState, RotationInput, RotationStep, ServedLeaf, next_rotation_step
from certs.secrets import (
    CertificateSnapshot,
    ConfigurationState,
    Secret,
    UnreadableConfiguration,
    configuration_reference,
)

NONE_REPLACED = frozenset[str]()


class CertificateStep(NamedTuple):
    """One write."""

    about: Reference
    finding: CertificateFinding
    request: APIRequest
    on_target: bool = False


def next_steps(
    snapshot: CertificateSnapshot, options: CertificateOptions, replaced: frozenset[str], now: datetime
) -> Iterator[CertificateStep]:
    """Yield the writes that are due, the most urgent first. Read a new snapshot after each write."""
    if options.origin is Origin.OWN:
        return _own_steps(snapshot, options, replaced, now)
    return _provided_steps(snapshot, options, now)


def _own_steps(
    snapshot: CertificateSnapshot, options: CertificateOptions, replaced: frozenset[str], now: datetime
) -> Iterator[CertificateStep]:
    state = secrets.authority_of(snapshot.authority)
    for _, secret in snapshot.serving:
        if secret is not None:
            secrets.check_adoptable(secret, state)
    if (step := rotation_step(snapshot, options, replaced, state, now)) is not None:
        key = (options.namespace, options.authority_secret)
        request = secrets.authority_request(key, snapshot.authority, step.state)
        yield CertificateStep(secrets.secret_reference(key, snapshot.authority), step.finding, request)
    if not state.bundle:
        return  # there is no authority yet
    for target, configuration in snapshot.targets:
        yield from _injection(target, configuration, state.bundle)
    for serving, secret in snapshot.serving:
        yield from _serving_steps(serving, secret, options, replaced, state, now)


def _provided_steps(
    snapshot: CertificateSnapshot, options: CertificateOptions, now: datetime
) -> Iterator[CertificateStep]:
    """Yield injections of the provided bundles.

    Authorities that a configuration trusted before stay in it until the newest leaf is older than the overlap.
    """
    provided = provided_bundle(snapshot).unexpired(now)
    if not provided:
        return
    leaves = (secret.leaf.certificate for _, secret in snapshot.serving if secret is not None)
    newest = max((leaf.not_valid_before_utc for leaf in leaves if leaf is not None), default=None)
    overlapping = newest is not None and newest + options.overlap > now
    for target, state in snapshot.targets:
        if state is None or isinstance(state, UnreadableConfiguration):
            continue
        found = bundles(target.kind, state)
        earlier = Bundle(each for bundle in found for each in bundle) if overlapping else EMPTY
        yield from _injection(target, state, provided.with_more(earlier.unexpired(now)))


def provided_bundle(snapshot: CertificateSnapshot) -> Bundle:
    """Return the union of the bundles that another system stores."""
    return Bundle(each for _, secret in snapshot.serving if secret is not None for each in secret.bundle)


def provided_problems(snapshot: CertificateSnapshot) -> Iterator[str]:
    """Yield what the other system has not stored yet."""
    for serving, secret in snapshot.serving:
        if secret is None or not secret.bundle:
            what = "does not exist" if secret is None else f"has no authority in {secrets.BUNDLE}"
            yield f"{Reason.PROVIDED_BUNDLE_MISSING}: the Secret {serving.secret} {what}"


def trusted_bundle(snapshot: CertificateSnapshot, options: CertificateOptions) -> Bundle:
    """Return the stored bundle that clients must trust."""
    own = options.origin is Origin.OWN
    return secrets.authority_of(snapshot.authority).bundle if own else provided_bundle(snapshot)


def rotation_step(
    snapshot: CertificateSnapshot,
    options: CertificateOptions,
    replaced: frozenset[str],
    state: AuthorityState,
    now: datetime,
) -> RotationStep | None:
    """Return the next step of the authority's rotation, or None."""
    leaves = (
        ServedLeaf(secret.leaf, secret.bundle) if secret is not None else ServedLeaf(StoredLeaf(), EMPTY)
        for _, secret in snapshot.serving
    )
    given = RotationInput(state, tuple(leaves), snapshot.clients(), snapshot.trusted(), options.overlap, now, replaced)
    return next_rotation_step(given, partial(_new_authority, options, now))


def leaf_requirements(
    serving: ServingCertificate, options: CertificateOptions, replaced: frozenset[str] = NONE_REPLACED
) -> LeafRequirements:
    """Return the requirements of a server's leaf."""
    return LeafRequirements(serving.names, options.leaf_lifetime, replaced)


def _injection(target: TargetConfiguration, state: ConfigurationState, bundle: Bundle) -> Iterator[CertificateStep]:
    if state is None or isinstance(state, UnreadableConfiguration):
        return
    operations = patch(target.kind, state, bundle)
    if not operations:
        return
    reason = Reason.BUNDLE_OUTDATED if all(bundles(target.kind, state)) else Reason.BUNDLE_MISSING
    finding = CertificateFinding(reason, f"write a bundle with {len(bundle)} authorities")
    request = requests.json_patch(target.kind.collection, ("", target.name), operations, MANAGER)
    yield CertificateStep(configuration_reference(target, state), finding, request, on_target=True)


def _serving_steps(
    serving: ServingCertificate,
    secret: Secret | None,
    options: CertificateOptions,
    replaced: frozenset[str],
    state: AuthorityState,
    now: datetime,
) -> Iterator[CertificateStep]:
    """Yield the writes of a serving Secret: its bundle, and its leaf if the issuer is valid."""
    key = (options.namespace, serving.secret)
    about = secrets.secret_reference(key, secret)
    issuer, stored = state.issuer, secret.leaf if secret is not None else StoredLeaf()
    if secret is not None and secret.data and secret.get(secrets.BUNDLE) != state.bundle.pem:
        message = f"write a bundle with {len(state.bundle)} authorities beside the leaf"
        finding = CertificateFinding(Reason.BUNDLE_OUTDATED, message)
        yield CertificateStep(about, finding, secrets.serving_request(key, secret, None, state.bundle))
    if issuer is None or issuer.certificate.not_valid_after_utc <= now:
        return
    due = leaf_finding(stored, issuer.certificate, leaf_requirements(serving, options, replaced), now)
    if due is None:
        return
    name = serving.secret[:MAX_COMMON_NAME]
    pair = issue(issuer, name, serving.names, options.leaf_lifetime, now, usages=SERVERS_ONLY)
    leaf = StoredLeaf(pair.certificate_pem, pair.key_pem)
    yield CertificateStep(about, due, secrets.serving_request(key, secret, leaf, state.bundle))


def _new_authority(options: CertificateOptions, now: datetime) -> KeyPair:
    """Create an authority. Its name contains the time, which helps people to compare bundles."""
    return new_authority(f"berthmaster authority {timestamp_text(now)}", options.authority_lifetime, now)


class CertificateVerdict(StrEnum):
    """The state of a certificate or a bundle.

    Attributes:
        DUE: a write is due. Clients do not notice until then.
        BAD: clients are rejected, or soon will be because a renewal is overdue.
    """

    OK = "ok"
    DUE = "due"
    BAD = "bad"


class CertificateItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One certificate or bundle. ``kind`` is ``authority``, ``successor``, ``predecessor``, ``leaf`` or ``bundle``."""

    kind: str
    name: str
    verdict: CertificateVerdict
    reason: str = ""
    message: str = ""
    expires: datetime | None = None
    renewed: datetime | None = None
    names: tuple[str, ...] = ()
    fingerprint: str = ""
    authorities: int | None = None


def inspect(snapshot: CertificateSnapshot, options: CertificateOptions, now: datetime) -> list[CertificateItem]:
    """Describe everything that the options name."""
    if options.origin is Origin.PROVIDED:
        trusted = provided_bundle(snapshot)
        return [*_leaves(snapshot, options, None, trusted, now), *_targets(snapshot, trusted, now)]
    state = secrets.authority_of(snapshot.authority)
    issuer = state.issuer.certificate if state.issuer is not None else None
    return [
        *_authorities(snapshot, options, state, now),
        *_leaves(snapshot, options, issuer, state.bundle, now),
        *_targets(snapshot, state.bundle, now),
    ]


def _authorities(
    snapshot: CertificateSnapshot, options: CertificateOptions, state: AuthorityState, now: datetime
) -> Iterator[CertificateItem]:
    name = f"Secret/{options.authority_secret}"
    step = rotation_step(snapshot, options, NONE_REPLACED, state, now)
    finding = step.finding if step is not None else None
    if state.issuer is None:
        missing = finding or state.problem or CertificateFinding(Reason.AUTHORITY_MISSING, "there is no authority")
        yield _item("authority", name, CertificateVerdict.BAD, missing)
    else:
        yield _certificate("authority", name, state.issuer.certificate, finding, now)
    if state.successor is not None:
        yield _certificate("successor", name, state.successor.certificate, None, now)
    for each in state.predecessors:
        yield _certificate("predecessor", name, each, None, now, renewed=False)


def _leaves(
    snapshot: CertificateSnapshot,
    options: CertificateOptions,
    issuer: x509.Certificate | None,
    trusted: Bundle,
    now: datetime,
) -> Iterator[CertificateItem]:
    for serving, secret in snapshot.serving:
        name = f"Secret/{serving.secret}"
        leaf = secret.leaf.certificate if secret is not None else None
        if secret is None or leaf is None:
            reason = Reason.LEAF_MISSING if secret is None else Reason.LEAF_UNREADABLE
            missing = CertificateFinding(reason, "there is no certificate")
            yield _item("leaf", name, CertificateVerdict.BAD, missing)
            continue
        signer = trusted.issuer_of(leaf)
        expected_issuer = issuer or signer
        finding = (
            leaf_finding(secret.leaf, expected_issuer, leaf_requirements(serving, options), now)
            if expected_issuer is not None
            else CertificateFinding(Reason.WRONG_ISSUER, "no authority in the bundle issued it")
        )
        item = _certificate("leaf", name, leaf, finding, now)
        accepted = signer is not None and serves(secret.leaf, signer, now)
        yield item if accepted else msgspec.structs.replace(item, verdict=CertificateVerdict.BAD)


def _targets(snapshot: CertificateSnapshot, trusted: Bundle, now: datetime) -> Iterator[CertificateItem]:
    leaves = [secret.leaf.certificate for _, secret in snapshot.serving if secret is not None]
    present = [leaf for leaf in leaves if leaf is not None]
    for target, state in snapshot.targets:
        name = f"{target.kind.kind}/{target.name}"
        if state is None:
            message = "the configuration does not exist"
            yield CertificateItem(kind="bundle", name=name, verdict=CertificateVerdict.OK, message=message)
        elif isinstance(state, UnreadableConfiguration):
            yield CertificateItem(
                kind="bundle", name=name, verdict=CertificateVerdict.BAD, reason="Unreadable", message=state.problem
            )
        else:
            yield _worst_bundle(name, bundles(target.kind, state), trusted, present, now)


def _worst_bundle(
    name: str, found: list[Bundle], trusted: Bundle, leaves: list[x509.Certificate], now: datetime
) -> CertificateItem:
    if not found:
        message = "the server is called without TLS"
        return CertificateItem(kind="bundle", name=name, verdict=CertificateVerdict.OK, message=message)
    rejecting = [each for each in found if not all(each.verifies(leaf, now) for leaf in leaves)]
    worst = (rejecting or [each for each in found if each != trusted] or found)[0]
    verdict, finding = CertificateVerdict.OK, None
    if rejecting:
        reason = Reason.BUNDLE_OUTDATED if worst else Reason.BUNDLE_MISSING
        verdict = CertificateVerdict.BAD
        finding = CertificateFinding(reason, "clients that trust it reject a certificate that is served")
    elif worst != trusted:
        verdict = CertificateVerdict.DUE
        finding = CertificateFinding(Reason.BUNDLE_OUTDATED, "it differs from the authority's bundle")
    expires = min((each.not_valid_after_utc for each in worst), default=None)
    return msgspec.structs.replace(_item("bundle", name, verdict, finding), expires=expires, authorities=len(worst))


def _certificate(
    kind: str,
    name: str,
    certificate: x509.Certificate,
    finding: CertificateFinding | None,
    now: datetime,
    *,
    renewed: bool = True,
) -> CertificateItem:
    overdue = renewed and moment_of_life(certificate, OVERDUE_AT) <= now
    expired = certificate.not_valid_after_utc <= now
    due = CertificateVerdict.DUE if finding is not None else CertificateVerdict.OK
    item = _item(kind, name, CertificateVerdict.BAD if expired or overdue else due, finding)
    if overdue and not expired:
        message = f"its renewal was due at {timestamp_text(moment_of_life(certificate, RENEWED_AT))}"
        item = msgspec.structs.replace(item, message=message)
    return msgspec.structs.replace(
        item,
        expires=certificate.not_valid_after_utc,
        renewed=moment_of_life(certificate, RENEWED_AT) if renewed else None,
        names=tuple(sorted(names_of(certificate))),
        fingerprint=fingerprint(certificate),
    )


def _item(kind: str, name: str, verdict: CertificateVerdict, finding: CertificateFinding | None) -> CertificateItem:
    reason, message = finding if finding is not None else ("", "")
    return CertificateItem(kind=kind, name=name, verdict=verdict, reason=reason, message=message)
