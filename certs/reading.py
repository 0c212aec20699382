"""Certificates and keys out of PEM that anybody may have written: what cannot be read is None, never an exception."""

from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import KeyPair

# The library says in all these ways that something is not what it should be.
_UNREADABLE: Final = (
    ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip


@lru_cache(maxsize=128)
def certificate_of(pem: bytes) -> x509.Certificate | None:
    """The first certificate of PEM text, if all that is ever asked of it can be read."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        _ = certificate.extensions, certificate.subject, certificate.not_valid_before_utc, certificate.public_key()
    except _UNREADABLE:
        return None
    return certificate


def pair_of(certificate_pem: bytes, key_pem: bytes) -> KeyPair | None:
    """A certificate with its key, on an elliptic curve; None if either is unreadable, or they do not fit."""
    certificate = certificate_of(certificate_pem)
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except _UNREADABLE:
        return None
    if certificate is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return KeyPair(certificate, key) if key.public_key() == certificate.public_key() else None


def key_fits(certificate: x509.Certificate, key_pem: bytes) -> bool:
    """Whether a private key, of any kind, is the one of a certificate."""
    try:
        return serialization.load_pem_private_key(key_pem, password=None).public_key() == certificate.public_key()
    except _UNREADABLE:
        return False


def fingerprint(certificate: x509.Certificate) -> str:
    """What tells certificates apart: SHA-256 over all of it, in hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority's key signed a leaf."""
    try:
        leaf.verify_directly_issued_by(authority)
    except (*_UNREADABLE, InvalidSignature):
        return False
    return True


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether it may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def is_for_servers(certificate: x509.Certificate) -> bool:
    """Whether a server may show it."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True  # it is for everything
    return ExtendedKeyUsageOID.SERVER_AUTH in usages


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """The DNS names and IP addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])
