"""A controllers process, from its options to its exit code.

One of several processes leads. The others keep their informers synced and their caches filled, so that a takeover needs
no list. A leader that cannot renew its lease exits at once. The lease outlives the renew deadline by some seconds:
requests under way end in that time, and the fence sends no later ones (see ``FencedClient``). The next leader finds
unfinished work in the API server.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from berthmaster.controllers import metrics
from berthmaster.controllers.controller import Controller
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.metrics import stale_s
from berthmaster.controllers.registry import Registration
from berthmaster.controllers.settings import ControllerSettings, controllers_record
from berthmaster.controllers.target import report_target
from berthmaster.deciding.decision_recorder import DecisionRecorder
from berthmaster.deciding.lease_record import CONTROLLERS, text_of
from berthmaster.kube.client import (
    APIClient,
    FencedClient,
    MeteredClient,
    ask,
    rate_limited,
)
from berthmaster.kube.election import Candidate
from berthmaster.kube.events import EventRecorder
from berthmaster.kube.http_client import load_client
from berthmaster.kube.informer import Informer
from berthmaster.kube.lease import Lease, LeaseOptions
from berthmaster.kube.requests import probe
from berthmaster.kube.source_check import SourceCheck
from berthmaster.model.errors import ApiError, name_list
from berthmaster.model.meta import object_name
from berthmaster.runtime.clock import Clock, SystemClock
from berthmaster.runtime.logs import fields, log_exceptions
from berthmaster.runtime.memory import keep_existing_objects
from berthmaster.runtime.metrics import own_exposition
from berthmaster.runtime.stopping import Stop
from berthmaster.serving.probe_server import serving_probes
from berthmaster.serving.probes import Probes, Readiness

_LOG: Final = logging.getLogger("berthmaster.controllers")
_NAMED: Final = 5
STUCK_S: Final = 300.0
"""A reconcile that runs for this long will not end: each of its requests has a much shorter timeout."""
REPORTING_CONTROLLER: Final = "berthmaster.io/controllers"
EXIT_LOST: Final = 1
_POLL_S: Final = 0.5
_STOP_LIMIT_S: Final = 15.0
# In a burst each binding has two events. The limit keeps the API server free for the writes that schedule.
_EVENTS_PER_S: Final = 50.0
_EVENT_BURST: Final = 100
_FLUSH_LIMIT_S: Final = 3.0
_RELEASE_LIMIT_S: Final = 5.0
_PROBE_S: Final = 10.0


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
        unread = [f"not read: {each.collection.plural} {names}" for each in informers if (names := _unread(each))]
        silent = [self._source.problem] if self._source is not None and self._source.problem else []
        return Readiness(
            "", "; ".join(["leading" if self._leading() else "standby", *silent, *lost, *undelivered, *unread])
        )


def _unread(informer: Informer[Any]) -> str:
    """Return the names of the objects of an informer that are not read, and why."""
    return name_list([f"{object_name(*key)} {problem}" for key, problem in informer.unread()], _NAMED)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How the process runs.

    Attributes:
        kubeconfig, context: access to the API server; None uses the service account of the pod.
        lease: the lease of the leader; None starts work at once, without leader election.
        qps, burst: the rate limit of requests to the API server; 0 sets no limit.
        decisions: the ledger that records decisions; None for none. The caller closes it.
        on_lost: called when leadership is lost and no write can follow, before the process ends. It must return within
            seconds, because another process leads already.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    lease: LeaseOptions | None = None
    qps: float = 1000.0
    burst: int = 2000
    probe_host: str = "127.0.0.1"
    probe_port: int = 9080
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    read_only: bool = False
    decisions: DecisionRecorder | None = None
    on_lost: Callable[[], object] = lambda: None


def run(options: RunOptions, registrations: Sequence[Registration]) -> int:
    """Run controllers until SIGTERM or SIGINT, and return the exit code. Lost leadership ends the process.

    Raises:
        InputError: the kubeconfig or a setting is invalid, or a port cannot be bound.
    """
    if options.lease is not None:
        options.lease.check()
    runtime = Runtime(options, registrations, load_client(options.kubeconfig, options.context), SystemClock())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: runtime.stop(signal.Signals(number).name))
    return runtime.run()


class Runtime:
    """The controllers of a process, with their client, leader election, probes and metrics."""

    def __init__(
        self,
        options: RunOptions,
        registrations: Sequence[Registration],
        client: APIClient,
        clock: Clock,
        exit_at_once: Callable[[int], None] = os._exit,  # without cleanup: other threads must not continue
    ) -> None:
        self._options = options
        self._clock = clock
        self._exit_at_once = exit_at_once
        self._stop = Stop()
        self._reason = ""
        self._started = False
        if options.read_only:
            client = FencedClient(client, lambda: False, "this process only reads")
        self._raw = MeteredClient(client, clock, metrics.count_request)
        self._lease = None if options.lease is None else Lease(self._raw, options.lease, clock)
        if self._lease is not None:
            record = controllers_record(options.settings, [each.name for each in registrations])
            self._lease.annotate(CONTROLLERS, text_of(record))
        self._candidate = None if self._lease is None else Candidate(self._lease, clock, self._lost)
        # The fence is checked after the rate limit: the process may lose the lease while a request waits.
        self._fence = FencedClient(self._raw, lambda: self.leading)
        self._client = rate_limited(self._fence, clock, options.qps, options.burst)
        limited = rate_limited(self._raw, clock, _EVENTS_PER_S, _EVENT_BURST)
        self._recorder = EventRecorder(
            limited,
            clock,
            REPORTING_CONTROLLER,
            socket.gethostname(),
            lambda result: metrics.EVENTS.labels(result).inc(),
        )
        self._context = ControllerContext(self._client, clock, self._recorder, options.decisions, self._lease)
        self._controllers: list[Controller] = [each.build(self._context, options.settings) for each in registrations]
        self._source = SourceCheck(self._context.informers, clock, restored=self._restored)
        self._health = ProcessHealth(
            self._controllers,
            lambda: list(self._context.informers.values()),
            lambda: self.leading,
            lambda: "" if self._candidate is None else self._candidate.problem(),
            clock,
            self._source,
        )

    @property
    def leading(self) -> bool:
        return self._started if self._candidate is None else self._candidate.leading

    def stop(self, reason: str) -> None:
        """Ask the process to stop. Any thread and signal handlers may call it."""
        self._reason = reason
        self._stop.ask()

    def run(self) -> int:
        """Run until ``stop`` is called, and return the exit code."""
        probes = Probes(self._health.readiness, own_exposition, self._health.dead, self._context.pages)
        with serving_probes(self._options.probe_host, self._options.probe_port, probes):
            self._watch()
            if self._wait_until_synced():
                self._watch_optional()
            if not self._stop.asked and self._wait_until_leading():
                self._work()
                # No controller depends on it.
                log_exceptions(
                    lambda: report_target(self._raw), _LOG, "the version of the control plane cannot be read"
                )
                self._stop.wait()
            self._shut_down()
        return 0

    def _watch(self) -> None:
        metrics.LEADER.set_function(lambda: float(self.leading))
        for each in self._controllers:
            metrics.observe_load(each.name, each.load)
        for informer in self._context.informers.values():
            self._start_informer(informer)
        metrics.SOURCE_STALE.set_function(lambda: stale_s(self._source, self._clock))
        self._source.start(self._client)

    def _watch_optional(self) -> None:
        """Start the informers of kinds that the API server serves, and that this process may list."""
        for collection, informer in self._context.optional.items():
            try:
                ask(self._raw, probe(collection, _PROBE_S))
            except ApiError as error:
                if error.not_found or error.forbidden:
                    remedy = "install its definition" if error.not_found else "grant list and watch"
                    _LOG.info(
                        "%s are not watched: %s; %s, and restart the controllers: %s",
                        collection.plural, self._context.without[collection], remedy, error,
                    )  # fmt: skip
                    continue
            # After any other error, the informer tries again.
            self._start_informer(informer)

    def _start_informer(self, informer: Informer[Any]) -> None:
        plural = informer.collection.plural
        metrics.INFORMER_OBJECTS.labels(plural).set_function(lambda: len(informer))
        metrics.INFORMER_STALE.labels(plural).set_function(lambda: stale_s(informer, self._clock))
        informer.mute()
        informer.start(self._client)

    def _wait_until_synced(self) -> bool:
        for informer in self._context.informers.values():
            while not informer.wait(_POLL_S):
                if self._stop.asked:
                    return False
        _LOG.info("informers are synced")
        for informer in self._context.informers.values():
            informer.unmute(standby=True)
        keep_existing_objects()
        return not self._stop.asked

    def _wait_until_leading(self) -> bool:
        self._recorder.start()
        if self._candidate is None:
            return True
        self._source.check(self._client)  # so that the check below has versions to compare with
        self._candidate.start()
        while not self._candidate.elected.wait(_POLL_S):
            if self._stop.asked:
                return False
        # A restore of etcd can free the Lease. The watches of this process then belong to the lost time, and the next
        # check at its interval is too late: the controllers would already have decided from them.
        self._source.check(self._client)
        return not self._stop.asked and not self._source.went_back

    def _work(self) -> None:
        """Start the controllers. All existing objects become their first events."""
        self._started = True
        if (lease := self._options.lease) is not None:
            self._context.record_on_lease("Normal", "LeaderElection", "Leading", f"{lease.identity} became leader")
        for informer in self._all_informers():
            informer.unmute()
        for each in self._controllers:
            each.start()
        _LOG.info("controllers started", extra=fields(controllers=[each.name for each in self._controllers]))

    def _shut_down(self) -> None:
        """Stop the controllers, release the lease, write the events. Events need no lease, and take some seconds."""
        _LOG.info("stopping", extra=fields(reason=self._reason))
        self._health.stopping = True
        stops = [
            threading.Thread(target=each.stop, name=f"stop-{each.name}", daemon=True) for each in self._controllers
        ]
        deadline_s = self._clock.monotonic_s() + _STOP_LIMIT_S
        if self._started:
            for stop in stops:
                stop.start()
            for stop in stops:
                stop.join(max(0.0, deadline_s - self._clock.monotonic_s()))
        self._source.stop()
        self._fence.close()  # a worker that did not stop in time must not write once the next process leads
        if self._candidate is not None:
            self._candidate.stop(_RELEASE_LIMIT_S)
        if self._started:
            self._recorder.stop(_FLUSH_LIMIT_S)
        for informer in self._all_informers():
            threading.Thread(target=informer.stop, daemon=True).start()

    def _all_informers(self) -> list[Informer[Any]]:
        return [*self._context.informers.values(), *self._context.optional.values()]

    def _restored(self, reason: str) -> None:
        """End the process: what it knows is from a time that the API server has lost. kubelet starts another one."""
        self._fence.close()
        if self.leading:
            self._context.record_on_lease("Warning", "APIServerWentBack", "Leading", f"{reason}; it ends")
            log_exceptions(lambda: self._recorder.stop(_FLUSH_LIMIT_S), _LOG, "the event could not be written")
        self._end("exiting: %s", reason)

    def _lost(self, reason: str) -> None:
        self._end("lost leadership, exiting: %s", reason)

    def _end(self, message: str, reason: str) -> None:
        self._fence.close()
        _LOG.error(message, reason)
        log_exceptions(self._options.on_lost, _LOG, "failed to end the work of the leader")
        self._exit_at_once(EXIT_LOST)
