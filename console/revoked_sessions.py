"""Sessions that ended by a sign-out. All processes of a console share a folder, so a copied cookie is of no use."""

import hashlib
import time
from pathlib import Path
from typing import Final

_DIGEST_BYTES: Final = 16


class RevokedSessions:
    """A folder with one empty file for each session that ended early. Safe for several processes."""

    def __init__(self, folder: Path, lifetime_s: float) -> None:
        """Use a folder, which exists."""
        self._folder, self._lifetime_s = folder, lifetime_s

    def add(self, session: str) -> None:
        """End a session. Raises ``OSError`` if the folder cannot be written."""
        self._file(session).touch()
        for each in self._folder.glob("session-*"):
            if each.stat().st_mtime < time.time() - self._lifetime_s:
                each.unlink(missing_ok=True)

    def __contains__(self, session: str) -> bool:
        return self._file(session).exists()

    def _file(self, session: str) -> Path:
        return self._folder / f"session-{hashlib.sha256(session.encode()).hexdigest()[: 2 * _DIGEST_BYTES]}"
