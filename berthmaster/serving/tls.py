"""The TLS context of a server, from files that are replaced while they are in use.

If new files cannot be used, the last valid set stays in use. This matters because the files change one after the
other, and between two changes the new certificate does not match the old key. Every handshake with that pair would
fail. All processes of a server use the same set: the last valid one that any of them has read.
"""

import hashlib
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from berthmaster.model.errors import InputError
from berthmaster.serving.reloaded_files import MAX_FILE_BYTES, ReloadedFiles, read_regular_file
from berthmaster.serving.shared_bytes import SharedBytes

MINIMUM_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_SHARED_BYTES: Final = 3 * MAX_FILE_BYTES + 64


@dataclass(frozen=True, slots=True)
class TLSFiles:
    """The TLS files of a server.

    Attributes:
        certificate: the certificate chain in PEM, leaf certificate first.
        client_ca: the CAs that must have signed client certificates, in PEM. None requires no client certificates.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    minimum_version: str = "1.3"

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.certificate, self.key) if self.client_ca is None else (self.certificate, self.key, self.client_ca)


class ServerContext(ssl.SSLContext):
    """A TLS context of a server."""

    client_authorities: frozenset[bytes] = frozenset()


class _UsedSet(NamedTuple):
    version: int
    context: ServerContext
    expires_at: float


class TLSSource:
    """The TLS context for new connections. Safe for several threads. Create it before processes are forked."""

    def __init__(
        self,
        files: TLSFiles,
        *,
        on_load: Callable[[float], None] = lambda _expires_at: None,
        on_failure: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        """Read the files for the first time. Raises ``InputError`` if the files cannot be used."""
        self._files = files
        self._on_load = on_load
        self._used: _UsedSet | None = None
        self._lock = threading.Lock()
        try:
            self._shared = SharedBytes(_SHARED_BYTES)
            self._reloaded = ReloadedFiles(files.paths, self._load, on_failure, check_interval_s=0.0)
        except ssl.SSLError as error:
            names = ", ".join(map(str, files.paths))
            raise InputError(
                f"TLS cannot be set up from {names}: accepted are certificates and a key that match, in PEM ({error})"
            ) from None
        except OSError as error:
            raise InputError(f"TLS cannot be set up: {error.filename}: {error.strerror or error}") from None
        except ValueError as error:
            raise InputError(f"TLS cannot be set up from {', '.join(map(str, files.paths))}: {error}") from None

    @property
    def expires_at(self) -> float:
        """The expiry of the certificate in use, in seconds since the epoch."""
        return self._used.expires_at if self._used is not None else 0.0

    def context(self) -> ServerContext:
        """Return the context of the newest valid set. Never raises."""
        first = self._reloaded.content()
        used = self._used or first
        if self._shared.version != used.version:
            with suppress(OSError, ValueError), self._lock, self._shared.locked():
                used = self._adopt() or used
        return used.context

    def trusts_clients_of(self, context: ServerContext) -> bool:
        """Return whether each CA that an earlier context trusted is still trusted."""
        return context.client_authorities <= self.context().client_authorities

    def _load(self) -> _UsedSet:
        """Read the files. Processes take turns, so that none shares an older set than another has shared."""
        with self._lock, self._shared.locked():
            used = self._adopt()
            content = msgspec.msgpack.encode([read_regular_file(path) for path in self._files.paths])
            if used is not None and content == self._shared.read():
                return used
            new = self._built(content, self._shared.version + 1)
            now = time.time()
            if used is not None and new.expires_at <= now < used.expires_at:
                expired = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(new.expires_at))
                raise ValueError(f"the certificate expired at {expired}")
            self._shared.write(content)
            return self._use(new)

    def _adopt(self) -> _UsedSet | None:
        """Use the set that another process has read, if it is newer than the own one. None before the first one."""
        if (version := self._shared.version) and (self._used is None or self._used.version != version):
            self._use(self._built(self._shared.read(), version))
        return self._used

    def _use(self, new: _UsedSet) -> _UsedSet:
        self._used = new
        self._on_load(new.expires_at)
        return new

    def _built(self, content: bytes, version: int) -> _UsedSet:
        certificate, key, *client_ca = msgspec.msgpack.decode(content, type=list[bytes])
        context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = MINIMUM_VERSIONS[self._files.minimum_version]
        context.set_alpn_protocols(["http/1.1"])
        with _in_memory(certificate) as certificate_path, _in_memory(key) as key_path:
            # Refuse encrypted keys: without a password, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate_path, key_path, password="")
        for each in client_ca:
            with _in_memory(each) as path:
                context.load_verify_locations(path)
            context.verify_mode = ssl.CERT_REQUIRED
            context.client_authorities = _fingerprints(each)
        leaf = x509.load_pem_x509_certificates(certificate)[0]
        return _UsedSet(version, context, leaf.not_valid_after_utc.timestamp())


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Yield the path of a file in memory: OpenSSL reads keys from files only."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    with os.fdopen(os.memfd_create("tls", os.MFD_CLOEXEC), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _fingerprints(pem: bytes) -> frozenset[bytes]:
    try:
        return frozenset(each.fingerprint(hashes.SHA256()) for each in x509.load_pem_x509_certificates(pem))
    except ValueError:  # OpenSSL reads more kinds of CA files
        return frozenset([hashlib.sha256(pem).digest()])
