"""Read certificates and keys from PEM, and what a certificate says.

The input is untrusted: anyone may have written it. Functions return None for unreadable input and do not raise.
"""

from functools import lru_cache
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import KeyPair

E = TypeVar("E", bound=x509.ExtensionType)
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
    return certificate.fingerprint(hashes.SHA256()).hex()


@lru_cache(maxsize=128)
def issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (*_UNREADABLE, InvalidSignature):
        return False
    return True


def is_authority(certificate: x509.Certificate) -> bool:
    constraints = _extension(certificate, x509.BasicConstraints)
    return constraints is not None and constraints.ca


def is_for_servers(certificate: x509.Certificate) -> bool:
    """Return whether a server may present a certificate. Without the extension every usage is allowed."""
    usages = _extension(certificate, x509.ExtendedKeyUsage)
    return usages is None or ExtendedKeyUsageOID.SERVER_AUTH in usages


def names_of(certificate: x509.Certificate) -> frozenset[str]:
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
