"""The extender as something that ``berthmaster.serving.server`` runs."""

import ipaddress
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from berthmaster.kube.kinds import WatchOptions
from berthmaster.model.errors import InputError
from berthmaster.model.replicas import ReplicaPath
from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.logs import log_exceptions
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile
from berthmaster.serving.probes import Readiness
from berthmaster.serving.server import Application, PostHealth, ServerOptions
from berthmaster.serving.server import serve as run_server
from berthmaster.serving.tokens import TokenFile
from extender.protocols.kube_scheduler import Options as KubeSchedulerOptions
from extender.protocols.services import Limits, Services
from extender.state.folder import FolderSource
from extender.state.state import Freshness, State
from extender.state.watch import WatchSource, watch_source

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_LOG: Final = logging.getLogger("berthmaster.extender")
_HOUSEKEEPING_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ExtenderOptions:
    """How to serve.

    Attributes:
        server: where, with how many processes, and for how long.
        manifests: files and folders with clusters, policies, bindings and resources; none for requests that bring
            their own clusters only.
        token_file: bearer tokens; None where none is asked for.
        insecure: serve beyond loopback even without TLS and authentication.
        limits: how much one request may ask for.
        stream_timeout_s: how long a batch may take in all.
        interval_s: how often the manifests are looked at.
        replica_paths: where custom resources keep their replicas.
        workload_affinity: Karmada's gate of that name.
        profile: how to decide.
        pass_in_doubt: KubeAdmiral's filter lets a cluster pass that it cannot judge.
        watch: what to watch of an API server, instead of manifests; None for nothing.
        kube_scheduler: how that protocol is configured.
    """

    server: ServerOptions
    manifests: Sequence[Path] = ()
    token_file: Path | None = None
    insecure: bool = False
    limits: Limits = field(default_factory=Limits)
    stream_timeout_s: float = 300.0
    interval_s: float = 2.0
    replica_paths: Sequence[ReplicaPath] = ()
    workload_affinity: bool = False
    profile: Profile = field(default_factory=karmada_profile)
    pass_in_doubt: bool = True
    watch: WatchOptions | None = None
    kube_scheduler: KubeSchedulerOptions = field(default_factory=KubeSchedulerOptions)


def serve(options: ExtenderOptions) -> None:
    """Serve until a signal says to stop. Ends the process.

    Raises:
        InputError: it would be open to everybody, a file cannot be used, or a port cannot be bound.
    """
    require_protection(options)
    if options.token_file is not None:
        TokenFile(options.token_file)  # each worker reads it by itself; a mistake should show before there are any
    service = _Extender(options)
    service.prepare()
    run_server(options.server, service)


def require_protection(options: ExtenderOptions) -> None:
    """See that not everybody who reaches the port may ask, and nobody listens.

    Raises:
        InputError: it is so, and nobody said that it may.
    """
    if options.insecure or _is_loopback(options.server.host):
        return
    authenticated = options.token_file is not None or (
        options.server.tls is not None and options.server.tls.client_ca is not None
    )
    if options.server.tls is None or not authenticated:
        missing = "TLS" if options.server.tls is None else "authentication"
        raise InputError(
            f"{options.server.host} can be reached from outside, and there is no {missing}: give --cert-file and "
            "--key-file, and --client-ca-file or --token-file; or listen on 127.0.0.1; or say --insecure"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Extender:
    """The service. Metrics are defined on import, after they are shared: their module is imported in the worker."""

    def __init__(self, options: ExtenderOptions) -> None:
        self._options = options
        self._clock = SystemClock()
        self._state = State(options.profile)
        self._tokens: TokenFile | None = None
        self._source: FolderSource | WatchSource | None = None
        if options.watch is not None:
            if options.manifests:
                raise InputError("the fleet comes from manifests or from an API server: give one of them")
            self._source = watch_source(options.watch, self._clock)
        elif options.manifests:
            self._source = FolderSource(
                options.manifests,
                self._clock,
                self,
                interval_s=options.interval_s,
                replica_paths=options.replica_paths,
                workload_affinity=options.workload_affinity,
            )

    def prepare(self) -> None:
        """Read the manifests before there are workers.

        Raises:
            InputError: something is wrong with them.
        """
        if self._source is not None:
            self._source.prepare()

    def application(self) -> Application:
        """The WSGI application of a worker."""
        from extender.app import create_app  # noqa: PLC0415 - Flask is the worker's alone
        from extender.frame import Frame  # noqa: PLC0415 - the same
        from extender.metrics import PrometheusMeter  # noqa: PLC0415 - see the class
        from extender.table import all_routes  # noqa: PLC0415 - the same

        options = self._options
        if options.token_file is not None:
            self._tokens = TokenFile(options.token_file, self._tokens_failed)
        meter = PrometheusMeter()
        frame = Frame(
            Services(self._state, meter, _LOG, self._clock, options.limits),
            meter,
            request_timeout_s=options.server.request_timeout_s,
            stream_timeout_s=options.stream_timeout_s,
            authenticate=self._authenticated,
        )
        routes = all_routes(pass_in_doubt=options.pass_in_doubt, kube_scheduler_options=options.kube_scheduler)
        return Application(create_app(frame, routes), [route.path for route in routes if route.prompt])

    def started(self, post: PostHealth) -> None:
        """Begin to feed the state, and to say how the worker is."""
        if self._source is not None:
            self._source.start(self._state)
        self._keep_house(post)
        threading.Thread(target=self._keep_keeping_house, args=(post,), name="housekeeping", daemon=True).start()

    def _keep_keeping_house(self, post: PostHealth) -> None:
        pause = threading.Event()
        while not pause.wait(_HOUSEKEEPING_S):
            # Without it the last that was said would stand for good, fresh and ready.
            log_exceptions(partial(self._keep_house, post), _LOG, "the worker could not say how it is")

    def _keep_house(self, post: PostHealth) -> None:
        """Say how fresh the state is, in the probes and in the metrics."""
        from extender import metrics  # noqa: PLC0415 - see the class

        with self._state.reading() as memory:
            clusters, bindings, freshness = len(memory.fleet), memory.bindings, self._state.freshness
            lookups = memory.scheduler.take_lookups()
        post(_health(freshness) if self._source is not None else Readiness())
        metrics.CLUSTERS.set(clusters)
        metrics.BINDINGS.set(bindings)
        metrics.STALE.set(freshness.stale_since is not None)
        if freshness.loaded_at is not None:
            metrics.LOADED.set(freshness.loaded_at.timestamp())
        for (cache, result), count in lookups.items():
            metrics.CACHE_LOOKUPS.labels(cache, result).inc(count)

    def source_loaded(self, source: str) -> None:
        """A new state is in force."""
        _LOG.info("the state was loaded", extra={"fields": {"source": source}})

    def source_failed(self, source: str, error: InputError) -> None:
        """A new state cannot be used."""
        from extender import metrics  # noqa: PLC0415 - see the class

        metrics.SOURCE_FAILURES.labels(source).inc()
        _LOG.error("the new state is not used: %s; the last one stays", error, extra={"fields": {"source": source}})

    def certificate_loaded(self, expires_at: float) -> None:
        """A certificate is in use."""
        from extender import metrics  # noqa: PLC0415 - see the class

        metrics.CERTIFICATE_EXPIRY.set(expires_at)

    def certificate_failed(self, error: Exception) -> None:
        """A new certificate cannot be used."""
        self._credential_failed("certificate", error)

    def _tokens_failed(self, error: Exception) -> None:
        self._credential_failed("tokens", error)

    def _credential_failed(self, kind: str, error: Exception) -> None:
        from extender import metrics  # noqa: PLC0415 - see the class

        metrics.CREDENTIAL_FAILURES.labels(kind).inc()
        _LOG.error("new %s not used: %s; the last one stays", kind, error)

    def _authenticated(self, environ: "WSGIEnvironment") -> bool:
        """Whether a request may ask. Client certificates were checked in the handshake."""
        return self._tokens is None or self._tokens.name_of(environ.get("HTTP_AUTHORIZATION", "")) is not None


def _health(freshness: Freshness) -> Readiness:
    if not freshness.synced:
        return Readiness(f"no fleet is known yet{f': {freshness.problem}' if freshness.problem else ''}")
    if freshness.stale_since is not None:
        return Readiness("", f"stale since {freshness.stale_since.isoformat(timespec='seconds')}: {freshness.problem}")
    return Readiness()
