"""The console as a service that ``berthmaster.serving.server`` runs."""

import logging
import secrets
import signal
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from berthmaster.model.errors import InputError
from berthmaster.native_api.connection import ExtenderAccess
from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.stopping import RepeatingThread
from berthmaster.serving.probes import Readiness
from berthmaster.serving.protection import require_protection
from berthmaster.serving.reloaded_files import read_regular_file
from berthmaster.serving.request_parser import BodyCollection
from berthmaster.serving.server import ReportReadiness, ServedApp, ServerOptions, shared_folder
from berthmaster.serving.server import serve as run_server
from berthmaster.serving.tokens import TokenFile
from console.authentication import SESSION_LIFETIME
from console.context import AppOptions
from console.revoked_sessions import RevokedSessions
from console.source import PAGE_DEADLINE_S, ExtenderSource, extender_clients

if TYPE_CHECKING:  # they define metrics
    from berthmaster.serving.metrics import ServingMetrics
    from console.live import StateWatcher

_LOG: Final = logging.getLogger("berthmaster.console")
_HOUSEKEEPING_S: Final = 1.0
_SECRET_BYTES: Final = 32
_REMEDY: Final = (
    "set --cert-file and --key-file, and --oidc-issuer-url, --token-file, --client-ca-file or --trusted-user-header; "
    "or listen on 127.0.0.1"
)


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """The API server that knows what visitors may see."""

    kubeconfig: Path | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The options of the console.

    Attributes:
        reviews: the API server that is asked what a visitor may see; None if each visitor may see everything.
        revoked_sessions_folder: where processes keep which sessions have ended; None for a temporary folder.
        session_secret_file: the secret that signs the cookies of sessions; None for a random one.
    """

    server: ServerOptions
    extender: ExtenderAccess
    extender_timeout_s: float = 25.0
    page_deadline_s: float = PAGE_DEADLINE_S
    app: AppOptions = AppOptions()  # noqa: RUF009 - frozen
    reviews: ReviewOptions | None = None
    revoked_sessions_folder: Path | None = None
    session_secret_file: Path | None = None


def serve(options: ConsoleOptions) -> None:
    """Serve until a signal stops the server. Ends the process.

    Raises:
        InputError: the server would show pages to any client, a file cannot be used, or a port cannot be bound.
    """
    require_protection(options.server, authenticates=options.app.sign_in.required, remedy=_REMEDY)
    if options.reviews is not None and not options.app.sign_in.required:
        raise InputError("--authorize needs a sign-in: without one, the console does not know who a visitor is")
    # Each worker reads the files; an error must show before there are workers.
    for path in options.app.sign_in.files:
        TokenFile(path)
    extender_clients(options.extender, options.extender_timeout_s)
    with shared_folder("berthmaster-console-sessions-") as folder:
        run_server(options.server, _Console(options, options.revoked_sessions_folder or folder))


class _Console:
    """The service. Metrics are defined on import and must be shared first, so workers import their module."""

    def __init__(self, options: ConsoleOptions, revoked: Path) -> None:
        self._options, self._revoked = options, revoked
        self._secret = _session_secret(options.session_secret_file)  # made before the fork: the same in all workers
        self._watcher: StateWatcher | None = None

    def application(self, metrics: "ServingMetrics") -> ServedApp:
        from console.app import ConsoleParts, create_app, refusals_of  # noqa: PLC0415 - only workers need Flask
        from console.authentication import Authentication  # noqa: PLC0415 - the same
        from console.live import EVENTS, StateWatcher  # noqa: PLC0415 - see the class

        options, clock = self._options, SystemClock()
        extender = extender_clients(options.extender, options.extender_timeout_s)
        source = ExtenderSource(extender, clock, lambda: watcher.seen, options.page_deadline_s)
        self._watcher = watcher = StateWatcher(source.version, clock, shows_cause=options.reviews is None)
        revoked = RevokedSessions(self._revoked, SESSION_LIFETIME.total_seconds())
        failed = partial(_credentials_failed, metrics)
        authentication = Authentication(options.app.sign_in, self._secret, failed, revoked=revoked)
        parts = ConsoleParts(source, watcher, authentication, clock, self._secret)
        if options.reviews is not None:
            from berthmaster.kube.http_client import load_client  # noqa: PLC0415 - most consoles ask no API server
            from console.access import NamespaceAccess  # noqa: PLC0415 - the same

            client = load_client(options.reviews.kubeconfig, options.reviews.context)
            access = NamespaceAccess(client, clock, source.namespaces)
            parts.namespaces_of, parts.may_list_events = access.namespaces_of, access.may_list_events
        tls = options.server.tls is not None
        # Half of the threads are for streams. A quarter of the other half stays free.
        app = create_app(replace(options.app, tls=tls, waiting_requests=max(1, options.server.threads * 3 // 8)), parts)
        collection = BodyCollection(options.app.form_bytes, frozenset({EVENTS}))
        return ServedApp(app, {}, collection, answers_wait=True, refusals=refusals_of(app, tls=tls))

    def started(self, report: ReportReadiness) -> None:
        watcher = self._watcher
        if watcher is None:
            return
        watcher.start()
        _stop_streams_on_signal(watcher)
        report(_readiness(watcher))
        RepeatingThread(
            "housekeeping",
            lambda: report(_readiness(watcher)),
            lambda: _HOUSEKEEPING_S,
            _LOG,
            "the worker could not report its state",
        ).start()


def _credentials_failed(metrics: "ServingMetrics", error: Exception) -> None:
    metrics.credentials_failed("tokens")
    _LOG.error("a new file with tokens or secrets cannot be used: %s; the previous ones stay valid", error)


def _readiness(watcher: "StateWatcher") -> Readiness:
    """Return the readiness of a worker. It stays ready without the extender: its pages say what is wrong."""
    return Readiness("", watcher.seen.notice)


def _stop_streams_on_signal(watcher: "StateWatcher") -> None:
    """End the streams of events when the worker must stop. It would wait for them otherwise."""
    handle: Any = signal.getsignal(signal.SIGTERM)  # gunicorn's

    def stop(number: int, frame: Any) -> None:  # noqa: ANN401 - a frame of the interpreter
        watcher.stopping = True
        handle(number, frame)

    signal.signal(signal.SIGTERM, stop)


def _session_secret(path: Path | None) -> bytes:
    if path is None:
        return secrets.token_bytes(_SECRET_BYTES)
    try:
        secret = read_regular_file(path).strip()
    except (OSError, ValueError) as error:
        raise InputError(f"the session secret cannot be read from {path}: {error}") from None
    if len(secret) < _SECRET_BYTES:
        raise InputError(
            f"{path}: a session secret needs at least {_SECRET_BYTES} bytes; make one: openssl rand -hex 32"
        )
    return secret
