"""Certificates of a test run: one authority, and leaves signed by it."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME: Final = datetime.timedelta(days=1)
CLOCK_SKEW: Final = datetime.timedelta(minutes=5)
SIGNING: Final = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM, and the certificate's serial number."""

    certificate: bytes
    key: bytes
    serial: int

    def write(self, certificate_file: Path, key_file: Path) -> None:
        """Put both into files, each replaced as a whole; the two moments differ, as in a real rotation."""
        for path, content in ((key_file, self.key), (certificate_file, self.certificate)):
            part = path.with_suffix(".part")
            part.write_bytes(content)
            part.replace(path)


class Authority:
    """A throw-away certificate authority.

    Attributes:
        certificate: its own certificate, PEM: what a ``caBundle`` holds.
    """

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = named(name)
        certificate = (
            self._draft(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(SIGNING, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        name: str,
        *,
        organization: str | None = None,
        hosts: Sequence[str] = (),
        lifetime: datetime.timedelta = LIFETIME,
    ) -> Pair:
        """A leaf for servers and clients alike.

        Args:
            name: its common name; for a client the user's name.
            organization: for a client the group it belongs to.
            hosts: the DNS names and IP addresses a server answers by.
            lifetime: how long it is valid from now on.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._draft(named(name, organization), key.public_key(), lifetime)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([host_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        return Pair(pem, private_pem(key), certificate.serial_number)

    def _draft(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: datetime.timedelta = LIFETIME
    ) -> x509.CertificateBuilder:
        """What leaves and the authority have in common; strict verifiers ask for the key identifiers."""
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def named(name: str, organization: str | None = None) -> x509.Name:
    """A distinguished name of one or two parts."""
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def host_name(host: str) -> x509.GeneralName:
    """A subject alternative name: an address if it reads as one, else a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM, without a passphrase."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
