"""Bearer tokens from a file that is replaced while it is in use.

The format is that of Kubernetes' static token file, ``TOKEN[,NAME[,...]]`` a line; what follows the name is passed
over, and so are empty lines and those that begin with ``#``. A file that cannot be read leaves the last good one in
force; an empty one lets nobody in.
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
_LOOK_EVERY_S: Final = 1.0
_SCHEME: Final = "bearer "
_Signature = tuple[int, ...]


class TokenFile:
    """Who may come in. Safe to share among threads."""

    def __init__(self, path: Path, on_failure: Callable[[Exception], None] = lambda _error: None) -> None:
        """Read the file for the first time.

        Args:
            path: the file.
            on_failure: told why the file cannot be used, once for each state of it; none is a state, too.

        Raises:
            InputError: it cannot be used, or holds no token.
        """
        self._path = path
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._look_at = 0.0
        self._failing = False
        self._reported: _Signature | None = ()
        try:
            self._seen = self._signature()
            self._names = self._read()
        except (OSError, ValueError) as error:
            raise InputError(f"tokens cannot be read from {path}: {error}") from None
        if not self._names:
            raise InputError(f"{path} holds no token")

    def name_of(self, authorization: str) -> str | None:
        """Whose token an ``Authorization`` header carries; None if it carries none that is known.

        Takes as long for a token that is nearly right as for any other.
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
        if now < self._look_at or not self._lock.acquire(blocking=False):
            return
        signature: _Signature | None = None
        try:
            self._look_at = now + _LOOK_EVERY_S
            signature = self._signature()
            if signature != self._seen or self._failing:
                # What could not be read may be readable now, and no change shows.
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
                raise ValueError(f"line {number}: a token has at least {MIN_LENGTH} characters")
            names[_digest(token)] = rest[0] if rest else ""
        return names


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
