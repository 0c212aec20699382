"""The console as a service that ``berthmaster.serving.server`` runs."""

import logging
import secrets
from dataclasses import dataclass, field
from typing import Final

from berthmaster.native_api.access import ExtenderAccess
from berthmaster.runtime.clock import SystemClock
from berthmaster.serving.framing import BodyCollection
from berthmaster.serving.probes import Readiness
from berthmaster.serving.protection import require_protection
from berthmaster.serving.server import ReportReadiness, ServedApp, ServerOptions
from berthmaster.serving.server import serve as run_server
from console.context import PageOptions

_LOG: Final = logging.getLogger("berthmaster.console")
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The options of the console.

    Attributes:
        server: the options of the server. Its worker class is ``gthread``, because streams of events do not end.
        extender: where the extender is, and how to authenticate.
        extender_timeout_s: the timeout for each part of an answer of the extender.
        pages: the options that pages use.
    """

    server: ServerOptions
    extender: ExtenderAccess
    extender_timeout_s: float = 10.0
    pages: PageOptions = field(default_factory=PageOptions)


def serve(options: ConsoleOptions) -> None:
    """Serve until a signal stops the server. Ends the process.

    Raises:
        InputError: the server would show pages to any client, a file cannot be used, or a port cannot be bound.
    """
    require_protection(options.server, authenticates=False, remedy="listen on 127.0.0.1")
    run_server(options.server, _Console(options))


class _Console:
    """The service. Metrics are defined on import and must be shared first, so workers import their module."""

    def __init__(self, options: ConsoleOptions) -> None:
        self._options = options
        self._secret = secrets.token_bytes(_SECRET_BYTES)  # made before the fork: all workers accept the same cookies

    def application(self) -> ServedApp:
        from console.app import AppOptions, create_app  # noqa: PLC0415 - only workers need Flask
        from console.extender_source import ExtenderClients, ExtenderSource  # noqa: PLC0415 - the same

        options = self._options
        clients = ExtenderClients(options.extender, options.extender_timeout_s)
        app_options = AppOptions(self._secret, tls=options.server.tls is not None, pages=options.pages)
        app = create_app(app_options, ExtenderSource(clients), SystemClock())
        return ServedApp(app, {}, BodyCollection(0))

    def started(self, report: ReportReadiness) -> None:
        report(Readiness())

    def certificate_loaded(self, expires_at: float) -> None:
        from console import metrics  # noqa: PLC0415 - see the class

        metrics.CERTIFICATE_EXPIRY.set(expires_at)

    def handshake_failed(self, reason: str) -> None:
        """Do nothing: the worker class gthread does not report failed handshakes."""

    def certificate_failed(self) -> None:
        from console import metrics  # noqa: PLC0415 - see the class

        metrics.CREDENTIAL_FAILURES.labels("certificate").inc()
