"""The webhook as a service that ``berthmaster.serving.server`` runs."""

import atexit
import logging
import math
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from berthmaster.native_api.connection import ExtenderAccess
from berthmaster.runtime.clock import SystemClock
from berthmaster.serving.probes import Readiness
from berthmaster.serving.request_parser import BodyCollection
from berthmaster.serving.server import ReportReadiness, ServedApp, ServerOptions
from berthmaster.serving.server import serve as run_server
from berthmaster.version import __version__
from webhook.admission.blast_radius import RULE
from webhook.admission.catalog import IMPACT_PATHS, ROUTES
from webhook.admission.settings import AdmissionSettings, Level

if TYPE_CHECKING:
    from berthmaster.kube.events import EventRecorder
    from berthmaster.ledger.recorder import LedgerRecorder
    from berthmaster.serving.metrics import ServingMetrics
    from webhook.impact import ExtenderImpact

_LOG: Final = logging.getLogger("berthmaster.webhook")
_CHEAP_BYTES: Final = 16 * 2**10
"""Up to this size a review takes at most about 2 ms: its cost is linear in its size."""
_SEGMENT_S: Final = 60.0
"""Short, so that another worker soon notices the segment of a worker that was killed."""
_CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ImpactOptions:
    """How to ask the extender for the impact of changes.

    Attributes:
        events: whether to record events about the gate, on the API server of ``kubeconfig`` and ``context``.
    """

    access: ExtenderAccess
    timeout_s: float = 0.3
    events: bool = False
    kubeconfig: Path | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The options of the webhook."""

    server: ServerOptions
    body_bytes: int = 7 * 2**20
    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    impact: "ImpactOptions | None" = None
    ledger: str | Path | None = None


def serve(options: WebhookOptions) -> None:
    """Serve until a signal stops the server. Ends the process.

    Raises:
        InputError: the certificate cannot be used, or a port cannot be bound.
    """
    run_server(options.server, _Webhook(options))


def _impact(options: ImpactOptions, settings: AdmissionSettings, serving: "ServingMetrics") -> "ExtenderImpact":
    from webhook import metrics  # noqa: PLC0415 - see _Webhook
    from webhook.extender_client import ExtenderClient  # noqa: PLC0415 - the HTTP library takes time to import
    from webhook.impact import ExtenderImpact  # noqa: PLC0415 - the same

    def failed(error: Exception) -> None:
        serving.credentials_failed("extender")
        _LOG.error("the new credentials for the extender cannot be used: %s; the previous ones stay in use", error)

    client = ExtenderClient(options.access, failed)
    gate = settings.levels.get(RULE, Level.OFF)
    patient = gate is Level.DENY and settings.unjudged is Level.DENY
    return ExtenderImpact(
        client, SystemClock(), metrics.impact_answered,
        timeout_s=math.inf if patient else options.timeout_s,
        concurrency=options.access.connections,
        limits=settings.blast_radius if gate is not Level.OFF else None,
    )  # fmt: skip


def _recorder(options: ImpactOptions) -> "EventRecorder":
    from berthmaster.kube.events import EventRecorder  # noqa: PLC0415 - only events need an API client
    from berthmaster.kube.http_client import load_client  # noqa: PLC0415 - the same
    from webhook import metrics  # noqa: PLC0415 - see _Webhook
    from webhook.gate_events import CONTROLLER  # noqa: PLC0415 - the same

    client = load_client(options.kubeconfig, options.context)
    recorder = EventRecorder(
        client, SystemClock(), CONTROLLER, socket.gethostname(), lambda result: metrics.EVENTS.labels(result).inc()
    )
    recorder.start()
    atexit.register(recorder.stop)
    return recorder


def _ledger(url: str | Path) -> "LedgerRecorder":
    """Return a recorder of this worker. Other workers write segments of their own."""
    from berthmaster.ledger.entries import Configuration  # noqa: PLC0415 - only a ledger needs these modules
    from berthmaster.ledger.recorder import LedgerRecorder  # noqa: PLC0415 - the same

    writer = f"{socket.gethostname()}/{os.getpid()}"
    recorder = LedgerRecorder(
        url, "webhook", writer, Configuration(__version__, ()), SystemClock(), segment_s=_SEGMENT_S, alone=False
    )
    recorder.start()
    atexit.register(recorder.close, _CLOSE_S)
    return recorder


class _Webhook:
    """The service. Metrics are defined on import and must be shared first, so workers import the modules."""

    def __init__(self, options: WebhookOptions) -> None:
        self._options = options

    def application(self, metrics: "ServingMetrics") -> ServedApp:
        from webhook.app import create_app  # noqa: PLC0415 - see the class
        from webhook.reviewer import Reviewer  # noqa: PLC0415 - see the class

        options = self._options
        reviewer = Reviewer(
            options.settings,
            impact=_impact(options.impact, options.settings, metrics) if options.impact is not None else None,
            timeout_s=options.server.request_timeout_s,
            events=_recorder(options.impact) if options.impact is not None and options.impact.events else None,
            ledger=_ledger(options.ledger) if options.ledger is not None else None,
        )
        app = create_app(reviewer, body_bytes=options.body_bytes)
        waiting = IMPACT_PATHS if options.impact is not None else frozenset()
        cheap = {
            path: (lambda _body: False) if path in waiting else (lambda body: len(body) <= _CHEAP_BYTES)
            for path in ROUTES
        }
        return ServedApp(app, cheap, BodyCollection(options.body_bytes), waiting)

    def started(self, report: ReportReadiness) -> None:
        report(Readiness())
