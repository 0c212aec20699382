"""gunicorn as the webhook's server: TLS that rotates, workers that share metrics, a stop that nobody notices."""

import os
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any, Final

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from fleet.errors import InputError
from fleet.ops import metrics as shared_metrics
from fleet.ops.probes import Probes, ProbeServer
from fleet.ops.tls import TLSFiles, TLSSource
from webhook.admission.settings import Settings
from webhook.worker import DeadlineSocket

if TYPE_CHECKING:
    import ssl

_DRAINING: Final = "draining"
_READY: Final = "ready-"


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """How to serve.

    Attributes:
        host, port: where reviews are served over TLS.
        probe_host, probe_port: where probes and metrics are served in plain text.
        tls: the certificate and its key.
        workers, threads: processes, and threads in each.
        body_bytes: the largest review that is read.
        request_timeout_s: how long a request may take from its first byte to the last of its answer.
        keepalive_s: how long an idle connection is kept.
        drain_s: how long readiness fails before the server stops to accept connections.
        grace_s: how long requests under way may take after that.
        settings: what is decided.
    """

    tls: TLSFiles
    host: str = "0.0.0.0"  # noqa: S104 - a server in a container, its port opened by a Service
    port: int = 8443
    probe_host: str = "0.0.0.0"  # noqa: S104 - the same
    probe_port: int = 8080
    workers: int = 2
    threads: int = 16
    body_bytes: int = 7 * 2**20
    request_timeout_s: float = 2.5
    keepalive_s: int = 120
    drain_s: float = 3.0
    grace_s: int = 20
    settings: Settings = field(default_factory=Settings)


def serve(options: ServingOptions) -> None:
    """Serve until a signal says to stop. Ends the process.

    Raises:
        InputError: the certificate cannot be used, or a port cannot be bound.
    """
    TLSSource(options.tls)  # each worker makes its own; a mistake should show before there are any
    with tempfile.TemporaryDirectory(prefix="berthmaster-webhook-") as folder:
        run = Path(folder)
        shared_metrics.share(run)
        probes = _bound_probes(options, run)
        _Application(options, run, probes).run()


class _Application(BaseApplication):
    """gunicorn's view of the webhook."""

    def __init__(self, options: ServingOptions, run: Path, probes: ProbeServer) -> None:
        self._options = options
        self._run = run
        self._probes = probes
        self._probe_pid = 0
        self._tls: TLSSource | None = None
        super().__init__()

    def load_config(self) -> None:
        """Translate the options."""
        options = self._options
        host = f"[{options.host}]" if ":" in options.host else options.host
        values: dict[str, Any] = {
            "bind": f"{host}:{options.port}",
            "workers": options.workers,
            "threads": options.threads,
            "worker_class": "webhook.worker.ReviewWorker",
            "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK) else None,  # noqa: S108 - a heartbeat, in memory
            "certfile": str(options.tls.certificate),
            "keyfile": str(options.tls.key),
            "ssl_context": self._ssl_context,
            "keepalive": options.keepalive_s,
            "graceful_timeout": options.grace_s,
            "timeout": 30,
            "limit_request_line": 4094,
            "limit_request_fields": 64,
            "limit_request_field_size": 8190,
            "logger_class": _StructuredLogger,
            "proc_name": "berthmaster-webhook",
            "control_socket_disable": True,
            "when_ready": self._start_probes,
            "post_fork": self._prepare_worker,
            "post_worker_init": self._worker_ready,
            "child_exit": self._worker_ended,
            "on_exit": self._stop_probes,
        }
        for name, value in values.items():
            self.cfg.set(name, value)

    def load(self) -> Any:  # noqa: ANN401 - a Flask, which gunicorn does not know
        """The WSGI application, made in each worker."""
        from webhook.app import create_app  # noqa: PLC0415 - metrics are defined on import, after they are shared
        from webhook.handler import Reviewer  # noqa: PLC0415 - the same

        return create_app(Reviewer(self._options.settings), body_bytes=self._options.body_bytes)

    def run(self) -> None:
        """Run the arbiter."""
        _DrainingArbiter(self, self._run, self._options.drain_s).run()

    def _ssl_context(self, _config: Any, _default: Any) -> "ssl.SSLContext":  # noqa: ANN401 - gunicorn's own
        assert self._tls is not None, "made after the fork"  # noqa: S101 - the order of gunicorn's hooks
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

    def _prepare_worker(self, _server: Arbiter, _worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        from webhook import metrics  # noqa: PLC0415 - metrics are defined on import, after they are shared

        limit_s = self._options.request_timeout_s
        self._tls = TLSSource(
            self._options.tls,
            socket_class=type("RequestSocket", (DeadlineSocket,), {"limit_s": limit_s}),
            on_load=metrics.CERTIFICATE_EXPIRY.set,
            on_failure=_report_certificate,
        )

    def _worker_ready(self, worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        (self._run / f"{_READY}{worker.pid}").touch()

    def _worker_ended(self, _server: Arbiter, worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
        (self._run / f"{_READY}{worker.pid}").unlink(missing_ok=True)
        shared_metrics.process_ended(worker.pid)


class _DrainingArbiter(Arbiter):
    """An arbiter whose readiness fails for a while before it closes its port: nobody is sent to a closed door."""

    def __init__(self, app: _Application, run: Path, drain_s: float) -> None:
        self._run_folder = run
        self._drain_s = drain_s
        super().__init__(app)

    def stop(self, graceful: bool = True) -> None:  # noqa: FBT001, FBT002 - the base class's signature
        """Fail readiness, wait, then stop the workers. A second, harder signal ends the wait."""
        (self._run_folder / _DRAINING).touch()
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
        """Hand records on to the root logger; there is no access log, reviews are logged as such."""
        self.cfg = cfg
        self.error_log.propagate = True
        self.error_log.handlers[:] = []

    def access(self, *_args: Any) -> None:  # noqa: ANN401 - gunicorn's own
        """Not here: see ``webhook.handler``."""

    def reopen_files(self) -> None:
        """There are none."""


def _bound_probes(options: ServingOptions, run: Path) -> ProbeServer:
    def unready() -> str:
        if (run / _DRAINING).exists():
            return "draining"
        return "" if any(run.glob(f"{_READY}*")) else "no worker is ready"

    try:
        return ProbeServer(options.probe_host, options.probe_port, Probes(unready, shared_metrics.exposition))
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


def _report_certificate(error: Exception) -> None:
    import logging  # noqa: PLC0415 - in the worker only

    from webhook import metrics  # noqa: PLC0415 - metrics are defined on import, after they are shared

    metrics.CERTIFICATE_FAILURES.inc()
    logging.getLogger("berthmaster.webhook").error("the new certificate is not used: %s; the last one stays", error)
