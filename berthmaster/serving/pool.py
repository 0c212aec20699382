"""Who has a thread of the pool, and who waits for one."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from berthmaster.serving.channel import Channel

_PATIENCE_S: Final = 0.25
"""How long a client may take to say what it wants while others wait for its thread."""


class Pool:
    """The clients of a thread pool. Safe for several threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._served: set[Channel] = set()
        self._queued = 0
        self._lock = threading.Lock()

    def queue(self) -> None:
        """One more waits for a thread."""
        with self._lock:
            self._queued += 1

    @contextmanager
    def serving(self, client: Channel) -> Iterator[None]:
        """One that waited has a thread, until the end of the block."""
        with self._lock:
            self._queued -= 1
            self._served.add(client)
        try:
            yield
        finally:
            with self._lock:
                self._served.discard(client)

    def drop_slowest(self) -> None:
        """If every thread is taken, take back as many as others wait for, from who was given one and has not asked."""
        with self._lock:
            if not self._queued or len(self._served) < self._threads:
                return
            impatient_at, wanted = time.monotonic() - _PATIENCE_S, self._queued
            slow = [each for each in self._served if each.receiving and each.started_at < impatient_at]
        for client in sorted(slow, key=lambda each: each.started_at)[:wanted]:
            client.interrupt()
