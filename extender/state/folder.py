"""A source that reads a folder of manifests, and reads it again after a change."""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from berthmaster.manifests import load_manifests
from berthmaster.manifests.files import SUFFIXES
from berthmaster.model.errors import InputError
from berthmaster.model.gaps import Gap
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields, log_exceptions
from berthmaster.simulation.world import World, file_gaps, world_of
from extender.state.controllers_lease import LeaseReading, lease_in
from extender.state.state import State
from extender.state.workloads import PLAIN_BINDINGS, BindingOptions

_LOG: Final = logging.getLogger("berthmaster.extender")
_RETRY_S: Final = 30.0
"""The retry interval for invalid content. A file may become readable without a change of its signature."""
_SETTLE_S: Final = 0.2
"""The folder is read after this time without a change, because files are written one after the other."""
_MAX_FILES: Final = 100_000

Signature = tuple[tuple[str, int, int, int], ...]


class _Content(NamedTuple):
    world: World
    lease: LeaseReading
    gaps: Sequence[Gap]


class FolderSource:
    """Updates a state from files and folders: clusters, policies, bindings, and resources that policies claim."""

    def __init__(
        self,
        paths: Sequence[Path],
        clock: Clock,
        failed: Callable[[InputError], None],
        bindings: BindingOptions = PLAIN_BINDINGS,
        *,
        interval_s: float = 2.0,
    ) -> None:
        """Prepare the source. ``failed`` is called once for each new state that is invalid and not used."""
        self._paths = paths
        self._clock = clock
        self._failed = failed
        self._interval_s = interval_s

        def read() -> _Content:
            manifests = load_manifests(paths)
            world = world_of(manifests, bindings.replica_paths, workload_affinity=bindings.workload_affinity)
            found = lease_in((each.document for each in manifests.ignored), bindings.lease)
            return _Content(world, found, file_gaps(manifests, world))

        self._read = read
        self._signature: Signature | None = None
        self._retry_at_s = float("inf")
        self._prepared: _Content | None = None
        self._stop = threading.Event()

    def prepare(self) -> None:
        """Read everything once, before the workers start. Raises ``InputError`` if the manifests are invalid."""
        self._signature = self._current_signature()
        self._prepared = self._read()

    def start(self, state: State) -> None:
        """Apply the prepared manifests, and start to check for changes."""
        if self._prepared is not None:
            self._update(state, self._prepared)
            self._prepared = None
        # A worker that replaces another one inherits manifests that may be old.
        self._look_or_log(state)
        threading.Thread(target=self._run, args=(state,), name="folder-source", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def look(self, state: State) -> None:
        """Read the folder if it changed since the last read, or if invalid content is due for a retry."""
        signature = self._current_signature()
        unchanged = signature == self._signature
        if unchanged and self._clock.monotonic_s() < self._retry_at_s:
            if not state.staleness.problem:
                state.mark_current(self._clock.now())
            return
        if self._signature is not None and not unchanged:
            if self._stop.wait(_SETTLE_S):
                return
            if self._current_signature() != signature:
                return  # files are still being written; the next check reads them
        self._signature, self._retry_at_s = signature, self._clock.monotonic_s() + _RETRY_S
        try:
            self._update(state, self._read())
        except InputError as error:
            if not unchanged or state.staleness.problem != str(error):
                self._failed(error)
            state.mark_stale(str(error), self._clock.now())
        else:
            self._retry_at_s = float("inf")

    def _update(self, state: State, content: _Content) -> None:
        with state.updating(self._clock.now()) as cache:
            cache.replace(content.world)
            state.lease = lambda: content.lease
            state.file_gaps = content.gaps
            state.fingerprint.set(repr(self._signature).encode())
        state.prepare()
        _LOG.info("state loaded", extra=fields(source="folder"))

    def _run(self, state: State) -> None:
        while not self._stop.wait(self._interval_s):
            self._look_or_log(state)

    def _look_or_log(self, state: State) -> None:
        # Without this, an exception would end the thread: the state would age without being marked as stale.
        if not log_exceptions(partial(self.look, state), _LOG, "the manifests could not be read"):
            state.mark_stale("the manifests could not be read; the log has the cause", self._clock.now())

    def _current_signature(self) -> Signature:
        """Return a value that differs if the files differ."""
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
        return path, 0, 0, 0  # the file is missing or unreadable; reading reports it
    return path, stat.st_mtime_ns, stat.st_size, stat.st_ino
