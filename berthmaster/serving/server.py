"""gunicorn as a service's server: TLS that rotates, workers that share metrics, a stop that nobody notices."""

import gc
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from berthmaster.model.errors import InputError
from berthmaster.runtime import metrics as shared_metrics
from berthmaster.serving.connection_balance import Crew
from berthmaster.serving.probes import Probes, ProbeServer, Readiness
from berthmaster.serving.tls import TLSFiles, TLSSource
from berthmaster.serving.worker_health import Board

if TYPE_CHECKING:
    import ssl

_HEARTBEAT_FOLDER: Final = "/dev/shm"  # noqa: S108 - a heartbeat is a file of no content; here it is in memory
_STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
WORKER_CLASSES: Final = {"fast": "berthmaster.serving.worker.DeadlineWorker", "gthread": "gthread"}
_GC_THRESHOLD: Final = 20_000  # allocations that stay; a request makes a few hundred, and they go


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to serve.

    Attributes:
        name: what processes are called.
        host, port: where requests are served.
        probe_host, probe_port: where probes and metrics are served in plain text.
        tls: the certificate and its key; None for plain HTTP.
        worker_class: a key of ``WORKER_CLASSES``.
        workers, threads: processes, and threads in each.
        request_timeout_s: how long a request may take from its first byte to the last of its answer.
        keepalive_s: how long an idle connection is kept.
        drain_s: how long readiness fails before the server stops to accept connections.
        grace_s: how long requests under way may take after that.
    """

    name: str
    host: str
    port: int
    probe_host: str
    probe_port: int
    tls: TLSFiles | None
    worker_class: str
    workers: int
    threads: int
    request_timeout_s: float
    keepalive_s: int
    drain_s: float
    grace_s: int


class Application(NamedTuple):
    """What a worker serves.

    Attributes:
        wsgi: the WSGI application.
        prompt_paths: where what is posted is answered within a millisecond or so if it is small, without waiting for
            anything. The thread that watches all clients answers it itself.
    """

    wsgi: Any
    prompt_paths: Collection[str]


class Service(Protocol):
    """What a server runs. Made before the fork; all but the constructor is called in a worker."""

    def application(self) -> Application:
        """The WSGI application. Metrics are defined no earlier than here."""

    def started(self, post: "PostHealth") -> None:
        """The worker is about to serve; from now on the service says how it is."""

    def certificate_loaded(self, expires_at: float) -> None:
        """A certificate is in use, until so many seconds since the epoch."""

    def certificate_failed(self, error: Exception) -> None:
        """A new certificate cannot be used; the last one stays."""


class PostHealth(Protocol):
    """Tells the probes how this worker is."""

    def __call__(self, health: Readiness) -> None:
        """Say it; it holds until something else is said."""


def serve(options: ServerOptions, service: Service) -> None:
    """Serve until a signal says to stop. Ends the process.

    Raises:
        InputError: the certificate cannot be used, or a port cannot be bound.
    """
    owner, run = os.getpid(), Path(tempfile.mkdtemp(prefix=f"{options.name}-"))
    try:
        values = run / "metrics"
        values.mkdir()
        shared_metrics.share(values)
        board = Board(run)
        _Application(options, service, board, _bound_probes(options, board)).run()
    finally:
        if os.getpid() == owner:  # a worker that ends comes by here, too, and leaves it to the others
            shutil.rmtree(run, ignore_errors=True)


class _Application(BaseApplication):
    """gunicorn's view of a service."""

    def __init__(self, options: ServerOptions, service: Service, board: Board, probes: ProbeServer) -> None:
        self.request_timeout_s = options.request_timeout_s
        self.prompt_paths: frozenset[str] = frozenset()
        self.crew = Crew(options.workers)
        self._options = options
        self._service = service
        self._board = board
        self._probes = probes
        self._probe_pid = 0
        self._in_worker = False
        # Made before the fork: a worker that starts while a rotation is half written inherits the last good pair.
        self._tls = self._tls_source(options.tls) if options.tls is not None else None
        super().__init__()

    def load_config(self) -> None:
        """Translate the options."""
        options = self._options
        host = f"[{options.host}]" if ":" in options.host else options.host
        values: dict[str, Any] = {
            "bind": f"{host}:{options.port}",
            "workers": options.workers,
            "threads": options.threads,
            "worker_class": WORKER_CLASSES[options.worker_class],
            "worker_tmp_dir": _HEARTBEAT_FOLDER if os.access(_HEARTBEAT_FOLDER, os.W_OK) else None,
            "keepalive": options.keepalive_s,
            "graceful_timeout": options.grace_s,
            "timeout": 30,
            "limit_request_line": 4094,
            "limit_request_fields": 64,
            "limit_request_field_size": 8190,
            "logger_class": _StructuredLogger,
            "proc_name": options.name,
            "control_socket_disable": True,
            "when_ready": self._start_probes,
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

    def load(self) -> Any:  # noqa: ANN401 - a WSGI application
        """The WSGI application, made in each worker."""
        application = self._service.application()
        self.prompt_paths = frozenset(application.prompt_paths)
        return application.wsgi

    def run(self) -> None:
        """Run the arbiter."""
        _DrainingArbiter(self, self._board, self._options.drain_s).run()

    def _ssl_context(self, _config: Any, _default: Any) -> "ssl.SSLContext":  # noqa: ANN401 - gunicorn's own
        assert self._tls is not None, "the hook is set with TLS only"  # noqa: S101 - for the type checker
        return self._tls.context()

    def _start_probes(self, server: Arbiter) -> None:
        """Serve probes from a child of its own: no threads in the process that forks workers."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._probe_pid = pid
            self._probes.server_close()
            return
        for listener in server.LISTENERS:
            listener.sock.close()
        _serve_probes(self._probes, parent)

    def _stop_probes(self, _server: Arbiter) -> None:
        if self._probe_pid:
            with suppress(ProcessLookupError):
                os.kill(self._probe_pid, signal.SIGKILL)

    def _tls_source(self, files: TLSFiles) -> TLSSource:
        return TLSSource(files, on_load=self._certificate_loaded, on_failure=self._certificate_failed)

    def _refresh_certificate(self, _server: Arbiter, _worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        if self._tls is not None:
            self._tls.context()

    def _prepare_worker(self, _server: Arbiter, _worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        self._in_worker = True
        for each in _STOPS:  # not the arbiter's, which only take them down; the worker's own come a bit later
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        if self._tls is not None:
            self._certificate_loaded(self._tls.expires_at)

    def _certificate_loaded(self, expires_at: float) -> None:
        """The arbiter serves nobody: what it has loaded says nothing about what is in use."""
        if self._in_worker:
            self._service.certificate_loaded(expires_at)

    def _certificate_failed(self, error: Exception) -> None:
        if self._in_worker:
            self._service.certificate_failed(error)
        else:
            logging.getLogger("berthmaster.server").error(
                "the new certificate is not used: %s; the last one stays", error
            )

    def _worker_ready(self, worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        # What is there now stays: the collector need not look at it, nor come by with every few requests.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        self._service.started(lambda health: self._board.post(worker.pid, health))

    def _worker_ended(self, _server: Arbiter, worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        self.crew.ended(worker.age)
        self._board.remove(worker.pid)
        shared_metrics.process_ended(worker.pid)


class _DrainingArbiter(Arbiter):
    """An arbiter whose readiness fails for a while before it closes its port: nobody is sent to a closed door."""

    def __init__(self, app: _Application, board: Board, drain_s: float) -> None:
        self._board = board
        self._drain_s = drain_s
        super().__init__(app)

    def start(self) -> None:
        """Bind the port."""
        try:
            super().start()
        except SystemExit:  # how gunicorn says, after five tries, that it cannot
            where = ", ".join(self.cfg.bind)
            raise InputError(
                f"{where} cannot be bound: the log says why; accepted is a free port of this host"
            ) from None

    def spawn_worker(self) -> Any:  # noqa: ANN401 - gunicorn's own
        """Fork. A worker that is told to stop before it can hear it would be waited for until it is killed."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            return super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)

    def stop(self, graceful: bool = True) -> None:  # noqa: FBT001, FBT002 - the base class's signature
        """Fail readiness, wait, then stop the workers. A second, harder signal ends the wait."""
        self._board.drain()
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
    """gunicorn's logger, writing where all other logs go."""

    def setup(self, cfg: Any) -> None:  # noqa: ANN401 - gunicorn's own
        """Hand records on to the root logger; there is no access log, services log what they did."""
        self.cfg = cfg
        self.error_log.propagate = True
        self.error_log.handlers[:] = []

    def access(self, *_args: Any) -> None:  # noqa: ANN401 - gunicorn's own
        """Not here: a service says what it did."""

    def reopen_files(self) -> None:
        """There are none."""


def _bound_probes(options: ServerOptions, board: Board) -> ProbeServer:
    try:
        return ProbeServer(options.probe_host, options.probe_port, Probes(board.health, shared_metrics.exposition))
    except (OSError, OverflowError) as error:
        where = f"{options.probe_host}:{options.probe_port}"
        raise InputError(f"the port for probes, {where}, cannot be bound: {error}") from None


def _serve_probes(probes: ProbeServer, parent: int) -> None:
    """Serve until the parent ends. Stop signals are for the parent: while it drains, somebody has to say so."""
    import threading  # noqa: PLC0415 - in the child only

    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    threading.Thread(target=probes.serve_forever, daemon=True).start()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)
