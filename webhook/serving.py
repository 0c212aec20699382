"""The webhook as a service that ``berthmaster.serving.server`` runs."""

from dataclasses import dataclass, field
from typing import Final

from berthmaster.serving.framing import BodyCollection
from berthmaster.serving.probes import Readiness
from berthmaster.serving.server import ReportReadiness, ServedApp, ServerOptions
from berthmaster.serving.server import serve as run_server
from webhook.admission.reviews import ROUTES
from webhook.admission.settings import AdmissionSettings

_CHEAP_BYTES: Final = 16 * 2**10


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The options of the webhook.

    Attributes:
        server: the options of the server.
        body_bytes: the size limit of a review.
        settings: the settings of the reviews.
    """

    server: ServerOptions
    body_bytes: int = 7 * 2**20
    settings: AdmissionSettings = field(default_factory=AdmissionSettings)


def serve(options: WebhookOptions) -> None:
    """Serve until a signal stops the server. Ends the process.

    Raises:
        InputError: the certificate cannot be used, or a port cannot be bound.
    """
    run_server(options.server, _Webhook(options))


def _is_cheap(body: bytes) -> bool:
    """Return whether a review takes at most about 2 ms. Its cost is linear in its size."""
    return len(body) <= _CHEAP_BYTES


class _Webhook:
    """The service. Metrics are defined on import and must be shared first, so workers import the modules."""

    def __init__(self, options: WebhookOptions) -> None:
        self._options = options

    def application(self) -> ServedApp:
        from webhook.app import Reviewer, create_app  # noqa: PLC0415 - see the class

        reviewer = Reviewer(self._options.settings)
        body_bytes = self._options.body_bytes
        app = create_app(reviewer, body_bytes=body_bytes)
        return ServedApp(app, dict.fromkeys(ROUTES, _is_cheap), BodyCollection(body_bytes))

    def started(self, report: ReportReadiness) -> None:
        report(Readiness())

    def certificate_loaded(self, expires_at: float) -> None:
        from webhook import metrics  # noqa: PLC0415 - see the class

        metrics.CERTIFICATE_EXPIRY.set(expires_at)

    def handshake_failed(self, reason: str) -> None:
        from webhook import metrics  # noqa: PLC0415 - see the class

        metrics.HANDSHAKE_FAILURES.labels(reason).inc()

    def certificate_failed(self) -> None:
        from webhook import metrics  # noqa: PLC0415 - see the class

        metrics.CERTIFICATE_FAILURES.inc()
