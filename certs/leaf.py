"""Whether a stored leaf may stay: a function of what is stored, who issues, what is wanted and the time. Pure."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from itertools import chain
from typing import Final

from cryptography import x509

from certs.authority import BACKDATING
from certs.reading import certificate_of, fingerprint, is_authority, is_for_servers, issued_by, key_fits, names_of
from certs.reasons import Finding, Reason

RENEWED_AT: Final = 2 / 3
"""The part of its life after which a certificate is renewed."""
OVERDUE_AT: Final = 5 / 6
"""The part of its life after which a renewal that has not come means that nobody renews."""


@dataclass(frozen=True, slots=True)
class StoredLeaf:
    """A serving certificate as it is stored.

    Attributes:
        certificate_pem: PEM, the leaf first; empty if there is none.
        key_pem: its private key; ``repr`` does not show it.
    """

    certificate_pem: bytes = b""
    key_pem: bytes = b""

    def __repr__(self) -> str:
        return f"StoredLeaf({len(self.certificate_pem)} bytes)"

    @property
    def certificate(self) -> x509.Certificate | None:
        """The leaf; None if it cannot be read."""
        return certificate_of(self.certificate_pem)


@dataclass(frozen=True, slots=True)
class LeafPlan:
    """What a leaf should be.

    Attributes:
        names: the DNS names and IP addresses that it has to carry.
        lifetime: how long a new one lives.
        unwanted: fingerprints of leaves that somebody wants to be replaced.
    """

    names: Collection[str]
    lifetime: timedelta
    unwanted: frozenset[str] = frozenset()


def judge(stored: StoredLeaf, issuer: x509.Certificate, plan: LeafPlan, now: datetime) -> Finding | None:
    """Why a leaf has to be issued anew; None if it may stay.

    What keeps clients from connecting comes before what merely should be otherwise.

    Args:
        stored: what there is.
        issuer: who issues leaves now.
        plan: what is wanted.
        now: the present.
    """
    leaf = stored.certificate
    if leaf is None or not key_fits(leaf, stored.key_pem):
        return _no_pair(stored, leaf)
    return next(chain(_reasons_to_fail(leaf, issuer, now), _reasons_to_renew(leaf, issuer, plan, now)), None)


def serves(stored: StoredLeaf, issuer: x509.Certificate, now: datetime) -> bool:
    """Whether clients that trust an issuer can connect to a server with a leaf, whatever else should be otherwise."""
    leaf = stored.certificate
    return leaf is not None and key_fits(leaf, stored.key_pem) and not any(_reasons_to_fail(leaf, issuer, now))


def issued_at(certificate: x509.Certificate) -> datetime:
    """When one of ours was issued; of others', a little after they begin."""
    return min(certificate.not_valid_before_utc + BACKDATING, certificate.not_valid_after_utc)


def moment_of_life(certificate: x509.Certificate, part: float) -> datetime:
    """The moment at which a part of a certificate's life, from 0 to 1, is over."""
    start = issued_at(certificate)
    return start + (certificate.not_valid_after_utc - start) * part


def told(moment: datetime) -> str:
    """A moment as messages have it."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _no_pair(stored: StoredLeaf, leaf: x509.Certificate | None) -> Finding:
    if not stored.certificate_pem and not stored.key_pem:
        return Finding(Reason.LEAF_MISSING, "there is no certificate")
    if leaf is None:
        return Finding(Reason.LEAF_UNREADABLE, "what is stored is no certificate")
    return Finding(Reason.KEY_DOES_NOT_MATCH, "what is stored as its private key is not the one of the certificate")


def _reasons_to_fail(leaf: x509.Certificate, issuer: x509.Certificate, now: datetime) -> Iterator[Finding]:
    """Why clients that trust the issuer refuse a leaf."""
    if leaf.not_valid_after_utc <= now:
        yield Finding(Reason.LEAF_EXPIRED, f"it expired at {told(leaf.not_valid_after_utc)}")
    if leaf.not_valid_before_utc > now:
        yield Finding(Reason.LEAF_NOT_YET_VALID, f"it begins only at {told(leaf.not_valid_before_utc)}")
    if is_authority(leaf) or not is_for_servers(leaf):
        yield Finding(Reason.WRONG_USAGE, "it is not one for servers")
    if not issued_by(leaf, issuer):
        yield Finding(Reason.WRONG_ISSUER, f"it was not issued by {issuer.subject.rfc4514_string()}")


def _reasons_to_renew(
    leaf: x509.Certificate, issuer: x509.Certificate, plan: LeafPlan, now: datetime
) -> Iterator[Finding]:
    """Why a leaf should be replaced although it does its work."""
    if leaf.not_valid_after_utc > issuer.not_valid_after_utc:
        yield Finding(Reason.OUTLIVES_ISSUER, "it is valid for longer than who issued it")
    present, wanted = names_of(leaf), frozenset(map(_normal_name, plan.names))
    if missing := wanted - present:
        yield Finding(Reason.NAMES_MISSING, f"it is not for {', '.join(sorted(missing))}")
    if unwanted := present - wanted:
        yield Finding(Reason.NAMES_UNWANTED, f"it is still for {', '.join(sorted(unwanted))}")
    if fingerprint(leaf) in plan.unwanted:
        yield Finding(Reason.RENEWAL_REQUESTED, "somebody wants a new one")
    due = moment_of_life(leaf, RENEWED_AT)
    # Towards the end of an authority a new leaf would live no longer than the old one.
    gains = min(now + plan.lifetime, issuer.not_valid_after_utc) > leaf.not_valid_after_utc
    if due <= now and gains:
        yield Finding(Reason.LEAF_DUE_FOR_RENEWAL, f"two thirds of its life were over at {told(due)}")


def _normal_name(name: str) -> str:
    """A name as certificates have it: one way to write an address."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name
