"""Read certificates and keys from PEM, and hold the authorities that clients trust as a bundle.

The input is untrusted: anyone may have written it. Functions return None for unreadable input and do not raise. The
module is pure: the caller passes the current time.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Final, Self, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import KeyPair

E = TypeVar("E", bound=x509.ExtensionType)
MAX_CERTIFICATES: Final = 32
"""The largest bundle that is read. Three rotations at the same time need four certificates."""
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
# All exceptions with which the library reports malformed input.
_UNREADABLE: Final = (
    ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip


@lru_cache(maxsize=128)
def certificate_of(pem: bytes) -> x509.Certificate | None:
    """Return the first certificate of a PEM text, or None if a field that this package uses is unreadable."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        _ = certificate.extensions, certificate.subject, certificate.not_valid_before_utc, certificate.public_key()
    except _UNREADABLE:
        return None
    return certificate


def pair_of(certificate_pem: bytes, key_pem: bytes) -> KeyPair | None:
    """Return a certificate with its elliptic curve key, or None if either is unreadable or they do not match."""
    certificate = certificate_of(certificate_pem)
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except _UNREADABLE:
        return None
    if certificate is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return KeyPair(certificate, key) if key.public_key() == certificate.public_key() else None


def key_fits(certificate: x509.Certificate, key_pem: bytes) -> bool:
    """Return whether a private key of any type belongs to a certificate."""
    try:
        return serialization.load_pem_private_key(key_pem, password=None).public_key() == certificate.public_key()
    except _UNREADABLE:
        return False


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 fingerprint of a certificate in hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


@lru_cache(maxsize=128)
def issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether the key of an authority signed a leaf."""
    try:
        leaf.verify_directly_issued_by(authority)
    except (*_UNREADABLE, InvalidSignature):
        return False
    return True


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether a certificate may sign others."""
    constraints = _extension(certificate, x509.BasicConstraints)
    return constraints is not None and constraints.ca


def is_for_servers(certificate: x509.Certificate) -> bool:
    """Return whether a server may present a certificate. Without the extension every usage is allowed."""
    usages = _extension(certificate, x509.ExtendedKeyUsage)
    return usages is None or ExtendedKeyUsageOID.SERVER_AUTH in usages


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """Return the DNS names and IP addresses of a certificate."""
    names = _extension(certificate, x509.SubjectAlternativeName)
    if names is None:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


class Bundle(tuple[x509.Certificate, ...]):
    """The certificates of trusted authorities, without duplicates and in the order of the input."""

    __slots__ = ()

    def __new__(cls, certificates: Iterable[x509.Certificate] = ()) -> Self:
        """Create a bundle. Later duplicates are dropped."""
        return super().__new__(cls, dict.fromkeys(certificates))

    @classmethod
    def parse(cls, pem: bytes) -> "Bundle":
        """Read the authorities of a PEM text, at most ``MAX_CERTIFICATES``.

        Unreadable blocks and certificates of other kinds are skipped, so that a damaged bundle can be repaired from
        its readable part.
        """
        certificates = map(certificate_of, _BLOCK.findall(pem)[:MAX_CERTIFICATES])
        return cls(each for each in certificates if each is not None and is_authority(each))

    @property
    def pem(self) -> bytes:
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in self)

    def __repr__(self) -> str:
        return f"Bundle({', '.join(each.subject.rfc4514_string() for each in self)})"

    def with_more(self, certificates: Iterable[x509.Certificate]) -> "Bundle":
        return Bundle([*self, *certificates])

    def unexpired(self, now: datetime) -> "Bundle":
        return Bundle(each for each in self if each.not_valid_after_utc > now)

    def issuer_of(self, leaf: x509.Certificate) -> x509.Certificate | None:
        """Return the member that signed a leaf, or None."""
        return next((each for each in self if issued_by(leaf, each)), None)

    def verifies(self, leaf: x509.Certificate, now: datetime) -> bool:
        """Return whether a client that trusts this bundle accepts the signature and the validity of a leaf."""
        issuer = self.issuer_of(leaf)
        return issuer is not None and all(
            each.not_valid_before_utc <= now < each.not_valid_after_utc for each in (leaf, issuer)
        )


EMPTY: Final = Bundle()
"""A bundle that trusts no authority."""
