"""The state from a folder of manifests, read again when something in it changes."""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from berthmaster.manifests import load_manifests
from berthmaster.manifests.files import SUFFIXES
from berthmaster.model.errors import InputError
from berthmaster.model.replicas import ReplicaPath
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import log_exceptions
from berthmaster.simulation.world import World, world_of
from extender.state.state import State

_LOG: Final = logging.getLogger("berthmaster.extender")
_RETRY_S: Final = 30.0
"""Files may have become readable without a change that shows: what could not be used is tried again so often."""
_SETTLE_S: Final = 0.2
"""Files are written one after the other: a folder is read when it has not changed for so long."""
_MAX_FILES: Final = 100_000

Signature = tuple[tuple[str, int, int, int], ...]


class Listener(Protocol):
    """Told what becomes of a source."""

    def source_loaded(self, source: str) -> None:
        """A new state is in force."""

    def source_failed(self, source: str, error: InputError) -> None:
        """A new state cannot be used; the last one stays. Told once for each new state."""


class FolderSource:
    """Feeds a state from files and folders: clusters, policies, bindings, and resources that policies claim."""

    name: Final = "folder"

    def __init__(
        self,
        paths: Sequence[Path],
        clock: Clock,
        listener: Listener,
        *,
        interval_s: float = 2.0,
        replica_paths: Sequence[ReplicaPath] = (),
        workload_affinity: bool = False,
    ) -> None:
        """Look at the paths every ``interval_s`` seconds once started."""
        self._paths = paths
        self._clock = clock
        self._listener = listener
        self._interval_s = interval_s
        self._read: Callable[[], World] = lambda: world_of(
            load_manifests(paths), replica_paths, workload_affinity=workload_affinity
        )
        self._signature: Signature | None = None
        self._retry_at_s = float("inf")
        self._prepared: World | None = None
        self._stop = threading.Event()

    def prepare(self) -> None:
        """Read everything once, so that mistakes show and workers begin with what is there.

        Raises:
            InputError: something is wrong with it.
        """
        self._signature = self._signed()
        self._prepared = self._read()

    def start(self, state: State) -> None:
        """Feed what was prepared, and whatever is new since then and from now on."""
        if self._prepared is not None:
            self._feed(state, self._prepared)
            self._prepared = None
        # A worker that takes the place of another has inherited what was prepared long ago.
        self._look_and_survive(state)
        threading.Thread(target=self._watch, args=(state,), name="folder-source", daemon=True).start()

    def stop(self) -> None:
        """Stop looking."""
        self._stop.set()

    def look(self, state: State) -> None:
        """Read the folder if it has changed since it was read last, or could not be used then and is due again."""
        signature = self._signed()
        again = signature == self._signature
        if again and self._clock.monotonic_s() < self._retry_at_s:
            if not state.freshness.problem:
                state.mark_current(self._clock.now())
            return
        if self._signature is not None and not again:
            if self._stop.wait(_SETTLE_S):
                return
            if self._signed() != signature:
                return  # still being written; the next look will see
        self._signature, self._retry_at_s = signature, self._clock.monotonic_s() + _RETRY_S
        try:
            self._feed(state, self._read())
        except InputError as error:
            told = again and state.freshness.problem == str(error)
            state.mark_stale(str(error), self._clock.now())
            if not told:
                self._listener.source_failed(self.name, error)
        else:
            self._retry_at_s = float("inf")

    def _feed(self, state: State, world: World) -> None:
        with state.feeding(self._clock.now()) as memory:
            memory.take(world)
        self._listener.source_loaded(self.name)

    def _watch(self, state: State) -> None:
        while not self._stop.wait(self._interval_s):
            self._look_and_survive(state)

    def _look_and_survive(self, state: State) -> None:
        # The outermost edge: else the state would grow old and be called fresh, or no worker would start any more.
        if not log_exceptions(partial(self.look, state), _LOG, "the manifests could not be read"):
            state.mark_stale("the manifests could not be read; the log says why", self._clock.now())

    def _signed(self) -> Signature:
        """What tells one state of the files from another."""
        return tuple(_signature(path) for path in sorted(_files(self._paths))[:_MAX_FILES])


def _files(paths: Sequence[Path]) -> list[str]:
    found = []
    for path in paths:
        if not path.is_dir():
            found.append(str(path))
            continue
        for parent, folders, files in os.walk(path):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found.extend(str(Path(parent, name)) for name in files if name.endswith(SUFFIXES))
    return found


def _signature(path: str) -> tuple[str, int, int, int]:
    try:
        stat = Path(path).stat()
    except OSError:
        return path, 0, 0, 0  # it is gone, or cannot be read: reading will say so
    return path, stat.st_mtime_ns, stat.st_size, stat.st_ino
