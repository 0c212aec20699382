"""A throw-away certificate authority."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Issues leaves for loopback into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._signed(self._name, self._key, is_ca=True).public_bytes(Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """The certificate and the key of a name; the same ones each time."""
        certificate, key_file = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        if not certificate.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            certificate.write_bytes(self._signed(_name(name), key, is_ca=False).public_bytes(Encoding.PEM))
        return certificate, key_file

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_ca: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
        )
        if not is_ca:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
