"""One value and its version, in memory that the processes of a server share."""

import errno
import fcntl
import mmap
import os
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NUMBERS: Final = 3
_NUMBER_BYTES: Final = 8
_WAIT_S: Final = 1.0
_RETRY_S: Final = 0.002


class SharedBytes:
    """One value and its version, in memory. Create it before processes are forked. One thread of a process uses it.

    A process that is killed while it writes leaves the previous value: there are two slots, and the version says which
    of them is valid. The lock of a killed process is released by the kernel.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._start = _NUMBERS * _NUMBER_BYTES
        self._memory = mmap.mmap(-1, self._start + 2 * limit_bytes)
        self._numbers = memoryview(self._memory)[: self._start].cast("Q")  # the version, and the size of each slot
        self._lock, path = tempfile.mkstemp(prefix="berthmaster-lock-")
        Path(path).unlink()
        weakref.finalize(self, os.close, self._lock)

    @property
    def version(self) -> int:
        """The number of writes so far. Needs no lock."""
        return self._numbers[0]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from reading and writing until the end of the block.

        Raises:
            BlockingIOError: another process keeps the lock.
        """
        until = time.monotonic() + _WAIT_S
        while not self._acquire():
            if time.monotonic() >= until:
                raise BlockingIOError(errno.EAGAIN, "another process keeps the lock of the shared content")
            time.sleep(_RETRY_S)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def read(self) -> bytes:
        """Return the value; empty at version 0. Call it in ``locked``."""
        slot = self.version % 2
        start = self._start + slot * self._limit_bytes
        return self._memory[start : start + self._numbers[1 + slot]]

    def write(self, value: bytes) -> None:
        """Replace the value. Call it in ``locked``. Raises ``ValueError`` if the value is too large."""
        if len(value) > self._limit_bytes:
            raise ValueError(f"{len(value)} bytes; at most {self._limit_bytes} are shared")
        slot = (self.version + 1) % 2
        start = self._start + slot * self._limit_bytes
        self._memory[start : start + len(value)] = value
        self._numbers[1 + slot] = len(value)
        self._numbers[0] += 1

    def _acquire(self) -> bool:
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True
