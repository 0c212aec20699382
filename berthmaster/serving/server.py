"""gunicorn as the server of a service: options, processes, probes, and graceful stops."""

import logging
import os
import resource
import shutil
import signal
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter  # not documented, so a new version may change it
from gunicorn.glogging import Logger

from berthmaster.model.errors import InputError
from berthmaster.runtime import metrics as shared_metrics
from berthmaster.runtime.memory import keep_existing_objects, return_large_blocks
from berthmaster.serving.connection_balance import ConnectionBalance
from berthmaster.serving.listening import available
from berthmaster.serving.probe_server import ProbeServer
from berthmaster.serving.probes import Probes, Readiness
from berthmaster.serving.request_parser import BodyCollection
from berthmaster.serving.responses import RefusalForm, plain_form
from berthmaster.serving.tls import ServerContext, TLSFiles, TLSSource
from berthmaster.serving.worker_health import WorkerHealth

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

    from berthmaster.serving.metrics import ServingMetrics

_LOG: Final = logging.getLogger("berthmaster.server")
_WORKER_CLASS: Final = "berthmaster.serving.worker.PollingWorker"
_HEARTBEAT_FOLDER: Final = "/dev/shm"  # noqa: S108 - a heartbeat is an empty file; here it is in memory
_RESERVED_DESCRIPTORS: Final = 64  # for files, listening sockets, and connections to an API server
_PROBES_S: Final = 1.0
"""The least time between two starts of the process that serves probes."""
_STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a server.

    Attributes:
        request_memory_bytes: the memory for requests in each process: see ``sharing``.
        request_timeout_s: the time limit for a request, from its first byte to the last byte of its answer.
        drain_s: the time for which readiness fails, and responses close their connections, before the port closes.
        connection_age_s: the age from which on a response closes its connection; 0 for none. Clients that keep their
            connections find new replicas this way.
    """

    name: str
    host: str
    port: int
    probe_host: str
    probe_port: int
    tls: TLSFiles | None
    workers: int
    threads: int
    connections: int
    request_memory_bytes: int
    request_timeout_s: float
    keepalive_s: int
    drain_s: float
    grace_s: int
    connection_age_s: float = 0.0


class ServedApp(NamedTuple):
    """The application of a worker.

    Attributes:
        cheap: for paths of POST requests, whether the answer to a body takes at most about 2 ms and waits for
            nothing. The polling thread of the worker answers such a request itself. It calls the function for
            bodies of up to 64 KiB.
        collection: how the worker collects the bodies of requests.
        waiting: the paths of POST requests whose answers wait for another service. They are among those of ``cheap``,
            which says that they are not, and have threads of their own in the worker.
        answers_wait: whether all answers wait for another service. the worker then answers with many threads at a
            time, because they compute little.
        refusals: the form of what the worker answers to bytes that are not a request of the application.
    """

    wsgi: "WSGIApplication"
    cheap: Mapping[str, Callable[[bytes], bool]]
    collection: BodyCollection
    waiting: frozenset[str] = frozenset()
    answers_wait: bool = False
    refusals: RefusalForm = plain_form


ReportReadiness = Callable[[Readiness], None]
"""Set the readiness of a worker until the next report."""


class HTTPService(Protocol):
    """A service that a server runs. It is created before the fork. Workers call its methods."""

    def application(self, metrics: "ServingMetrics") -> ServedApp:
        """Create the application. Metrics must not be defined earlier than here."""

    def started(self, report: ReportReadiness) -> None:
        """Start to report readiness. The worker is about to serve."""


def affordable_connections(wanted: int) -> int:
    """Return the most connections of a process: without free file descriptors it could not report its state.

    Args:
        wanted: the configured number. It is lowered, with a log line, if the limit of open files is too low for it.
    """
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY or wanted <= descriptors - _RESERVED_DESCRIPTORS:
        return wanted
    connections = max(1, descriptors - _RESERVED_DESCRIPTORS)
    _LOG.warning("%d connections instead of %d: at most %d open files are allowed", connections, wanted, descriptors)
    return connections


def serve(options: ServerOptions, service: HTTPService) -> None:
    """Serve until a signal stops the server. Ends the process.

    Raises:
        InputError: the certificate cannot be used, or a port cannot be bound.
    """
    with shared_folder(f"{options.name}-") as run:
        values = run / "metrics"
        values.mkdir()
        shared_metrics.share(values)
        health = WorkerHealth(run)
        answers = Probes(health.readiness, shared_metrics.exposition)
        probes = ProbeServer(options.probe_host, options.probe_port, answers)
        _Application(options, service, health, probes).run()


@contextmanager
def shared_folder(prefix: str) -> Iterator[Path]:
    """Make a temporary folder for a process and its workers. Only the process that made it removes it."""
    owner, folder = os.getpid(), Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        if os.getpid() == owner:  # a worker that ends gets here too; the other processes still use the folder
            shutil.rmtree(folder, ignore_errors=True)


class _Application(BaseApplication):
    """A service as gunicorn sees it."""

    def __init__(self, options: ServerOptions, service: HTTPService, health: WorkerHealth, probes: ProbeServer) -> None:
        self.request_timeout_s = options.request_timeout_s
        self.request_memory_bytes = options.request_memory_bytes
        self.connection_age_s = options.connection_age_s
        self.metrics: ServingMetrics  # of a worker
        self.served: ServedApp
        self.balance = ConnectionBalance(options.workers)
        self.is_draining = health.is_draining
        self.requires_client_certificates = options.tls is not None and options.tls.client_ca is not None
        self._options = options
        self._service = service
        self._health = health
        self._probes = probes
        self._probe_pid = 0
        self._probes_due_at = 0.0
        self._in_worker = False
        # Created before the fork: a worker that starts during a rotation inherits the last valid pair.
        self._tls: TLSSource | None = None
        if options.tls is not None:
            self._tls = TLSSource(options.tls, on_load=self._certificate_loaded, on_failure=self._certificate_failed)
        super().__init__()

    def load_config(self) -> None:
        options = self._options
        host = available(options.host)
        host = f"[{host}]" if ":" in host else host
        values: dict[str, Any] = {
            "bind": f"{host}:{options.port}",
            "workers": options.workers,
            "threads": options.threads,
            "worker_connections": affordable_connections(options.connections),
            "worker_class": _WORKER_CLASS,
            "worker_tmp_dir": _HEARTBEAT_FOLDER if os.access(_HEARTBEAT_FOLDER, os.W_OK) else None,
            "keepalive": options.keepalive_s,
            "graceful_timeout": options.grace_s,
            "timeout": 30,
            "logger_class": _StructuredLogger,
            "proc_name": options.name,
            "control_socket_disable": True,
            "pre_fork": self._refresh_certificate,
            "post_fork": self._prepare_worker,
            "post_worker_init": self._worker_ready,
            "child_exit": self._worker_ended,
            "on_exit": self._stop_probes,
        }
        if options.tls is not None:
            values["certfile"], values["keyfile"] = str(options.tls.certificate), str(options.tls.key)
            values["ssl_context"] = self._ssl_context
        for name, value in values.items():
            self.cfg.set(name, value)

    def load(self) -> Any:  # noqa: ANN401 - a WSGI application; gunicorn has a type of its own
        """Create the WSGI application. Each worker calls this."""
        self.served = self._service.application(self.metrics)
        return self.served.wsgi

    def run(self) -> None:
        _DrainingArbiter(self, self._health, self._options.drain_s).run()

    def trusts(self, client: ssl.SSLSocket) -> bool:
        """Return whether the CAs that a client's certificate was checked against are still trusted."""
        context = client.context
        return self._tls is None or not isinstance(context, ServerContext) or self._tls.trusts_clients_of(context)

    def _ssl_context(self, _config: Any, _default: Any) -> ssl.SSLContext:  # noqa: ANN401 - gunicorn's own
        assert self._tls is not None, "the hook is set with TLS only"  # noqa: S101 - for the type checker
        return self._tls.context()

    def ensure_probes(self, server: Arbiter) -> None:
        """Serve probes in a child process, also after that process was killed: without probes a pod gets no requests.

        The process that forks workers must have no threads, so it cannot serve them itself.
        """
        if (now := time.monotonic()) < self._probes_due_at or _exists(self._probe_pid):
            return
        self._probes_due_at = now + _PROBES_S
        if self._probe_pid:
            _LOG.error("the process %d, which served probes, has ended; another one starts", self._probe_pid)
        parent = os.getpid()
        self._probe_pid = os.fork()
        if not self._probe_pid:
            for listener in server.LISTENERS:
                listener.sock.close()
            _serve_probes(self._probes, parent)

    def _stop_probes(self, _server: Arbiter) -> None:
        if self._probe_pid:
            with suppress(ProcessLookupError):
                os.kill(self._probe_pid, signal.SIGKILL)

    def _refresh_certificate(self, _server: Arbiter, _worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        if self._tls is not None:
            self._tls.context()

    def _prepare_worker(self, _server: Arbiter, _worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        from berthmaster.serving.metrics import ServingMetrics  # noqa: PLC0415 - the arbiter defines no metrics

        self._in_worker = True
        self.metrics = ServingMetrics(self._options.name)
        self._probes.close()
        for each in _STOPS:  # the arbiter's handlers only queue signals; gunicorn sets the worker's handlers later
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        if self._tls is not None:
            self._certificate_loaded(self._tls.expires_at)

    def _certificate_loaded(self, expires_at: float) -> None:
        """Report a certificate in a worker only: the arbiter serves no clients."""
        if self._in_worker:
            self.metrics.certificate_loaded(expires_at)

    def _certificate_failed(self, error: Exception) -> None:
        _LOG.error("the new certificate cannot be used: %s; the previous one stays in use", error)
        if self._in_worker:
            self.metrics.credentials_failed("certificate")

    def _worker_ready(self, worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        keep_existing_objects()
        return_large_blocks()
        self._service.started(lambda readiness: self._health.report(worker.pid, readiness))

    def _worker_ended(self, _server: Arbiter, worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        self.balance.ended(worker.age)
        self._health.remove(worker.pid)
        shared_metrics.process_ended(worker.pid)


class _DrainingArbiter(Arbiter):
    """An arbiter that fails readiness for a while before it closes its port, so that no client gets a closed port."""

    def __init__(self, app: _Application, health: WorkerHealth, drain_s: float) -> None:
        self._health = health
        self._drain_s = drain_s
        self._ensure_probes = app.ensure_probes
        super().__init__(app)

    def manage_workers(self) -> None:
        """Start what is missing. gunicorn calls this each second, and when a child process has ended."""
        self._ensure_probes(self)
        super().manage_workers()

    def start(self) -> None:
        try:
            super().start()
        except SystemExit:  # gunicorn exits after five attempts
            where = ", ".join(self.cfg.bind)
            raise InputError(f"{where} cannot be bound; the log has the reason; use a free port of this host") from None

    def spawn_worker(self) -> Any:  # noqa: ANN401 - gunicorn's own
        """Fork with blocked signals. Else a worker could miss a stop signal, and the stop would wait for it."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            return super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)

    def stop(self, graceful: bool = True) -> None:  # noqa: FBT001, FBT002 - the base class's signature
        """Fail readiness, wait, then stop the workers. A second, harder signal ends the wait."""
        self._health.drain()
        until = time.monotonic() + (self._drain_s if graceful and self.WORKERS else 0.0)
        while (remaining := until - time.monotonic()) > 0:
            try:
                if self.SIG_QUEUE.get(timeout=remaining) in (signal.SIGINT, signal.SIGQUIT):
                    graceful = False
                    break
            except Empty:
                break
        super().stop(graceful)


class _StructuredLogger(Logger):
    """gunicorn's logger, which writes to the log of the process."""

    def setup(self, cfg: Any) -> None:  # noqa: ANN401 - gunicorn's own
        self.cfg = cfg
        self.error_log.propagate = True
        self.error_log.handlers[:] = []


def _exists(pid: int) -> bool:
    """Return whether there is a process, without those that have been reaped; 0 is none."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return bool(pid)
    return False


def _serve_probes(probes: ProbeServer, parent: int) -> None:
    """Serve until the parent ends. Stop signals are for the parent: probes must answer while it drains."""
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    probes.serve(lambda: os.getppid() != parent)
    os._exit(0)
