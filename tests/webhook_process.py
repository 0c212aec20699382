"""The webhook in a separate process, and certificates for it."""

import ipaddress
import json
import os
import signal
import ssl
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from free_ports import free_port
from fresh_metrics import fresh
from servers import Wire, probe
from waiting import LIMIT_S, wait_for


@dataclass(frozen=True)
class Pair:
    """A self-signed certificate and its key in PEM."""

    certificate: bytes
    key: bytes

    @property
    def serial(self):
        return x509.load_pem_x509_certificate(self.certificate).serial_number

    def write(self, folder: Path, name="tls"):
        (folder / f"{name}.crt").write_bytes(self.certificate)
        (folder / f"{name}.key").write_bytes(self.key)


def make_pair(days=30, name="webhook"):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)


class Server:
    """A running webhook."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.port, self.probe_port = free_port(), free_port()
        self.log = folder / "log"
        arguments = (
            *("--bind", f"127.0.0.1:{self.port}", "--probe-bind", f"127.0.0.1:{self.probe_port}"),
            *("--cert-file", str(folder / "tls.crt"), "--key-file", str(folder / "tls.key"), *options),
        )
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter and our command
                [sys.executable, "-m", "berthmaster_cli.main", "webhook", *arguments], stdout=log, stderr=log
            )

    def wait_until_ready(self):
        def ready():
            assert self.process.poll() is None, self.log.read_text()
            return self.probe("/readyz")[0] == 200

        wait_for(ready, self.log.read_text)

    def probe(self, path):
        return probe(self.probe_port, path)

    def metrics(self):
        return fresh(self.probe_port, lambda: self.probe("/metrics")[1])

    def metric(self, name, text=None, **labels):
        total = 0.0
        for line in (text or self.metrics()).splitlines():
            sample, _, value = line.rpartition(" ")
            if sample.partition("{")[0] == name and all(f'{key}="{each}"' in sample for key, each in labels.items()):
                total += float(value)
        return total

    def connection(self, client: Pair | None = None, folder: Path | None = None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.folder / "tls.crt")
        if client is not None and folder is not None:
            client.write(folder, "client")
            context.load_cert_chain(folder / "client.crt", folder / "client.key")
        return HTTPSConnection("127.0.0.1", self.port, timeout=LIMIT_S, context=context)

    def wire(self):
        return Wire(self.port, ssl.create_default_context(cafile=self.folder / "tls.crt"))

    def workers(self):
        """Return the process ids of all workers since the start."""
        booted = [json.loads(line)["message"] for line in self.log.read_text().splitlines() if "Booting" in line]
        return [int(message.rsplit(" ", 1)[1]) for message in booted]

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        return self.process.wait(timeout=2 * LIMIT_S)


@contextmanager
def running(folder: Path, *options: str, pair: Pair | None = None):
    (pair or make_pair()).write(folder)
    server = Server(folder, *options)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()
