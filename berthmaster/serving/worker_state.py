"""The state that the processes of a server share: connections per worker, and the readiness of each worker."""

import mmap
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from berthmaster.serving.probes import Readiness

_SLOT_BYTES: Final = 4
_EMPTY: Final = 0
_TOLERANCE: Final = 8
_WORKER: Final = "worker-"


class ConnectionBalance:
    """The number of connections of each worker, in shared memory. Create it before workers are forked.

    All workers accept connections from one queue. A busy worker would take most of them and keep them, because control
    planes hold few connections for a long time. A worker therefore leaves a new connection, for a moment, to workers
    that have fewer.

    Each worker has a slot, by its number. A slot holds the number of connections plus one, or 0 without a worker. After
    many crashes two workers may share a slot. Then connections are less balanced, and there is no other effect.
    """

    def __init__(self, workers: int) -> None:
        self._size = 2 * workers  # old and new workers exist at the same time during a restart
        self._slots = memoryview(mmap.mmap(-1, self._size * _SLOT_BYTES)).cast("I")

    def report(self, worker: int, connections: int) -> None:
        self._slots[worker % self._size] = connections + 1

    def ended(self, worker: int) -> None:
        self._slots[worker % self._size] = _EMPTY

    def other_has_fewer(self, connections: int) -> bool:
        """Return whether one other worker has clearly fewer connections. Small differences do not count."""
        fewest = min(filter(None, self._slots), default=connections + 1) - 1
        return connections > fewest + fewest // _TOLERANCE


class WorkerHealth:
    """The readiness of each worker, and whether the server drains. Create it before workers are forked.

    Readiness is in files of a folder, which the process that serves the probes reads. All processes share the memory
    that says whether the server drains: workers read it for each request.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._draining = memoryview(mmap.mmap(-1, 1))

    def report(self, pid: int, readiness: Readiness) -> None:
        file = self._folder / f"{_WORKER}{pid}"
        draft = file.with_name(f".{file.name}")
        # The server removes the folder when it ends. A worker may still report after that.
        with suppress(FileNotFoundError):
            draft.write_bytes(msgspec.json.encode(readiness))
            draft.replace(file)

    def remove(self, pid: int) -> None:
        (self._folder / f"{_WORKER}{pid}").unlink(missing_ok=True)

    def drain(self) -> None:
        """Mark the server as about to stop."""
        self._draining[0] = True

    def is_draining(self) -> bool:
        """Return whether the server is about to stop."""
        return bool(self._draining[0])

    def readiness(self) -> Readiness:
        """Return the readiness of the server. It is ready if it is not about to stop and all its workers are ready."""
        if self.is_draining():
            return Readiness("draining")
        reports = [found for file in self._folder.glob(f"{_WORKER}*") if (found := _read(file)) is not None]
        if not reports:
            return Readiness("no worker is ready")
        problem = next((each for each in reports if each.problem), None)
        return problem or next((each for each in reports if each.note), Readiness())


def _read(file: Path) -> Readiness | None:
    try:
        return _DECODER.decode(file.read_bytes())
    except FileNotFoundError:
        return None  # the worker ended after the folder was listed


_DECODER: Final = msgspec.json.Decoder(Readiness)
