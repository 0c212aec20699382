"""Files that are read again when they change, and whose last valid content stays in use otherwise."""

import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from berthmaster.runtime.file_states import FileStates, file_states

MAX_FILE_BYTES: Final = 2**20
_RETRY_S: Final = 1.0
_WAIT_S: Final = 1.0
"""The time for which threads wait while another thread reads the files, which usually takes milliseconds."""

Content = TypeVar("Content")


def read_regular_file(path: Path) -> bytes:
    """Read a file of at most ``MAX_FILE_BYTES``. Never waits: to open a named pipe would wait for a writer.

    Raises:
        OSError: the file cannot be read.
        ValueError: the path is no regular file, or the file is too large.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is not a regular file")
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return data


class ReloadedFiles(Generic[Content]):
    """The content of files, read again when the files change. Safe for several threads."""

    def __init__(
        self,
        paths: Sequence[Path],
        load: Callable[[], Content],
        on_failure: Callable[[Exception], None],
        *,
        check_interval_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the files for the first time.

        Args:
            load: reads the files. It raises OSError or ValueError if they cannot be used.
            on_failure: called with the reason why new files cannot be used, once for each state of the files. A missing
                file is a state too.

        Raises:
            OSError, ValueError: the files cannot be used.
        """
        self._paths, self._load, self._on_failure = paths, load, on_failure
        self._check_interval_s = check_interval_s
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._check_at = self._retry_at = 0.0
        self._failing = False
        self._reported: FileStates | None = None
        self._seen = file_states(paths)
        self._content = load()

    def content(self, *, check: bool = False) -> Content:
        """Return the last valid content. Never raises.

        Args:
            check: whether the files are checked now, however short ago the last check was.
        """
        # A thread waits while another thread reads the files, because it must not use old content after a change.
        if (check or self._monotonic_s() >= self._check_at) and self._lock.acquire(timeout=_WAIT_S):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._content

    def _refresh(self) -> None:
        now = self._monotonic_s()
        self._check_at = now + self._check_interval_s
        signature: FileStates = ()
        try:
            signature = file_states(self._paths)
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
