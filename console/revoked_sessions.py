"""Sessions that ended before their time, as files that all processes of a console share."""

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_DIGEST_BYTES: Final = 16
_SCANS: Final = 16
"""How often a process looks for old files in the lifetime of a session."""


class RevokedSessions:
    """A folder with one empty file for each session that ended early. Safe for several processes."""

    def __init__(self, folder: Path, lifetime_s: float) -> None:
        """Use a folder, which exists."""
        self._folder, self._lifetime_s, self._clean_at_s = folder, lifetime_s, 0.0

    def add(self, session: str) -> None:
        """End a session. Raises ``OSError`` if the folder cannot be written."""
        self._file(session).touch()
        now_s = time.time()
        if now_s < self._clean_at_s:
            return
        # A scan takes time with the number of files, so it is not part of each sign-out.
        self._clean_at_s = now_s + self._lifetime_s / _SCANS
        for each in self._folder.glob("session-*"):
            with suppress(FileNotFoundError):  # another process cleans, too
                if each.stat().st_mtime < now_s - self._lifetime_s:
                    each.unlink()

    def __contains__(self, session: str) -> bool:
        return self._file(session).exists()

    def _file(self, session: str) -> Path:
        return self._folder / f"session-{hashlib.sha256(session.encode()).hexdigest()[: 2 * _DIGEST_BYTES]}"
