"""What workers say of themselves, as files of a folder that the process with the probes reads."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from berthmaster.serving.probes import Readiness

_DRAINING: Final = "draining"
_WORKER: Final = "worker-"


class Board:
    """The notice board of a server's processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def post(self, pid: int, health: Readiness) -> None:
        """A worker says how it is."""
        notice = self._folder / f"{_WORKER}{pid}"
        draft = notice.with_name(f".{notice.name}")
        # The folder goes with the server; a worker that still has something to say may come too late.
        with suppress(FileNotFoundError):
            draft.write_bytes(msgspec.json.encode(health))
            draft.replace(notice)

    def remove(self, pid: int) -> None:
        """A worker has ended."""
        (self._folder / f"{_WORKER}{pid}").unlink(missing_ok=True)

    def drain(self) -> None:
        """The server is about to stop."""
        (self._folder / _DRAINING).touch()

    def health(self) -> Readiness:
        """How the server is: ready if it is not about to stop and all workers that have begun are."""
        if (self._folder / _DRAINING).exists():
            return Readiness("draining")
        notices = [health for each in self._folder.glob(f"{_WORKER}*") if (health := _read(each)) is not None]
        if not notices:
            return Readiness("no worker is ready")
        return next(
            (each for each in notices if each.problem), next((each for each in notices if each.note), Readiness())
        )


def _read(notice: Path) -> Readiness | None:
    try:
        return _DECODER.decode(notice.read_bytes())
    except FileNotFoundError:
        return None  # its worker ended in between


_DECODER: Final = msgspec.json.Decoder(Readiness)
