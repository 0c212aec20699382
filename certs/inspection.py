"""Describe every certificate and bundle as one item, for ``inspect`` and for metrics. Pure."""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

import msgspec
from cryptography import x509

from certs import secrets
from certs.bundle import Bundle, bundles, fingerprint, names_of
from certs.leaf import (
    OVERDUE_AT,
    RENEWED_AT,
    CertificateFinding,
    Reason,
    leaf_finding,
    moment_of_life,
    serves,
    timestamp_text,
)
from certs.options import CertificateOptions, Origin
from certs.rotation import AuthorityState
from certs.secrets import CertificateSnapshot, UnreadableConfiguration
from certs.steps import NONE_REPLACED, leaf_requirements, provided_bundle, rotation_step


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
