"""The readiness of each worker of a server, and whether the server drains."""

import mmap
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from berthmaster.serving.probes import Readiness

_WORKER: Final = "worker-"
_DECODER: Final = msgspec.json.Decoder(Readiness)


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
