"""Bearer tokens from a file that is replaced while it is in use."""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from berthmaster.model.errors import InputError
from berthmaster.serving.reloaded_files import ReloadedFiles, read_regular_file

MIN_TOKEN_LENGTH: Final = 16
_SCHEME: Final = "bearer "


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
        names = {}
        for number, line in enumerate(read_regular_file(self._path).decode().splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            token, *rest = (part.strip() for part in line.split(","))
            if len(token) < MIN_TOKEN_LENGTH:
                raise ValueError(f"line {number}: a token needs at least {MIN_TOKEN_LENGTH} characters")
            names[_digest(token)] = rest[0] if rest else ""
        return names


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
