"""Create authorities, and leaves that they sign.

The module is pure: the caller passes the current time. All keys are P-256: every TLS client in Kubernetes supports
them, and a handshake costs a fraction of one with RSA.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from berthmaster.model.errors import InputError

BACKDATING: Final = timedelta(minutes=10)
"""How far in the past a new certificate becomes valid. This tolerates clients whose clocks are slow."""
MAX_COMMON_NAME: Final = 64
"""Characters of a common name (RFC 5280)."""
SERVERS_ONLY: Final = (ExtendedKeyUsageOID.SERVER_AUTH,)
SERVERS_AND_CLIENTS: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key. ``repr`` does not show the key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key in PEM (PKCS 8). It is not encrypted: store it only where its owner can read it."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def __repr__(self) -> str:
        return f"KeyPair({self.certificate.subject.rfc4514_string()})"


def new_authority(common_name: str, lifetime: timedelta, now: datetime) -> KeyPair:
    """Create a self-signed authority, which may sign leaves only. Raises ``InputError`` for a bad name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    builder = (
        _builder(name, name, key.public_key(), lifetime, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: KeyPair,
    common_name: str,
    hosts: Sequence[str],
    lifetime: timedelta,
    now: datetime,
    *,
    organization: str = "",
    usages: Sequence[x509.ObjectIdentifier] = SERVERS_AND_CLIENTS,
) -> KeyPair:
    """Issue a leaf that an authority signs.

    Args:
        common_name: the subject. A kube-apiserver reads it as the user of a client certificate.
        lifetime: how long the leaf is valid. It is cut so that the leaf does not outlive the authority.
        organization: a kube-apiserver reads it as the group of the user.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.certificate
    lifetime = min(lifetime, signer.not_valid_after_utc - now)
    builder = (
        _builder(_name(common_name, organization), signer.subject, key.public_key(), lifetime, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(each) for each in hosts])
        builder = builder.add_extension(names, critical=False)
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, lifetime: timedelta, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATING)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(common_name: str, organization: str = "") -> x509.Name:
    if not 0 < len(common_name) <= MAX_COMMON_NAME:
        raise InputError(f"invalid common name {common_name!r}: it must have 1 to {MAX_COMMON_NAME} characters")
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
