"""A process of controllers, from its options to its exit code.

One of several leads. The others stand by with everything listed and watched, so that a takeover costs no list. A leader
that cannot renew its lease ends at once, without ceremony: the lease outlives the renew deadline by some seconds, in
which requests under way come to their end, and no later one is sent (see ``FencedClient``). The next
leader finds unfinished work in the API server.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from berthmaster.controllers.controller import Controller
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.health import Vitals, stale_s
from berthmaster.controllers.metrics import ControllerMetrics
from berthmaster.controllers.registry import Registration
from berthmaster.controllers.settings import Settings
from berthmaster.kube.client import APIClient
from berthmaster.kube.client_wrappers import FencedClient, MeteredClient, rate_limited
from berthmaster.kube.election import Candidate
from berthmaster.kube.events import EventRecorder, Reference
from berthmaster.kube.http_client import load_client
from berthmaster.kube.informer import Informer
from berthmaster.kube.lease import Lease, LeaseOptions
from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import Clock, SystemClock
from berthmaster.runtime.logs import fields
from berthmaster.runtime.metrics import own_exposition
from berthmaster.runtime.stopping import Stop
from berthmaster.serving.probes import Probes, ProbeServer

REPORTING_CONTROLLER: Final = "berthmaster.io/controllers"
EXIT_LOST: Final = 1
_LOG: Final = logging.getLogger("berthmaster.controllers")
_LOOK_EVERY_S: Final = 0.5
_STOP_LIMIT_S: Final = 15.0
# In a burst each binding has two events; the writes that schedule the next one go first.
_EVENTS_A_SECOND: Final = 50.0
_EVENTS_AT_ONCE: Final = 100
_FLUSH_LIMIT_S: Final = 3.0
_RELEASE_LIMIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How the process runs.

    Attributes:
        kubeconfig, context: access to the API server; None for that of a pod.
        lease: what to hold before working; None to work at once, as the only process.
        qps, burst: requests a second to the API server, and how many at once; 0 sets no limit.
        probe_host, probe_port: where probes and metrics are served in plain text.
        settings: what the controllers take.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    lease: LeaseOptions | None = None
    qps: float = 1000.0
    burst: int = 2000
    probe_host: str = "127.0.0.1"
    probe_port: int = 9080
    settings: Settings = field(default_factory=Settings)


def run(options: RunOptions, registrations: Sequence[Registration]) -> int:
    """Run controllers until SIGTERM or SIGINT; the exit code. Ends the process where leadership is lost.

    Raises:
        InputError: there is no access to an API server, a setting cannot be meant, or a port cannot be bound.
    """
    if options.lease is not None:
        options.lease.check()
    runtime = Runtime(options, registrations, load_client(options.kubeconfig, options.context), SystemClock())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: runtime.stop(signal.Signals(number).name))
    return runtime.run()


def _end_at_once(code: int) -> None:
    """End without waiting for anybody: threads may be in the middle of something that must not go on."""
    os._exit(code)


class Runtime:
    """The controllers of a process and all they stand on."""

    def __init__(
        self,
        options: RunOptions,
        registrations: Sequence[Registration],
        client: APIClient,
        clock: Clock,
        end_at_once: Callable[[int], None] = _end_at_once,
    ) -> None:
        self._options = options
        self._clock = clock
        self._end_at_once = end_at_once
        self._stop = Stop()
        self._why = ""
        self._begun = False
        self._metrics = ControllerMetrics()
        self._raw = MeteredClient(client, clock, self._metrics.requested)
        self._candidate = self._candidacy()
        # The fence is asked last: who waited for its turn may have lost the lease meanwhile.
        self._fence = FencedClient(self._raw, lambda: self.leading)
        self._client = rate_limited(self._fence, clock, options.qps, options.burst)
        slowly = rate_limited(self._raw, clock, _EVENTS_A_SECOND, _EVENTS_AT_ONCE)
        self._recorder = EventRecorder(slowly, clock, REPORTING_CONTROLLER, socket.gethostname(), self._metrics.event)
        self._context = ControllerContext(self._client, clock, self._recorder, self._metrics)
        self._controllers: list[Controller] = [each.build(self._context, options.settings) for each in registrations]
        self._vitals = Vitals(
            self._controllers,
            lambda: list(self._context.informers.values()),
            lambda: self.leading,
            lambda: "" if self._candidate is None else self._candidate.problem(),
            clock,
        )

    @property
    def leading(self) -> bool:
        """Whether this process may write."""
        return self._begun if self._candidate is None else self._candidate.leading

    def stop(self, why: str) -> None:
        """Begin the end; from any thread, and from signal handlers."""
        self._why = why
        self._stop.ask()

    def run(self) -> int:
        """Run until told to stop; the exit code."""
        probes = self._serve_probes()
        try:
            self._watch()
            if self._wait_until_synced() and self._wait_until_leading():
                self._work()
                self._stop.wait()
            self._end()
        finally:
            probes.shutdown()
            probes.server_close()
        return 0

    def _candidacy(self) -> Candidate | None:
        if self._options.lease is None:
            return None
        return Candidate(Lease(self._raw, self._options.lease, self._clock), self._clock, self._lost)

    def _serve_probes(self) -> ProbeServer:
        host, port = self._options.probe_host, self._options.probe_port
        try:
            server = ProbeServer(host, port, Probes(self._vitals.health, own_exposition, self._vitals.dead))
        except OSError as error:
            raise InputError(f"probes cannot be served on {host}:{port}: {error.strerror or error}") from None
        threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
        return server

    def _watch(self) -> None:
        """Begin to list and watch, and to measure."""
        self._metrics.observe_leader(lambda: self.leading)
        for each in self._controllers:
            self._metrics.observe_controller(each.name, *_measures_of(each))
        for informer in self._context.informers.values():
            self._metrics.observe_informer(informer.collection.what, *_freshness_of(informer, self._clock))
            informer.mute()
            informer.start(self._client)

    def _wait_until_synced(self) -> bool:
        """Wait until everything was listed once; False if told to stop before."""
        for informer in self._context.informers.values():
            while not informer.wait(_LOOK_EVERY_S):
                if self._stop.asked:
                    return False
        _LOG.info("everything is listed")
        return not self._stop.asked

    def _wait_until_leading(self) -> bool:
        """Stand for election, if there is one, and wait to be elected; False if told to stop before."""
        if self._candidate is None:
            return True
        self._candidate.start()
        while not self._candidate.elected.wait(_LOOK_EVERY_S):
            if self._stop.asked:
                return False
        return not self._stop.asked

    def _work(self) -> None:
        """Start all controllers; what there is becomes their first work."""
        self._begun = True
        self._recorder.start()
        if self._options.lease is not None:
            self._tell_of_election(self._options.lease)
        for informer in list(self._context.informers.values()):
            informer.unmute()
        for each in self._controllers:
            each.start()
        _LOG.info("controllers have started", extra=fields(controllers=[each.name for each in self._controllers]))

    def _tell_of_election(self, lease: LeaseOptions) -> None:
        regarding = Reference("coordination.k8s.io/v1", "Lease", lease.namespace, lease.name)
        self._recorder.record(regarding, "Normal", "LeaderElection", "Leading", f"{lease.identity} became leader")

    def _end(self) -> None:
        """Finish what is under way, write the events, give the lease back."""
        _LOG.info("stopping", extra=fields(why=self._why))
        self._vitals.stopping = True
        stops = [
            threading.Thread(target=each.stop, name=f"stop-{each.name}", daemon=True) for each in self._controllers
        ]
        deadline_s = self._clock.monotonic_s() + _STOP_LIMIT_S
        if self._begun:
            for stop in stops:
                stop.start()
            for stop in stops:
                stop.join(max(0.0, deadline_s - self._clock.monotonic_s()))
        self._fence.close()  # a worker that was given up must not write once the next process leads
        if self._begun:
            self._recorder.stop(_FLUSH_LIMIT_S)
        if self._candidate is not None:
            self._candidate.stop(_RELEASE_LIMIT_S)
        for informer in list(self._context.informers.values()):
            threading.Thread(target=informer.stop, daemon=True).start()

    def _lost(self, why: str) -> None:
        self._fence.close()
        _LOG.error("this process leads no more, and ends: %s", why)
        self._end_at_once(EXIT_LOST)


def _measures_of(controller: Controller) -> tuple[Callable[[], float], Callable[[], float]]:
    return lambda: controller.load().waiting, lambda: controller.load().longest_s


def _freshness_of(informer: Informer[Any], clock: Clock) -> tuple[Callable[[], float], Callable[[], float]]:
    return lambda: len(informer), lambda: stale_s(informer, clock)
