"""How a process of controllers is: whether it may stay, and whether it is ready."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from berthmaster.controllers.controller import Controller
from berthmaster.kube.informer import Informer
from berthmaster.runtime.clock import Clock
from berthmaster.serving.probes import Readiness

STUCK_S: Final = 300.0
"""Work on one key that is under way for so long will not end: every request in it has a limit far below."""


class Vitals:
    """Answers the probes. Read from the probe server's threads.

    Attributes:
        stopping: whether the end has begun.
        leading: asked for what readiness notes.
    """

    def __init__(
        self,
        controllers: Sequence[Controller],
        informers: Callable[[], Iterable[Informer[Any]]],
        leading: Callable[[], bool],
        election_problem: Callable[[], str],
        clock: Clock,
    ) -> None:
        self.stopping = False
        self._controllers = controllers
        self._informers = informers
        self._leading = leading
        self._election_problem = election_problem
        self._clock = clock

    def dead(self) -> str:
        """Why only a new process helps; empty if this one is well."""
        for each in self._controllers:
            load = each.load()
            if load.longest_s > STUCK_S:
                return f"{each.name}: work on one key is under way for {load.longest_s:.0f} s"
            if load.dead_workers:
                return f"{each.name}: {load.dead_workers} of its workers have ended"
        return self._election_problem()

    def health(self) -> Readiness:
        """Ready means: everything is known, so that this process could lead or does."""
        if self.stopping:
            return Readiness("stopping")
        informers = list(self._informers())
        missing = [_lack(each) for each in informers if not each.listed]
        if missing:
            return Readiness(f"not synced: {'; '.join(missing)}")
        lost = [f"{each.collection.what} not watched since {stale_s(each, self._clock):.0f} s: {each.problem}"
                for each in informers if each.problem]  # fmt: skip
        owed = [f"{each.owed} changes of {each.collection.what} have to be told again: the log says why"
                for each in informers if each.owed]  # fmt: skip
        return Readiness("", "; ".join(["leading" if self._leading() else "standing by", *lost, *owed]))


def stale_s(informer: Informer[Any], clock: Clock) -> float:
    """How long an informer hears nothing any more; 0 if it does."""
    lost_at = informer.lost_at
    return (clock.now() - lost_at).total_seconds() if lost_at is not None else 0.0


def _lack(informer: Informer[Any]) -> str:
    return f"{informer.collection.what} ({informer.problem})" if informer.problem else informer.collection.what
