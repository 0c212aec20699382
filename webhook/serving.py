"""The webhook as something that ``fleet.ops.server`` runs."""

import logging
from dataclasses import dataclass, field

from fleet.ops.probes import Health
from fleet.ops.server import Application, PostHealth, ServerOptions
from fleet.ops.server import serve as run_server
from fleet.ops.tls import TLSFiles
from webhook.admission.routes import ROUTES
from webhook.admission.settings import Settings


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
    run_server(
        ServerOptions(
            name="berthmaster-webhook",
            host=options.host,
            port=options.port,
            probe_host=options.probe_host,
            probe_port=options.probe_port,
            tls=options.tls,
            workers=options.workers,
            threads=options.threads,
            request_timeout_s=options.request_timeout_s,
            keepalive_s=options.keepalive_s,
            drain_s=options.drain_s,
            grace_s=options.grace_s,
        ),
        _Webhook(options),
    )


class _Webhook:
    """The service. Metrics are defined on import, after they are shared: its modules are imported in the worker."""

    def __init__(self, options: ServingOptions) -> None:
        self._options = options

    def application(self) -> Application:
        from webhook.app import create_app  # noqa: PLC0415 - see the class
        from webhook.handler import Reviewer  # noqa: PLC0415 - see the class

        reviewer = Reviewer(self._options.settings)
        return Application(create_app(reviewer, body_bytes=self._options.body_bytes), ROUTES)

    def started(self, post: PostHealth) -> None:
        post(Health())

    def certificate_loaded(self, expires_at: float) -> None:
        from webhook import metrics  # noqa: PLC0415 - see the class

        metrics.CERTIFICATE_EXPIRY.set(expires_at)

    def certificate_failed(self, error: Exception) -> None:
        from webhook import metrics  # noqa: PLC0415 - see the class

        metrics.CERTIFICATE_FAILURES.inc()
        logging.getLogger("berthmaster.webhook").error("the new certificate is not used: %s; the last one stays", error)
