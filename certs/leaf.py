"""Decide whether a stored leaf must be replaced, and say why.

Also defines the reasons that all of this package reports. The module is pure: the decision depends on the stored leaf,
the issuer, the requirements and the current time.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from itertools import chain
from typing import Final, NamedTuple

from cryptography import x509

from berthmaster.model.meta import timestamp_text
from certs.authority import BACKDATING
from certs.certificate import certificate_of, fingerprint, is_authority, is_for_servers, issued_by, key_fits, names_of

RENEWED_AT: Final = 2 / 3
"""The fraction of its life after which a certificate is renewed."""
OVERDUE_AT: Final = 5 / 6
"""The fraction of its life after which a missing renewal means that no process renews."""


class Reason(StrEnum):
    """Why something is written, or must not be. Logs, events, metrics and the output of ``inspect`` have the values."""

    LEAF_MISSING = "LeafMissing"
    LEAF_UNREADABLE = "LeafUnreadable"
    KEY_DOES_NOT_MATCH = "KeyDoesNotMatch"
    LEAF_EXPIRED = "LeafExpired"
    LEAF_NOT_YET_VALID = "LeafNotYetValid"
    WRONG_USAGE = "WrongUsage"
    WRONG_ISSUER = "WrongIssuer"
    OUTLIVES_ISSUER = "OutlivesIssuer"
    NAMES_MISSING = "NamesMissing"
    NAMES_UNWANTED = "NamesUnwanted"
    LEAF_DUE_FOR_RENEWAL = "LeafDueForRenewal"
    RENEWAL_REQUESTED = "RenewalRequested"

    AUTHORITY_MISSING = "AuthorityMissing"
    AUTHORITY_UNREADABLE = "AuthorityUnreadable"
    AUTHORITY_EXPIRED = "AuthorityExpired"
    AUTHORITY_DUE_FOR_ROTATION = "AuthorityDueForRotation"
    ROTATION_REQUESTED = "RotationRequested"
    SUCCESSOR_EXPIRED = "SuccessorExpired"
    SUCCESSOR_INTRODUCED = "SuccessorIntroduced"
    SUCCESSOR_NOT_EVERYWHERE = "SuccessorNotEverywhere"
    SUCCESSOR_TAKES_OVER = "SuccessorTakesOver"
    PREDECESSOR_SUPERSEDED = "PredecessorSuperseded"
    PREDECESSOR_IN_USE = "PredecessorInUse"
    PREDECESSOR_RETIRED = "PredecessorRetired"

    BUNDLE_EDITED = "BundleEdited"
    BUNDLE_OUTDATED = "BundleOutdated"
    BUNDLE_MISSING = "BundleMissing"
    PROVIDED_BUNDLE_MISSING = "ProvidedBundleMissing"
    REGISTERED_BY_ANOTHER = "RegisteredByAnother"


class CertificateFinding(NamedTuple):
    """Why a certificate, an authority or a bundle must change. The message never contains a key."""

    reason: Reason
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class StoredLeaf:
    """A serving certificate as it is stored, the leaf first; empty if there is none. ``repr`` does not show the key."""

    certificate_pem: bytes = b""
    key_pem: bytes = b""

    def __repr__(self) -> str:
        return f"StoredLeaf({len(self.certificate_pem)} bytes)"

    @property
    def certificate(self) -> x509.Certificate | None:
        return certificate_of(self.certificate_pem)


class LeafRequirements(NamedTuple):
    """What a leaf must look like, and the fingerprints of leaves that a user asked to replace."""

    names: Collection[str]
    lifetime: timedelta
    replaced: frozenset[str] = frozenset()


def leaf_finding(
    stored: StoredLeaf, issuer: x509.Certificate, required: LeafRequirements, now: datetime
) -> CertificateFinding | None:
    """Return why a leaf must be issued again, or None if it can stay.

    Reasons that keep clients from connecting come before all others.
    """
    leaf = stored.certificate
    if leaf is None or not key_fits(leaf, stored.key_pem):
        return _unusable_pair(stored, leaf)
    return next(chain(_rejections(leaf, issuer, now), _renewals(leaf, issuer, required, now)), None)


def serves(stored: StoredLeaf, issuer: x509.Certificate, now: datetime) -> bool:
    """Return whether clients that trust an issuer accept a leaf, even if it is due for renewal."""
    leaf = stored.certificate
    return leaf is not None and key_fits(leaf, stored.key_pem) and not any(_rejections(leaf, issuer, now))


def issued_at(certificate: x509.Certificate) -> datetime:
    """Return when a certificate was issued. For a foreign certificate this is shortly after it becomes valid."""
    return min(certificate.not_valid_before_utc + BACKDATING, certificate.not_valid_after_utc)


def moment_of_life(certificate: x509.Certificate, fraction: float) -> datetime:
    start = issued_at(certificate)
    return start + (certificate.not_valid_after_utc - start) * fraction


def _unusable_pair(stored: StoredLeaf, leaf: x509.Certificate | None) -> CertificateFinding:
    if not stored.certificate_pem and not stored.key_pem:
        return CertificateFinding(Reason.LEAF_MISSING, "there is no certificate")
    if leaf is None:
        return CertificateFinding(Reason.LEAF_UNREADABLE, "the stored certificate is unreadable")
    return CertificateFinding(Reason.KEY_DOES_NOT_MATCH, "the stored private key does not belong to the certificate")


def _rejections(leaf: x509.Certificate, issuer: x509.Certificate, now: datetime) -> Iterator[CertificateFinding]:
    if leaf.not_valid_after_utc <= now:
        yield CertificateFinding(Reason.LEAF_EXPIRED, f"it expired at {timestamp_text(leaf.not_valid_after_utc)}")
    if leaf.not_valid_before_utc > now:
        message = f"it is not valid before {timestamp_text(leaf.not_valid_before_utc)}"
        yield CertificateFinding(Reason.LEAF_NOT_YET_VALID, message)
    if is_authority(leaf) or not is_for_servers(leaf):
        yield CertificateFinding(Reason.WRONG_USAGE, "it is not a serving certificate")
    if not issued_by(leaf, issuer):
        yield CertificateFinding(Reason.WRONG_ISSUER, f"{issuer.subject.rfc4514_string()} did not issue it")


def _renewals(
    leaf: x509.Certificate, issuer: x509.Certificate, required: LeafRequirements, now: datetime
) -> Iterator[CertificateFinding]:
    if leaf.not_valid_after_utc > issuer.not_valid_after_utc:
        yield CertificateFinding(Reason.OUTLIVES_ISSUER, "it expires later than its issuer")
    present, wanted = names_of(leaf), frozenset(map(_normal_name, required.names))
    if missing := wanted - present:
        yield CertificateFinding(Reason.NAMES_MISSING, f"it lacks the names {', '.join(sorted(missing))}")
    if unwanted := present - wanted:
        yield CertificateFinding(Reason.NAMES_UNWANTED, f"it has the unwanted names {', '.join(sorted(unwanted))}")
    if fingerprint(leaf) in required.replaced:
        yield CertificateFinding(Reason.RENEWAL_REQUESTED, "a user requested a new certificate")
    due = moment_of_life(leaf, RENEWED_AT)
    # Near the end of its authority a new leaf would not live longer than the old one.
    lives_longer = min(now + required.lifetime, issuer.not_valid_after_utc) > leaf.not_valid_after_utc
    if due <= now and lives_longer:
        message = f"two thirds of its life passed at {timestamp_text(due)}"
        yield CertificateFinding(Reason.LEAF_DUE_FOR_RENEWAL, message)


def _normal_name(name: str) -> str:
    """Return a name as certificates write it; IP addresses have one normal form."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name
