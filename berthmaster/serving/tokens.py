"""Bearer tokens from a file that is replaced while it is in use."""

import csv
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from berthmaster.model.comma_lists import comma_separated
from berthmaster.model.errors import InputError
from berthmaster.serving.reloaded_files import ReloadedFiles, read_regular_file

MIN_TOKEN_LENGTH: Final = 16
_SCHEME: Final = "bearer "


class TokenUser(NamedTuple):
    """The user of a token."""

    name: str
    groups: tuple[str, ...]
    digest: bytes


class TokenFile:
    """The valid bearer tokens. Safe for several threads.

    The format is that of Kubernetes' static token file: one ``TOKEN[,NAME[,UID[,"GROUP,GROUP"]]]`` per line. Empty
    lines, and lines that begin with ``#`` are ignored. If the file becomes empty, no token is valid.
    """

    def __init__(
        self,
        path: Path,
        on_failure: Callable[[Exception], None] = lambda _error: None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the file for the first time. Raises ``InputError`` if the file cannot be used, or contains no token."""
        self._path = path
        try:
            self._reloaded = ReloadedFiles(
                [path], self._load, on_failure, check_interval_s=1.0, monotonic_s=monotonic_s
            )
        except OSError as error:
            raise InputError(f"tokens cannot be read from {path}: {error.strerror or error}") from None
        except ValueError as error:
            raise InputError(f"tokens cannot be read from {path}: {error}") from None
        if not self._reloaded.content():
            raise InputError(f"{path} contains no token; write one TOKEN[,NAME] per line")

    def name_of(self, authorization: str) -> str | None:
        """Return the name of the token in an ``Authorization`` header, or None if the token is not valid."""
        user = self.user_of(bearer_token(authorization))
        return None if user is None else user.name

    def user_of(self, token: str) -> TokenUser | None:
        """Return the user of a token, or None if it is not valid. The comparison takes constant time."""
        given, found = _digest(token), None
        for user in self._reloaded.content().values():
            if hmac.compare_digest(user.digest, given):
                found = user
        return found

    @property
    def users(self) -> Mapping[bytes, TokenUser]:
        return self._reloaded.content()

    def _load(self) -> Mapping[bytes, TokenUser]:
        users = {}
        for number, line in enumerate(read_regular_file(self._path).decode().splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            token, *rest = (part.strip() for part in line.split(","))
            if len(token) < MIN_TOKEN_LENGTH:
                raise ValueError(f"line {number}: a token needs at least {MIN_TOKEN_LENGTH} characters")
            digest = _digest(token)
            users[digest] = TokenUser(rest[0] if rest else "", _groups(line), digest)
        return users


def bearer_token(authorization: str) -> str:
    """Return the token of an ``Authorization`` header; empty for another scheme."""
    return authorization[len(_SCHEME) :].strip() if authorization[: len(_SCHEME)].lower() == _SCHEME else ""


def _groups(line: str) -> tuple[str, ...]:
    """Return the groups in the fourth field of a line: one, or several in double quotes with commas between them."""
    fields = next(csv.reader([line]), [])
    return tuple(comma_separated(fields[3])) if len(fields) > 3 else ()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
