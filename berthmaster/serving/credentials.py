"""Credentials from files that are replaced while they are in use: the TLS context of a server, and bearer tokens.

If new files cannot be used, the last valid content stays in use. This matters for TLS in particular: the files change
one after the other, and between two changes the new certificate does not match the old key. Every handshake with that
pair would fail.
"""

import hashlib
import hmac
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from cryptography import x509

from berthmaster.model.errors import InputError

MINIMUM_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
MIN_TOKEN_LENGTH: Final = 16
_MAX_TOKEN_FILE_BYTES: Final = 2**20
_SCHEME: Final = "bearer "
_RETRY_S: Final = 1.0
_WAIT_S: Final = 1.0
"""The time for which threads wait while another thread reads the files, which usually takes milliseconds."""

Content = TypeVar("Content")
_Signature = tuple[tuple[int, int, int], ...]


class ReloadedFiles(Generic[Content]):
    """The content of files, read again when the files change. Safe for several threads."""

    def __init__(
        self,
        paths: Sequence[Path],
        load: Callable[[], Content],
        on_failure: Callable[[Exception], None],
        *,
        check_interval_s: float,
    ) -> None:
        """Read the files for the first time.

        Args:
            paths: the files.
            load: reads the files. It raises OSError or ValueError if they cannot be used.
            on_failure: called with the reason why new files cannot be used, once for each state of the files. A missing
                file is a state too.
            check_interval_s: the minimum time between two checks for changes.

        Raises:
            OSError, ValueError: the files cannot be used.
        """
        self._paths, self._load, self._on_failure = paths, load, on_failure
        self._check_interval_s = check_interval_s
        self._lock = threading.Lock()
        self._check_at = self._retry_at = 0.0
        self._failing = False
        self._reported: _Signature | None = None
        self._seen = self._signature()
        self._content = load()

    def content(self) -> Content:
        """Return the last valid content. Never raises."""
        # A thread waits while another thread reads the files, because it must not use old content after a change.
        if time.monotonic() >= self._check_at and self._lock.acquire(timeout=_WAIT_S):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._content

    def _refresh(self) -> None:
        now = time.monotonic()
        self._check_at = now + self._check_interval_s
        signature: _Signature = ()
        try:
            signature = self._signature()
            # After a failure, a file may become readable without a visible change.
            if signature == self._seen and not (self._failing and now >= self._retry_at):
                return
            # The content that is read below may be newer than the signature. The next check then finds a change again.
            self._seen = signature
            self._content = self._load()
        except (OSError, ValueError) as error:
            self._failing, self._retry_at = True, now + _RETRY_S
            if signature != self._reported:
                self._reported = signature
                self._on_failure(error)
            return
        self._failing, self._reported = False, None

    def _signature(self) -> _Signature:
        stats = (path.stat() for path in self._paths)
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in stats)


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
            on_failure: see ``ReloadedFiles``.

        Raises:
            InputError: the files cannot be used.
        """
        self._files = files
        self._on_load = on_load
        self.expires_at = 0.0
        try:
            self._reloaded = ReloadedFiles(files.paths, self._load, on_failure, check_interval_s=0.0)
        except (OSError, ValueError) as error:
            raise InputError(f"TLS cannot be set up from {', '.join(map(str, files.paths))}: {error}") from None

    def context(self) -> ssl.SSLContext:
        """Return the context of the newest valid pair. Never raises."""
        return self._reloaded.content()

    def _load(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = MINIMUM_VERSIONS[files.minimum_version]
        context.set_alpn_protocols(["http/1.1"])
        # Refuse encrypted keys: without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        leaf = x509.load_pem_x509_certificates(files.certificate.read_bytes())[0]
        self.expires_at = leaf.not_valid_after_utc.timestamp()
        self._on_load(self.expires_at)
        return context


class TokenFile:
    """The valid bearer tokens. Safe for several threads.

    The format is that of Kubernetes' static token file: one ``TOKEN[,NAME[,...]]`` per line. Fields after the name,
    empty lines, and lines that begin with ``#`` are ignored. If the file becomes empty, no token is valid.
    """

    def __init__(self, path: Path, on_failure: Callable[[Exception], None] = lambda _error: None) -> None:
        """Read the file for the first time.

        Args:
            path: the file.
            on_failure: see ``ReloadedFiles``.

        Raises:
            InputError: the file cannot be used, or contains no token.
        """
        self._path = path
        try:
            self._reloaded = ReloadedFiles([path], self._load, on_failure, check_interval_s=1.0)
        except (OSError, ValueError) as error:
            raise InputError(f"tokens cannot be read from {path}: {error}") from None
        if not self._reloaded.content():
            raise InputError(f"{path} contains no token")

    def name_of(self, authorization: str) -> str | None:
        """Return the name of the token in an ``Authorization`` header, or None if the token is not valid.

        The comparison takes constant time.
        """
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return None
        given = _digest(authorization[len(_SCHEME) :].strip())
        found = None
        for digest, name in self._reloaded.content().items():
            if hmac.compare_digest(digest, given):
                found = name
        return found

    def _load(self) -> Mapping[bytes, str]:
        with self._path.open("rb") as file:
            data = file.read(_MAX_TOKEN_FILE_BYTES + 1)
        if len(data) > _MAX_TOKEN_FILE_BYTES:
            raise ValueError(f"larger than {_MAX_TOKEN_FILE_BYTES} bytes")
        names = {}
        for number, line in enumerate(data.decode().splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            token, *rest = (part.strip() for part in line.split(","))
            if len(token) < MIN_TOKEN_LENGTH:
                raise ValueError(f"line {number}: a token needs at least {MIN_TOKEN_LENGTH} characters")
            names[_digest(token)] = rest[0] if rest else ""
        return names


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
