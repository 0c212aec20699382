"""The TLS context of a server, from files that are replaced while it runs.

The files change one after the other. Between two changes, the new certificate does not match the old key, and every
handshake with that pair would fail. The last valid pair therefore stays in use until the next pair is valid.
"""

import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from berthmaster.model.errors import InputError

MINIMUM_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_RETRY_S: Final = 1.0
_CHECK_LIMIT_S: Final = 1.0
"""The time for which connections wait while another thread reads the files, which usually takes milliseconds."""
_Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TLSFiles:
    """The TLS files of a server.

    Attributes:
        certificate: the certificate chain in PEM, leaf certificate first.
        key: the private key of the leaf certificate in PEM.
        client_ca: the CAs that must have signed client certificates, in PEM. None requires no client certificates.
        minimum_version: a key of ``MINIMUM_VERSIONS``.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    minimum_version: str = "1.3"

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return (self.certificate, self.key) if self.client_ca is None else (self.certificate, self.key, self.client_ca)


class TLSSource:
    """The TLS context for new connections. Safe for several threads.

    Attributes:
        expires_at: the expiry of the certificate in use, in seconds since the epoch.
    """

    def __init__(
        self,
        files: TLSFiles,
        *,
        on_load: Callable[[float], None] = lambda _expires_at: None,
        on_failure: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        """Read the files for the first time.

        Args:
            files: the files.
            on_load: called with the expiry of the certificate of each new pair.
            on_failure: called with the reason why a new pair cannot be used, once for each state of the files.

        Raises:
            InputError: the files cannot be used.
        """
        self._files = files
        self._on_load, self._on_failure = on_load, on_failure
        self._lock = threading.Lock()
        self._seen: _Signature = ()
        self._reported: _Signature | None = None
        self._retry_at = 0.0
        self._failing = False
        try:
            self._seen = self._signature()
            self._context, self.expires_at = self._load()
        except (OSError, ValueError) as error:
            raise InputError(f"TLS cannot be set up from {', '.join(map(str, files.paths))}: {error}") from None
        on_load(self.expires_at)

    def context(self) -> ssl.SSLContext:
        """Return the context of the newest valid pair. Never raises."""
        # Connections wait while another thread reads the files. Clients reconnect in bursts when they no longer trust
        # the old certificate, and all of them must get the new one.
        if not self._lock.acquire(timeout=_CHECK_LIMIT_S):
            return self._context
        try:
            self._refresh()
        finally:
            self._lock.release()
        return self._context

    def _refresh(self) -> None:
        signature: _Signature = ()
        try:
            signature = self._signature()
            changed = signature != self._seen
            if not changed and not (self._failing and time.monotonic() >= self._retry_at):
                return
            # The content that is read below may be newer than the signature. The next check then finds a change again.
            self._seen = signature
            self._context, self.expires_at = self._load()
        except (OSError, ValueError) as error:
            self._failing, self._retry_at = True, time.monotonic() + _RETRY_S
            if signature != self._reported:
                self._reported = signature
                self._on_failure(error)
            return
        self._failing, self._reported = False, None
        self._on_load(self.expires_at)

    def _signature(self) -> _Signature:
        stats = (path.stat() for path in self._files.paths)
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in stats)

    def _load(self) -> tuple[ssl.SSLContext, float]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = MINIMUM_VERSIONS[self._files.minimum_version]
        context.set_alpn_protocols(["http/1.1"])
        # Refuse encrypted keys: without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(self._files.certificate, self._files.key, password="")
        if self._files.client_ca is not None:
            context.load_verify_locations(self._files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context, _expiry(self._files.certificate)


def _expiry(certificate: Path) -> float:
    """Return the expiry of the first certificate in a PEM file."""
    return x509.load_pem_x509_certificates(certificate.read_bytes())[0].not_valid_after_utc.timestamp()
