"""The extender as a service that ``berthmaster.serving.server`` runs."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from berthmaster.kube.watch_options import WatchOptions
from berthmaster.model.errors import InputError
from berthmaster.native_api.connection import REVIEW_PATH
from berthmaster.native_api.wire import Staleness
from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.logs import fields, log_exceptions
from berthmaster.runtime.memory import keep_existing_objects
from berthmaster.runtime.stopping import RepeatingThread
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile
from berthmaster.serving.probes import Readiness
from berthmaster.serving.protection import require_protection
from berthmaster.serving.request_parser import BodyCollection
from berthmaster.serving.server import ReportReadiness, ServedApp, ServerOptions
from berthmaster.serving.server import serve as run_server
from berthmaster.serving.tokens import TokenFile
from extender.protocols.kube_scheduler import KubeSchedulerOptions
from extender.protocols.native import Drifts, Planner
from extender.protocols.services import FindPolicy, RequestLimits, Services
from extender.state.folder import FolderSource
from extender.state.state import NO_SOURCE, State
from extender.state.watch import WatchSource, watch_source
from extender.state.workloads import PLAIN_BINDINGS, BindingOptions

if TYPE_CHECKING:  # it defines metrics
    from berthmaster.serving.metrics import ServingMetrics

_LOG: Final = logging.getLogger("berthmaster.extender")
_HOUSEKEEPING_S: Final = 1.0
_PREPARING_S: Final = 10.0
"""How often the indexes of plans and of workloads are updated.

Questions update them as well, and must not find too many changes.
"""


@dataclass(frozen=True, slots=True)
class ExtenderOptions:
    """The options of the extender. Without ``manifests`` and ``watch`` requests bring their own clusters."""

    server: ServerOptions
    manifests: Sequence[Path] = ()
    token_file: Path | None = None
    insecure: bool = False
    limits: RequestLimits = field(default_factory=RequestLimits)
    stream_timeout_s: float = 300.0
    interval_s: float = 2.0
    bindings: BindingOptions = PLAIN_BINDINGS
    profile: Profile = field(default_factory=karmada_profile)
    pass_in_doubt: bool = True
    watch: WatchOptions | None = None
    kube_scheduler: KubeSchedulerOptions = field(default_factory=KubeSchedulerOptions)
    ledger: str | Path | None = None
    findings: FindPolicy | None = None


def serve(options: ExtenderOptions) -> None:
    """Serve until a signal stops the server. Ends the process. Raises ``InputError`` if it cannot start."""
    _require_protection(options)
    if options.token_file is not None:
        TokenFile(options.token_file)  # each worker reads the file; an error must show before there are workers
    service = _Extender(options)
    service.prepare()
    run_server(options.server, service)


def _require_protection(options: ExtenderOptions) -> None:
    """Refuse to serve beyond loopback without TLS and authentication, unless ``insecure`` is set."""
    if options.insecure:
        return
    tls = options.server.tls
    require_protection(
        options.server,
        authenticates=options.token_file is not None or (tls is not None and tls.client_ca is not None),
        remedy="set --cert-file and --key-file, and --client-ca-file or --token-file; or listen on 127.0.0.1; or set "
        "--insecure",
    )


class _Extender:
    """The service. Metrics are defined on import and must be shared first, so workers import their module."""

    def __init__(self, options: ExtenderOptions) -> None:
        self._options = options
        self._clock = SystemClock()
        self._state = State(options.profile)
        self._tokens: TokenFile | None = None
        self._services: Services | None = None
        self._planner, self._drifts = Planner(), Drifts()
        self._keeps_fleet = False
        self._source: FolderSource | WatchSource | None = None
        if options.watch is not None:
            if options.manifests:
                raise InputError("-f and --watch cannot be combined; set one of them")
            self._source = watch_source(options.watch, self._clock, options.bindings)
        elif options.manifests:
            self._source = FolderSource(
                options.manifests, self._clock, self._source_failed, options.bindings, interval_s=options.interval_s
            )
        self._state.has_source = self._source is not None
        self._state.owner = options.bindings.owner

    def prepare(self) -> None:
        if self._source is not None:
            self._source.prepare()

    def application(self, metrics: "ServingMetrics") -> ServedApp:
        from extender.app import Middleware, all_routes, create_app  # noqa: PLC0415 - only workers need Flask
        from extender.metrics import ServiceMetrics  # noqa: PLC0415 - see the class

        options, ledger = self._options, None
        if options.ledger is not None:
            from berthmaster.ledger.reader import LedgerReader  # noqa: PLC0415 - only a ledger needs SQLAlchemy

            ledger = LedgerReader(options.ledger)
        if options.token_file is not None:
            self._tokens = TokenFile(options.token_file, partial(_tokens_failed, metrics))
        self._services = Services(
            self._state, ServiceMetrics(), _LOG, self._clock, options.limits, ledger, options.findings
        )
        middleware = Middleware(
            self._services,
            request_timeout_s=options.server.request_timeout_s,
            stream_timeout_s=options.stream_timeout_s,
            authenticate=self._authenticated,
        )
        routes = all_routes(
            pass_in_doubt=options.pass_in_doubt,
            kube_scheduler_options=options.kube_scheduler,
            limits=options.profile.limits,
            planner=self._planner,
            drifts=self._drifts,
        )
        cheap = {route.path: route.cheap for route in routes if route.cheap is not None}
        streams = frozenset(route.path for route in routes if route.streamed)
        collection = BodyCollection(options.limits.body_bytes, streams, self._authenticated)
        # Reviews have threads of their own, so that no other request keeps them waiting.
        return ServedApp(create_app(middleware, routes), cheap, collection, frozenset({REVIEW_PATH}))

    def started(self, report: ReportReadiness) -> None:
        if self._source is not None:
            self._source.start(self._state)
        else:
            _LOG.warning(NO_SOURCE)
        self._report(report)
        # If this thread ended, the last report would stay in force.
        RepeatingThread(
            "housekeeping",
            partial(self._report, report),
            lambda: _HOUSEKEEPING_S,
            _LOG,
            "the worker could not report its state",
        ).start()
        if self._source is not None and self._services is not None:
            self._keep_prepared(self._planner, self._services)

    def _keep_prepared(self, planner: Planner, services: Services) -> None:
        """Keep the indexes up to date, so that the first reviews and questions after a start are answered in time."""
        from extender.fleet_metrics import FleetMetrics  # noqa: PLC0415 - see the class

        figures = FleetMetrics()

        def prepare() -> None:
            log_exceptions(services.state.prepare, _LOG, "the index of workloads could not be prepared")
            planner.prepare(services)
            if planner.is_prepared:
                self._drifts.refresh(services)
                log_exceptions(partial(figures.refresh, services), _LOG, "the figures of the fleet are not known")
            if services.state.staleness.synced and not self._keeps_fleet:
                self._keeps_fleet = True
                keep_existing_objects()  # a collection that looks at the whole fleet holds up all threads

        RepeatingThread(
            "indexes",
            prepare,
            lambda: _PREPARING_S if planner.is_prepared else _HOUSEKEEPING_S,
            _LOG,
            "the index of plans could not be prepared",
        ).start()

    def _report(self, report: ReportReadiness) -> None:
        from extender import metrics  # noqa: PLC0415 - see the class

        with self._state.reading() as memory:
            clusters, staleness = len(memory.fleet), self._state.staleness
            lookups = memory.scheduler.take_lookups()
        report(_readiness(staleness) if self._source is not None else Readiness("", NO_SOURCE))
        metrics.CLUSTERS.set(clusters)
        metrics.BINDINGS.set(self._state.bindings)
        metrics.STALE.set(staleness.stale_since is not None)
        if staleness.loaded_at is not None:
            metrics.LOADED.set(staleness.loaded_at.timestamp())
        for (cache, result), count in lookups.items():
            metrics.CACHE_LOOKUPS.labels(cache, result).inc(count)

    def _source_failed(self, error: InputError) -> None:
        from extender import metrics  # noqa: PLC0415 - see the class

        metrics.SOURCE_FAILURES.labels("folder").inc()
        _LOG.error(
            "the new state cannot be used: %s; the previous one stays in use", error, extra=fields(source="folder")
        )

    def _authenticated(self, environ: Mapping[str, Any]) -> bool:
        return self._tokens is None or self._tokens.name_of(environ.get("HTTP_AUTHORIZATION", "")) is not None


def _tokens_failed(metrics: "ServingMetrics", error: Exception) -> None:
    metrics.credentials_failed("tokens")
    _LOG.error("the new token file cannot be used: %s; the previous tokens stay valid", error)


def _readiness(staleness: Staleness) -> Readiness:
    if not staleness.synced:
        return Readiness(f"no fleet is known yet{f': {staleness.problem}' if staleness.problem else ''}")
    if staleness.stale_since is not None:
        since = staleness.stale_since.isoformat(timespec="seconds")
        return Readiness("", f"stale since {since}: {staleness.problem}")
    return Readiness()
