"""The health of a controllers process: liveness and readiness."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from berthmaster.controllers.controller import Controller
from berthmaster.controllers.metrics import stale_s
from berthmaster.kube.informer import Informer
from berthmaster.kube.source_check import SourceCheck
from berthmaster.runtime.clock import Clock
from berthmaster.serving.probes import Readiness

STUCK_S: Final = 300.0
"""A reconcile that runs for this long will not end: each of its requests has a much shorter timeout."""


class ProcessHealth:
    """Answers the probes. The threads of the probe server call it."""

    def __init__(
        self,
        controllers: Sequence[Controller],
        informers: Callable[[], Iterable[Informer[Any]]],
        leading: Callable[[], bool],
        election_problem: Callable[[], str],
        clock: Clock,
        source: SourceCheck | None = None,
    ) -> None:
        self.stopping = False
        self._controllers = controllers
        self._informers = informers
        self._leading = leading
        self._election_problem = election_problem
        self._clock = clock
        self._source = source

    def dead(self) -> str:
        """Return why the process must be restarted; empty if it need not."""
        for each in self._controllers:
            load = each.load()
            if load.longest_s > STUCK_S:
                return f"{each.name}: one reconcile has been running for {load.longest_s:.0f} s"
            if load.dead_workers:
                return f"{each.name}: {load.dead_workers} workers have ended"
        return self._election_problem()

    def readiness(self) -> Readiness:
        """Return ready once all informers are synced, for the leader and for standbys."""
        if self.stopping:
            return Readiness("stopping")
        informers = list(self._informers())
        missing = [
            f"{each.collection.plural} ({each.problem})" if each.problem else each.collection.plural
            for each in informers
            if not each.listed
        ]
        if missing:
            return Readiness(f"not synced: {'; '.join(missing)}")
        lost = [
            f"{each.collection.plural} not watched for {stale_s(each, self._clock):.0f} s: {each.problem}"
            for each in informers
            if each.problem
        ]
        undelivered = [
            f"{each.undelivered} events of {each.collection.plural} failed and will be handled again, see the log"
            for each in informers
            if each.undelivered
        ]
        silent = [self._source.problem] if self._source is not None and self._source.problem else []
        return Readiness("", "; ".join(["leading" if self._leading() else "standby", *silent, *lost, *undelivered]))
