"""What protects the way to an estimator: nothing, or TLS, with or without a certificate of our own."""

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509

from berthmaster.model.errors import InputError, ServiceError

_PRESENTED_LIMIT_S: Final = 5.0


class Trust(NamedTuple):
    """What a connection is made with, as PEM.

    Attributes:
        roots: whom to trust.
        certificate, key: our own; None without one.
        name: what the server's certificate must be for; empty for the host that is asked.
    """

    roots: bytes
    certificate: bytes | None = None
    key: bytes | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class TLSOptions:
    """How estimators are trusted, and how they may trust us.

    Without an authority, and unless verification is skipped, connections are plain, as Karmada's are. Files are read
    again for each new connection, so that replaced ones need no restart.

    Attributes:
        ca_file: the authority that signed their certificates.
        cert_file, key_file: our own certificate and its key.
        insecure_skip_verify: take whatever certificate they show.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure_skip_verify: bool = False

    @property
    def plain(self) -> bool:
        """Whether there is no TLS at all."""
        return self.ca_file is None and not self.insecure_skip_verify

    def check(self) -> None:
        """See whether the options and files are fit for use.

        Raises:
            InputError: they are not. Karmada passes over a certificate without an authority, and speaks plainly.
        """
        if (self.cert_file is None) != (self.key_file is None):
            raise InputError("a certificate and its key for scheduler estimators belong together: give both, or none")
        if self.cert_file is not None and self.plain:
            raise InputError(
                "a certificate is shown to scheduler estimators over TLS only: name their authority as well, "
                "or skip verification"
            )
        try:
            if self.ca_file is not None and not self.insecure_skip_verify:
                ssl.create_default_context(cafile=self.ca_file)
            self._context()
        except (OSError, ValueError) as error:
            raise InputError(f"TLS to scheduler estimators cannot be set up: {error}") from None

    def trust(self, address: str) -> Trust | None:
        """What to connect to ``host:port`` with; None for a plain connection.

        Raises:
            ServiceError: a file cannot be read, or there is no certificate to be had there.
        """
        if self.plain:
            return None
        try:
            ours = (
                None if self.cert_file is None else self.cert_file.read_bytes(),
                None if self.key_file is None else self.key_file.read_bytes(),
            )
            if self.ca_file is not None and not self.insecure_skip_verify:
                return Trust(self.ca_file.read_bytes(), *ours)
            return self._presented(address, *ours)
        except (OSError, ValueError) as error:
            raise ServiceError(f"{address}: {error}") from None

    def _presented(self, address: str, certificate: bytes | None, key: bytes | None) -> Trust:
        """Trust in the very certificate that a server shows: gRPC has no way to trust just anyone."""
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=_PRESENTED_LIMIT_S) as plain,
            self._context().wrap_socket(plain, server_hostname=host) as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
        if shown is None:
            raise ServiceError(f"{address}: it shows no certificate")
        return Trust(ssl.DER_cert_to_PEM_cert(shown).encode(), certificate, key, _name_in(shown))

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # what it shows is pinned; that this is no proof is what was asked for
        context.set_alpn_protocols(["h2"])
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


def _name_in(certificate: bytes) -> str:
    """A name that a certificate is for; empty if it says none."""
    try:
        extension = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return ""
    names = extension.value.get_values_for_type(x509.DNSName)
    hosts = [*names, *map(str, extension.value.get_values_for_type(x509.IPAddress))]
    return hosts[0].replace("*", "any", 1) if hosts else ""
