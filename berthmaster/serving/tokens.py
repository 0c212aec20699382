"""Bearer tokens from a file that is replaced while it is in use.

The format is that of Kubernetes' static token file: one ``TOKEN[,NAME[,...]]`` per line. Fields after the name, empty
lines, and lines that begin with ``#`` are ignored. If the file cannot be read, the tokens of the last valid file stay
valid. If the file is empty, no token is valid.
"""

import hashlib
import hmac
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from berthmaster.model.errors import InputError

MIN_LENGTH: Final = 16
_MAX_BYTES: Final = 2**20
_CHECK_INTERVAL_S: Final = 1.0
_SCHEME: Final = "bearer "
_Signature = tuple[int, ...]


class TokenFile:
    """The valid tokens. Safe for several threads."""

    def __init__(self, path: Path, on_failure: Callable[[Exception], None] = lambda _error: None) -> None:
        """Read the file for the first time.

        Args:
            path: the file.
            on_failure: called with the reason why the file cannot be used, once for each state of the file. A missing
                file is a state too.

        Raises:
            InputError: the file cannot be used, or contains no token.
        """
        self._path = path
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._check_at = 0.0
        self._failing = False
        self._reported: _Signature | None = ()
        try:
            self._seen = self._signature()
            self._names = self._read()
        except (OSError, ValueError) as error:
            raise InputError(f"tokens cannot be read from {path}: {error}") from None
        if not self._names:
            raise InputError(f"{path} contains no token")

    def name_of(self, authorization: str) -> str | None:
        """Return the name of the token in an ``Authorization`` header, or None if the token is not valid.

        The comparison takes constant time.
        """
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return None
        self._refresh()
        given = _digest(authorization[len(_SCHEME) :].strip())
        found = None
        for digest, name in self._names.items():
            if hmac.compare_digest(digest, given):
                found = name
        return found

    def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._check_at or not self._lock.acquire(blocking=False):
            return
        signature: _Signature | None = None
        try:
            self._check_at = now + _CHECK_INTERVAL_S
            signature = self._signature()
            if signature != self._seen or self._failing:
                # After a failure, a file may become readable without a visible change.
                self._seen = signature
                self._names = self._read()
                self._failing, self._reported = False, ()
        except (OSError, ValueError) as error:
            self._failing = True
            if signature != self._reported:
                self._reported = signature
                self._on_failure(error)
        finally:
            self._lock.release()

    def _signature(self) -> _Signature:
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> dict[bytes, str]:
        with self._path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES} bytes")
        names = {}
        for number, line in enumerate(data.decode().splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            token, *rest = (part.strip() for part in line.split(","))
            if len(token) < MIN_LENGTH:
                raise ValueError(f"line {number}: a token needs at least {MIN_LENGTH} characters")
            names[_digest(token)] = rest[0] if rest else ""
        return names


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
